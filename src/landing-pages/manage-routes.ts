import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { clock } from '../clock.ts'
import { InvalidError, NotFoundError, PreconditionFailedError, TooLargeError } from '../errors.ts'
import { isUuid } from '../identifiers.ts'
import { nextLink, parsePage } from '../pagination.ts'
import { sendNothing } from '../reply.ts'
import { documentVersion } from './document-cache.ts'
import { findDocument } from './document.ts'
import { entityTag, isUnmodified, namesVersion, parseTags, type TagList } from './etag.ts'
import { LandingPageRepository, type LandingPage } from './repository.ts'
import { createSchema, deleteSchema, getSchema, listSchema, updateSchema } from './schemas.ts'

const MAX_DEPTH = 100
/** What a request may hold beside its document: the envelope, other fields, white space. */
const ENVELOPE_BYTES = 64 * 1024

/** The owner's routes, for the authenticated scope. */
export const manageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const pages = new LandingPageRepository(app.database)
  const bodyLimit = app.config.MAX_DOCUMENT_BYTES + ENVELOPE_BYTES
  const documentIn = (request: FastifyRequest) => checkedDocument(request, app.config.MAX_DOCUMENT_BYTES)

  app.post('/landing_pages', { schema: createSchema, bodyLimit }, async (request, reply) => {
    const document = documentIn(request)
    if (document === undefined) throw new InvalidError(["Current data can't be blank"])
    const startedAt = clock.now()
    const page = await pages.create(request.session.userId, document)
    await app.documents.publish(page.publicId, documentVersion(page), startedAt)
    return sendRecord(reply.code(201), page)
  })

  app.get('/manage/landing_pages', { schema: listSchema }, async (request, reply) => {
    const page = parsePage(request.query)
    const { pages: found, nextBefore } = await pages.list(request.session.userId, page)
    if (nextBefore !== undefined) reply.header('link', nextLink(`${app.baseUrl()}/manage/landing_pages`, page, nextBefore))
    return sendJson(reply, `[${found.map(recordJson).join(',')}]`)
  })

  app.get('/manage/landing_pages/:id', { schema: getSchema }, async (request, reply) => {
    const page = await pages.find(request.session.userId, idOf(request))
    if (page === null) throw new NotFoundError()
    if (isUnmodified(request.headers['if-none-match'], page.contentHash)) {
      return sendNothing(reply.code(304).header('etag', entityTag(page.contentHash)))
    }
    return sendRecord(reply, page)
  })

  app.patch('/manage/landing_pages/:id', { schema: updateSchema, bodyLimit }, async (request, reply) => {
    const id = idOf(request)
    const { userId } = request.session
    const ifMatch = ifMatchOf(request)
    const document = await documentFor(request, userId, id)
    if (document === undefined) {
      const page = await pages.find(userId, id)
      if (page === null) throw new NotFoundError()
      if (ifMatch !== undefined && !namesVersion(ifMatch, page.contentHash)) throw new PreconditionFailedError()
      return sendRecord(reply, page)
    }
    const startedAt = clock.now()
    const page = await pages.replace(userId, id, document, ifMatch)
    if (page === null) throw await whyUntouched(userId, id)
    await app.documents.publish(page.publicId, documentVersion(page), startedAt)
    return sendRecord(reply, page)
  })

  app.delete('/manage/landing_pages/:id', { schema: deleteSchema }, async (request, reply) => {
    const id = idOf(request)
    const publicId = await pages.delete(request.session.userId, id, ifMatchOf(request))
    if (publicId === null) throw await whyUntouched(request.session.userId, id)
    await app.documents.publish(publicId, undefined)
    return sendNothing(reply.code(204))
  })

  /** What is no document is the owner's business: to everybody else there is no page, whatever they send. */
  async function documentFor (request: FastifyRequest, userId: number, id: string): Promise<string | undefined> {
    try {
      return documentIn(request)
    } catch (error) {
      throw await pages.find(userId, id) === null ? new NotFoundError() : error
    }
  }

  async function whyUntouched (userId: number, id: string): Promise<Error> {
    return await pages.find(userId, id) === null ? new NotFoundError() : new PreconditionFailedError()
  }
}

function idOf (request: FastifyRequest): string {
  const { id } = request.params as { id: string }
  if (!isUuid(id)) throw new NotFoundError()
  return id
}

function ifMatchOf (request: FastifyRequest): TagList | undefined {
  const header = request.headers['if-match']
  return header === undefined ? undefined : parseTags(header, 'strong')
}

/** The document that a request brings, exactly as sent, or undefined if it brings none. */
function checkedDocument (request: FastifyRequest, maxBytes: number): string | undefined {
  const { body } = request
  if (body !== undefined && (typeof body !== 'object' || body === null || Array.isArray(body))) {
    throw new InvalidError(['Request body must be a JSON object'])
  }
  const found = body === undefined ? undefined : findDocument(request.bodyText)
  if (found === undefined) return undefined
  if (!found.isContainer) throw new InvalidError(['Current data must be a JSON object or array'])
  if (Buffer.byteLength(found.text) > maxBytes) throw new TooLargeError('Current data', maxBytes)
  if (found.depth > MAX_DEPTH) throw new InvalidError([`Current data is nested too deeply (maximum is ${MAX_DEPTH} levels)`])
  return found.text
}

/** The record with the document's own text in it: reading and writing it again would change numbers and escapes. */
const recordJson = (page: LandingPage): string =>
  `{"id":"${page.id}","public_id":"${page.publicId}","current_data":${page.currentData},` +
  `"created_at":"${page.createdAt.toISOString()}","updated_at":"${page.updatedAt.toISOString()}"}`

const sendRecord = (reply: FastifyReply, page: LandingPage): FastifyReply =>
  sendJson(reply.header('etag', entityTag(page.contentHash)), recordJson(page))

/** A buffer, because a string would go through the serialiser of the response's schema. */
const sendJson = (reply: FastifyReply, json: string): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(Buffer.from(json))
