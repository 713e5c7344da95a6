import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { createTooManyRequestsError, InvalidPreviewTokenError, NotFoundError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { allowRead } from '../../../http/cors.ts'
import { errors, nothing, ReadConditions, response, type ResponseHeader } from '../../../http/schemas.ts'
import { isCheckedToken, isPublicId } from '../../../infra/system/identifiers.ts'
import { clock } from '../../../infra/system/clock.ts'
import { findBearer } from '../../accounts/index.ts'
import { secondsLeft } from '../../rate-limit/index.ts'
import { findDraft } from '../draft-repository.ts'
import { entityTag } from '../../../http/content-encoding.ts'
import { findPage } from '../landing-page-repository.ts'
import { sendUnlessKnown } from '../manage/record.ts'
import { CORS, Document, preflightSchema, PublicParams } from '../schemas.ts'
import { findLink, recordUse, TOKEN_PREFIX, type UsedLink } from './link-repository.ts'

const WINDOW_MS = 60_000
const MAX_READS = 300
const MAX_FAILURES = 60

/** For all responses, errors included. */
const HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'Allow, ETag, Landfall-Preview, Retry-After, WWW-Authenticate, X-Request-Id',
  'cross-origin-resource-policy': 'cross-origin'
}

const READ: readonly ResponseHeader[] = [...CORS, 'ETag', 'Landfall-Preview', 'X-Robots-Tag']

const readPreviewSchema = {
  operationId: 'readPreview',
  tags: ['Public'],
  summary: 'Read the draft of a Landing Page with a preview link',
  description:
    'Returns the draft byte for byte as it was sent, or the document if the page has no draft, published ' +
    'or not. The token of the link is taken from the `Authorization` header only. However it fails, the ' +
    `response is the same 401. A link may read ${MAX_READS} times a minute, and a client address may fail ` +
    `${MAX_FAILURES} times a minute.`,
  security: [{ previewLink: [] }],
  params: PublicParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The draft, or the document', ...READ),
    304: nothing('The client has this draft or document', ...READ),
    ...errors([400, 401, 404, 412, 429, 500, 503], [...CORS, 'X-Robots-Tag?'], {
      401: 'Missing, invalid or expired preview token',
      404: 'Not found'
    })
  }
}

const askForPreviewSchema = {
  ...preflightSchema,
  operationId: 'askForPreview',
  summary: 'Respond to the CORS preflight of a preview',
  description: 'Scripts of any origin may read previews with the token of a link.'
}

/** Reads with the token of a preview link. */
export const previewRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { counters, database } = app
  const url = '/previews/:public_id'
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers(HEADERS)
  })

  /** @throws {RetryLaterError} 429 */
  async function limit (request: FastifyRequest, name: string, of: string, max: number): Promise<void> {
    const now = clock.now()
    const count = await counters.take(`${name}:${of}`, max, WINDOW_MS, now)
    if (count.allowed) return
    auditRequest(request, 'limit_met', { limit: name })
    throw createTooManyRequestsError(secondsLeft(count, now))
  }

  /** Only failures count for an address, so that nobody at a shared address locks out others. */
  async function findLinkOf (request: FastifyRequest, publicId: string): Promise<UsedLink> {
    const token = findBearer(request) ?? ''
    const isWellFormed = isPublicId(publicId) && isCheckedToken(TOKEN_PREFIX, token)
    const link = isWellFormed ? await findLink(database, publicId, token) : null
    if (link !== null) return link
    await limit(request, 'preview_failure:address', app.addressOf(request).counted, MAX_FAILURES)
    throw new InvalidPreviewTokenError()
  }

  app.get(url, { schema: readPreviewSchema, config: { anyOrigin: true } }, async (request, reply) => {
    reply.header('x-robots-tag', 'noindex')
    const link = await findLinkOf(request, request.params.public_id)
    await limit(request, 'preview:link', link.id, MAX_READS)
    await recordUse(database, link)
    if (link.page.deletedAt !== null) throw new NotFoundError()
    const draft = await findDraft(database, link.pageId)
    // Read after the draft: a publication in between removes the draft and changes the page.
    const shown = draft ?? await findPage(database, link.userId, link.pageId)
    if (shown === null) throw new NotFoundError()
    reply.header('cache-control', 'private, no-store')
    reply.header('landfall-preview', draft === null ? 'document' : 'draft')
    // Without a date: a document that is shown again, because the draft was discarded, has an older one.
    const etag = entityTag(shown.contentHash)
    return sendUnlessKnown(request, reply, { etag }, 'document' in shown ? shown.document : shown.currentData)
  })

  app.options(
    url,
    { schema: askForPreviewSchema, config: { log: 'sample' } },
    async (request, reply) => allowRead(request, reply, 'Authorization, If-None-Match, X-Request-Id')
  )
}
