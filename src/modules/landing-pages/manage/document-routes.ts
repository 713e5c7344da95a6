import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { sendWithoutBody } from '../../../http/responses.ts'
import { conditionalRead, errors, IdParams, nothing, PublishHeaders, RECEIPT,
  response } from '../../../http/schemas.ts'
import { parseBareDocument } from '../document.ts'
import { documentValidators, recordValidators } from '../etag.ts'
import { Document, DOCUMENT, KeyParams, LandingPage } from '../schemas.ts'
import { draftRoutes } from './draft-routes.ts'
import { patchRoutes } from './patch-routes.ts'
import { sendUnlessKnown, recordJson, sendNewPage } from './record.ts'
import { checkedDocument, documentOfOwner, findOwnPage, replaceAndPublish, replaceDocument, untilWritten,
  writeAndPublish } from './write-checks.ts'
import { InvalidError, NotFoundError, PreconditionFailedError } from '../../../errors.ts'
import { checkPreconditions, hasConditions } from '../../../http/conditional-requests.ts'
import { PAGE_KEY_RULE } from '../../../infra/system/identifiers.ts'
import { createPage, describeTaken, KeyTakenError } from '../write-repository.ts'
import { findPageByKey } from '../landing-page-repository.ts'

const getDocumentSchema = {
  operationId: 'getDocument',
  summary: "Read the document of one of the caller's Landing Pages",
  description: 'Returns the document byte for byte as it was sent, without the record.',
  params: IdParams,
  ...conditionalRead(Document, 'The document')
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
  await app.register(patchRoutes)
  const url = '/manage/landing_pages/:id/document'
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', parseBareDocument)
  await app.register(draftRoutes)
  await app.register(keyRoutes)

  app.get(url, { schema: getDocumentSchema }, async (request, reply) => {
    const page = await findOwnPage(request)
    return sendUnlessKnown(request, reply, documentValidators(page), page.currentData)
  })

  app.put(url, {
    schema: putDocumentSchema,
    bodyLimit: app.config.MAX_DOCUMENT_BYTES,
    attachValidation: true
  }, async (request, reply) => {
    const document = await documentOfOwner(request) as string // required by the schema
    const page = await replaceDocument(request, document, documentValidators)
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })
}

const getByKeySchema = {
  operationId: 'getLandingPageByKey',
  summary: 'Read the Landing Page with a key',
  description: 'Returns the record of the page. 404 if no page has the key, or the page is in the trash.',
  params: KeyParams,
  ...conditionalRead(LandingPage, 'The page')
}
const putByKeySchema = {
  operationId: 'putLandingPageByKey',
  summary: 'Create the Landing Page with a key, or replace its document',
  description:
    'The body is the document itself, which is stored byte for byte. If no page has the key, a published ' +
    'page is created, and the response is its record; with `If-None-Match: *`, nothing is replaced. 422 if ' +
    'the page with the key is in the trash.',
  params: KeyParams,
  headers: PublishHeaders,
  body: { ...Document, examples: [DOCUMENT] },
  response: {
    201: response(LandingPage, 'The page is created', 'ETag', 'Location', ...RECEIPT),
    204: nothing("The document is stored. `ETag` is the new document's", 'ETag', ...RECEIPT),
    ...errors([422], [], { 422: `Key ${PAGE_KEY_RULE}` })
  }
}

/** The routes of pages by their keys. */
export const keyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/by-key/:key'

  app.get(url, { schema: getByKeySchema }, async (request, reply) => {
    const page = await findPageByKey(database, request.caller.userId, request.params.key)
    if (page === null || page.deletedAt !== null) throw new NotFoundError()
    return sendUnlessKnown(request, reply, recordValidators(page), recordJson(page))
  })

  const create = async (request: FastifyRequest, key: string, document: string) => {
    const { caller } = request
    try {
      return await writeAndPublish(request, createPage(database, caller, document, { key }))
    } catch (error) {
      if (error instanceof KeyTakenError) return null
      throw error
    }
  }

  app.put(url, {
    schema: putByKeySchema,
    bodyLimit: app.config.MAX_DOCUMENT_BYTES,
    attachValidation: true
  }, async (request, reply) => {
    const { caller, headers, params: { key }, validationError } = request
    if (validationError instanceof NotFoundError) throw new InvalidError([`Key ${PAGE_KEY_RULE}`])
    if (validationError !== undefined) throw validationError
    const document = checkedDocument(request) as string // required by the schema
    return await untilWritten(request, async () => {
      const found = await findPageByKey(database, caller.userId, key)
      if (found === null) {
        if (headers['if-match'] !== undefined) throw new PreconditionFailedError('If-Match', undefined)
        const page = await create(request, key, document)
        return page && sendNewPage(request, reply, page)
      }
      if (found.deletedAt !== null) throw new InvalidError([describeTaken(found)])
      checkPreconditions(request, documentValidators(found))
      const read = hasConditions(headers) ? found : null
      const page = await replaceAndPublish(request, found.id, document, read)
      return page && sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
    })
  })
}
