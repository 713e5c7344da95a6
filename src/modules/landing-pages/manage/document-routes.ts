import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendWithoutBody } from '../../../http/responses.ts'
import { parseBareDocument } from '../document.ts'
import { documentValidators, writeConditions } from '../etag.ts'
import { replacePage } from '../landing-page-repository.ts'
import { getDocumentSchema, putDocumentSchema } from '../document-schemas.ts'
import { patchRoutes } from './patch-routes.ts'
import { sendUnlessKnown } from './record.ts'
import { writeAndPublish } from './write-and-publish.ts'
import { createMismatchError, documentOfOwner, findOwnPage, ownPage } from './write-checks.ts'

/** The routes of a document by itself, without its record. */
export const documentRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  await app.register(patchRoutes)
  const { MAX_DOCUMENT_BYTES: maxBytes } = app.config
  const url = '/manage/landing_pages/:id/document'
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', parseBareDocument)

  app.get(url, { schema: getDocumentSchema }, async (request, reply) => {
    const page = await findOwnPage(database, request)
    return sendUnlessKnown(request, reply, documentValidators(page), page.currentData)
  })

  app.put(url, {
    schema: putDocumentSchema,
    bodyLimit: maxBytes,
    attachValidation: true
  }, async (request, reply) => {
    const { id } = ownPage(request)
    const document = await documentOfOwner(request, maxBytes, database) as string // required by the schema
    const page = await writeAndPublish(
      app,
      async () => await replacePage(database, request.caller, id, document, writeConditions(request.headers))
    )
    if (page === null) throw await createMismatchError(database, request, documentValidators)
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })
}
