import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { sendWithoutBody } from '../../../http/responses.ts'
import { errors, IdParams, nothing, PublishHeaders, ReadConditions, RECEIPT,
  response } from '../../../http/schemas.ts'
import { parseBareDocument } from '../document.ts'
import { documentValidators } from '../etag.ts'
import { Document, DOCUMENT } from '../schemas.ts'
import { draftRoutes } from './draft-routes.ts'
import { keyRoutes } from './key-routes.ts'
import { patchRoutes } from './patch-routes.ts'
import { sendUnlessKnown } from './record.ts'
import { documentOfOwner, findOwnPage, replaceDocument } from './write-checks.ts'

const getDocumentSchema = {
  operationId: 'getDocument',
  summary: "Read the document of one of the caller's Landing Pages",
  description: 'Returns the document byte for byte as it was sent, without the record.',
  params: IdParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The document', 'ETag'),
    304: nothing('The document has not changed', 'ETag')
  }
}
const putDocumentSchema = {
  operationId: 'putDocument',
  summary: 'Replace the document of a Landing Page',
  description:
    'The body is the document itself. The service stores it byte for byte, including white space around ' +
    'it. Readers see the new document immediately.',
  params: IdParams,
  headers: PublishHeaders,
  body: { ...Document, examples: [DOCUMENT] },
  response: {
    204: nothing("The document is stored. `ETag` is the new document's", 'ETag', ...RECEIPT),
    ...errors([422], [], { 422: 'Request body must be a JSON object or array' })
  }
}

/** The routes of a document by itself, without its record. */
export const documentRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  await app.register(patchRoutes)
  const { MAX_DOCUMENT_BYTES: maxBytes } = app.config
  const url = '/manage/landing_pages/:id/document'
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', parseBareDocument)
  await app.register(draftRoutes)
  await app.register(keyRoutes)

  app.get(url, { schema: getDocumentSchema }, async (request, reply) => {
    const page = await findOwnPage(database, request)
    return sendUnlessKnown(request, reply, documentValidators(page), page.currentData)
  })

  app.put(url, {
    schema: putDocumentSchema,
    bodyLimit: maxBytes,
    attachValidation: true
  }, async (request, reply) => {
    const document = await documentOfOwner(request, maxBytes, database) as string // required by the schema
    const page = await replaceDocument(request, document, documentValidators)
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })
}
