import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { secondsLeft } from '../counters/counters.ts'
import type { Count } from '../counters/local-windows.ts'
import { NotFoundError, tooManyRequests } from '../errors.ts'
import { isPublicId } from '../identifiers.ts'
import { preferredEncoding } from './accept-encoding.ts'
import type { CachedDocument, Representation } from './cached-document.ts'
import { isUnmodified } from './etag.ts'
import { ReadLimit, type Tier } from './read-limit.ts'
import { publicReadSchema } from './schemas.ts'

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Link'
}
const PREFLIGHT = {
  ...CORS,
  'access-control-allow-methods': 'GET, HEAD, OPTIONS',
  'access-control-allow-headers': 'If-None-Match, X-Request-Id',
  'access-control-max-age': '86400',
  'cross-origin-resource-policy': 'cross-origin'
}

/**
 * The public read, the hot path: limit, cache, bytes. Handlers answer in the same tick while both are in memory, which
 * is why they are no async functions.
 */
export const publicRoutes: FastifyPluginAsync = async (app) => {
  const { documents } = app
  const limit = new ReadLimit(app.counters, app.config)
  const constantHeaders = { ...CORS, 'cache-control': app.config.PUBLIC_CACHE_CONTROL, vary: 'Accept-Encoding', 'cross-origin-resource-policy': 'cross-origin', 'x-content-type-options': 'nosniff' }

  app.get('/landing_pages/:public_id', { schema: publicReadSchema }, (request, reply) => {
    reply.headers(CORS)
    const tier = limit.tierOf(request)
    const now = Date.now()
    const count = limit.take(request, tier, now)
    if (count instanceof Promise) return count.then((settled) => answer(request, reply, tier, settled))
    return answer(request, reply, tier, count)
  })

  app.options('/landing_pages/:public_id', (_request, reply) => {
    reply.code(204).headers(PREFLIGHT).send()
  })

  function answer (request: FastifyRequest, reply: FastifyReply, tier: Tier, count: Count): FastifyReply | Promise<FastifyReply> {
    const now = Date.now()
    const left = secondsLeft(count, now)
    reply.header('ratelimit-policy', tier.policy)
    reply.header('ratelimit', `"${tier.name}";r=${Math.max(0, tier.limit - count.used)};t=${left}`)
    if (!count.allowed) throw tooManyRequests(left)

    const { public_id: publicId } = request.params as { public_id: string }
    if (!isPublicId(publicId)) throw new NotFoundError()
    const document = documents.get(publicId, now)
    if (document === null) throw new NotFoundError()
    if (document !== undefined) return send(request, reply, document)
    return documents.load(publicId).then((loaded) => {
      if (loaded === undefined) throw new NotFoundError()
      return send(request, reply, loaded)
    })
  }

  function send (request: FastifyRequest, reply: FastifyReply, document: CachedDocument): FastifyReply | Promise<FastifyReply> {
    const encoding = preferredEncoding(request.headers['accept-encoding'] as string | undefined)
    const representation = document.ready(encoding)
    if (representation === undefined && encoding !== 'identity') {
      return document.make(encoding).then((made) => {
        documents.resized(document)
        return sendRepresentation(request, reply, document, made)
      })
    }
    return sendRepresentation(request, reply, document, representation ?? document.identity)
  }

  function sendRepresentation (request: FastifyRequest, reply: FastifyReply, document: CachedDocument, { headers, bytes }: Representation): FastifyReply {
    reply.headers(constantHeaders)
    if (isUnmodified(request.headers['if-none-match'], document.hash)) {
      return reply.code(304).header('etag', headers.etag).header('last-modified', document.lastModified).send()
    }
    return reply.headers(headers).send(bytes)
  }
}
