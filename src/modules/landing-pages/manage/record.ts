import type { FastifyReply, FastifyRequest } from 'fastify'
import { auditRequest } from '../../../http/access-log.ts'
import { JSON_CONTENT_TYPE } from '../../../http/common-headers.ts'
import { checkPreconditions, isNotModified, type Validators } from '../../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { recordChangedAt, recordValidators } from '../etag.ts'
import type { LandingPage } from '../landing-page-repository.ts'

/** The document's text is inserted unchanged, because parsing it would change numbers and escapes. */
export const recordJson = (page: LandingPage): string =>
  `{"id":"${page.id}","public_id":"${page.publicId}","current_data":${page.currentData},` +
  `"created_at":"${page.createdAt.toISOString()}","updated_at":"${recordChangedAt(page).toISOString()}",` +
  `"version":${page.version},"published":${page.published},"key":${JSON.stringify(page.key)}}`

export const sendRecord = (reply: FastifyReply, page: LandingPage): FastifyReply =>
  sendJson(reply.header('etag', recordValidators(page).etag), recordJson(page))

/** Answers a request that has created a page: a POST, or a PUT by a key that no page had. */
export function sendNewPage (request: FastifyRequest, reply: FastifyReply, page: LandingPage): FastifyReply {
  auditRequest(request, 'created', { page: page.id, public_id: page.publicId })
  reply.code(201).header('location', reply.server.publicPath(`/manage/landing_pages/${page.id}`))
  return sendRecord(reply, page)
}

/**
 * Answers a read with JSON text, or with a 304 if the client has it already.
 *
 * @throws {PreconditionFailedError} 412
 */
export function sendUnlessKnown (
  request: FastifyRequest,
  reply: FastifyReply,
  validators: Validators,
  json: string
): FastifyReply {
  checkPreconditions(request, validators)
  reply.header('etag', validators.etag)
  return isNotModified(request.headers, validators) ? sendWithoutBody(reply.code(304)) : sendJson(reply, json)
}

/** Sends a buffer, because Fastify would serialise a string by the response schema. */
const sendJson = (reply: FastifyReply, json: string): FastifyReply =>
  reply.type(JSON_CONTENT_TYPE).send(Buffer.from(json))
