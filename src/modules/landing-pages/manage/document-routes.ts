import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { clock } from '../../../infra/system/clock.ts'
import { NotFoundError } from '../../../errors.ts'
import { checkPreconditions, isNotModified } from '../../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { documentVersion } from '../public/cached-document.ts'
import { parseBareDocument } from '../document.ts'
import { documentValidators, writeConditions } from '../etag.ts'
import type { LandingPageRepository } from '../landing-page-repository.ts'
import { getDocumentSchema, putDocumentSchema } from '../document-schemas.ts'
import { patchRoutes } from './patch-routes.ts'
import { sendJson } from './record.ts'
import { createMismatchError, documentOfOwner, ownPage } from './write-checks.ts'

/** The routes of a document by itself, without its record. */
export const documentRoutes: FastifyPluginAsyncTypebox<{ pages: LandingPageRepository }> = async (
  app,
  { pages }
) => {
  await app.register(patchRoutes, { pages })
  const { MAX_DOCUMENT_BYTES: maxBytes } = app.config
  const url = '/manage/landing_pages/:id/document'
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', parseBareDocument)

  app.get(url, { schema: getDocumentSchema }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const page = await pages.find(userId, id)
    if (page === null) throw new NotFoundError()
    const validators = documentValidators(page)
    checkPreconditions(request, validators)
    reply.header('etag', validators.etag)
    if (isNotModified(request.headers, validators)) return sendWithoutBody(reply.code(304))
    return sendJson(reply, page.currentData)
  })

  app.put(url, {
    schema: putDocumentSchema,
    bodyLimit: maxBytes,
    attachValidation: true
  }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const document = await documentOfOwner(request, maxBytes, pages) as string // required by the schema
    const startedAt = clock.now()
    const page = await pages.replace(userId, id, document, writeConditions(request.headers))
    if (page === null) throw await createMismatchError(pages, request, documentValidators)
    await app.documents.publish(page.publicId, documentVersion(page), startedAt)
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })
}
