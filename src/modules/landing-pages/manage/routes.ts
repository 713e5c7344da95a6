import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import type { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { checkCreation, checkPreconditions, contentHash } from '../../../http/conditional-requests.ts'
import { entityTag } from '../../../http/content-encoding.ts'
import { OLDEST, addNextLink, createListQueue, sortedPageOf } from '../../../http/pagination.ts'
import { parseTime } from '../../../http/time.ts'
import { InvalidError } from '../../../errors.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { runInTurn } from '../../accounts/index.ts'
import { parseDocumentBody } from '../document.ts'
import { recordValidators } from '../etag.ts'
import { createPage, replacePage, type PageFields } from '../write-repository.ts'
import type { LandingPage } from '../landing-page-repository.ts'
import { listPages, type PageListPage } from '../list-repository.ts'
import { createSchema, deleteSchema, getSchema, listSchema, updateSchema,
  type ChangesQuery } from '../schemas.ts'
import { documentRoutes } from './document-routes.ts'
import { publicationRoutes } from './publication-routes.ts'
import { readCountRoutes } from './read-count-routes.ts'
import { recordJson, sendNewPage, sendRecord, sendUnlessKnown } from './record.ts'
import { sendReceipts } from './receipts.ts'
import { revisionRoutes } from './revision-routes.ts'
import { scheduleRoutes } from './schedule-routes.ts'
import { summaryRoutes } from './summary-routes.ts'
import { trashRoutes } from './trash-routes.ts'
import { allowNoBody, checkedDocument, deletePage, documentOfOwner, findOwnPage, replaceDocument,
  untilWritten, writeAndPublish } from './write-checks.ts'

/** Bytes allowed in addition to the document: the enclosing object, other fields and white space. */
const ENVELOPE_BYTES = 64 * 1024

type App = Parameters<FastifyPluginAsyncTypebox>[0]

/** The owner's routes. They need the authenticated scope. */
export const manageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const lists = createListQueue()
  sendReceipts(app)
  // Their bodies are ordinary JSON.
  await app.register(publicationRoutes)
  await app.register(scheduleRoutes)
  await app.register(trashRoutes)
  app.decorateRequest('document', undefined)
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', parseDocumentBody)
  addCreateRoute(app)
  addReadRoutes(app, lists)
  addUpdateRoute(app)
  addDeleteRoute(app)
  await app.register(documentRoutes)
  await app.register(revisionRoutes)
  await app.register(readCountRoutes)
  await app.register(summaryRoutes, { lists })
}

function addCreateRoute (app: App): void {
  app.post('/landing_pages', {
    schema: createSchema,
    bodyLimit: app.config.MAX_DOCUMENT_BYTES + ENVELOPE_BYTES
  }, async (request, reply) => {
    checkCreation(request)
    const document = checkedDocument(request) as string // required by the schema
    const created = createPage(app.database, request.caller, document, fieldsOf(request.body))
    return sendNewPage(request, reply, await writeAndPublish(request, created))
  })
}

function addReadRoutes (app: App, lists: KeyedSemaphore<number>): void {
  app.get('/manage/landing_pages', { schema: listSchema }, async (request, reply) => {
    const page = listPageOf(request.query)
    const { userId } = request.caller
    const { pages, next } = await runInTurn(
      lists,
      request,
      async () => await listPages(app.database, userId, page)
    )
    addNextLink(reply, '/manage/landing_pages', page, next)
    const json = `[${pages.map(recordJson).join(',')}]`
    const etag = entityTag(contentHash(`${json}${next ?? ''}`))
    return sendUnlessKnown(request, reply, { etag }, json)
  })

  app.get('/manage/landing_pages/:id', { schema: getSchema }, async (request, reply) => {
    const page = await findOwnPage(request)
    return sendUnlessKnown(request, reply, recordValidators(page), recordJson(page))
  })
}

/** The page of the list that a query asks for. @throws {InvalidError} 422 */
function listPageOf (query: Static<typeof ChangesQuery>): PageListPage {
  const { sort, ...unsorted } = query
  const { updated_since: since, cursor } = unsorted
  if (since === undefined) return sortedPageOf(query)
  if (sort !== undefined) throw new InvalidError(["Sort can't be used with updated_since"])
  const page = sortedPageOf(unsorted, 'changed')
  return cursor === undefined ? { ...page, after: { id: OLDEST, value: `${parseTime(since)}` } } : page
}

function addUpdateRoute (app: App): void {
  app.patch('/manage/landing_pages/:id', {
    schema: updateSchema,
    bodyLimit: app.config.MAX_DOCUMENT_BYTES + ENVELOPE_BYTES,
    preValidation: allowNoBody,
    attachValidation: true
  }, async (request, reply) => {
    const document = await documentOfOwner(request)
    const { key } = fieldsOf(request.body)
    return sendRecord(
      reply,
      document !== undefined ? await replaceDocument(request, document, recordValidators, { key })
        : key === undefined ? await findUnchanged(request)
        : await replaceKey(request, key)
    )
  })
}

function addDeleteRoute (app: App): void {
  app.delete('/manage/landing_pages/:id', { schema: deleteSchema }, async (request, reply) => {
    await deletePage(request)
    return sendWithoutBody(reply.code(204))
  })
}

/** The fields beside the document. As with the document, those outside of `landing_page` take precedence. */
const fieldsOf = (body: PageFields & { readonly landing_page?: PageFields }): PageFields => ({
  ...body.landing_page,
  ...body
})

/** Replaces the key of the page that a request names, without a change of its document. */
async function replaceKey (request: FastifyRequest, key: string | null): Promise<LandingPage> {
  const { caller, server: { database } } = request
  return await untilWritten(request, async () => {
    const page = await findUnchanged(request)
    if (page.key === key) return page
    return await replacePage(database, caller, page.id, page.currentData, page, { key })
  })
}

/** Returns the current page for a PATCH without a document. */
async function findUnchanged (request: FastifyRequest): Promise<LandingPage> {
  const page = await findOwnPage(request)
  checkPreconditions(request, recordValidators(page))
  return page
}
