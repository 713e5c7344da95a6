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
  vary: 'Access-Control-Request-Headers',
  'access-control-max-age': '86400'
}

/**
 * The public read, the hot path: limit, cache, bytes. While both are in memory a handler answers in the same tick, which
 * is why these are no async functions. Headers and bytes were made with the document and go to the socket as they are,
 * past Fastify's reply, whose handling of a dozen headers costs as much as all the rest; so no onSend hook sees them.
 */
export const publicRoutes: FastifyPluginAsync = async (app) => {
  const { documents } = app
  const limit = new ReadLimit(app.counters, app.config)
  const constantHeaders = Object.entries({
    ...CORS,
    'cache-control': app.config.PUBLIC_CACHE_CONTROL,
    vary: 'Accept-Encoding',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff'
  }).flat()

  app.get('/landing_pages/:public_id', { schema: publicReadSchema }, (request, reply) => {
    const tier = limit.tierOf(request)
    const count = limit.take(request, tier, Date.now())
    if (count instanceof Promise) return count.then((settled) => answer(request, reply, tier, settled))
    return answer(request, reply, tier, count)
  })

  app.options('/landing_pages/:public_id', (request, reply) => {
    // Whatever a page's HTTP client adds to every request is ignored here, and no reason to keep the document from it.
    const asked = request.headers['access-control-request-headers'] ?? 'If-None-Match, X-Request-Id'
    reply.code(204).headers(PREFLIGHT).header('access-control-allow-headers', asked).send()
  })

  function answer (request: FastifyRequest, reply: FastifyReply, tier: Tier, count: Count): void | Promise<void> {
    const now = Date.now()
    const budget = rateLimitFields(tier, count, now)
    if (!count.allowed) throw refusal(reply, budget, tooManyRequests(secondsLeft(count, now)))

    const { public_id: publicId } = request.params as { public_id: string }
    const document = isPublicId(publicId) ? documents.get(publicId, now) : null
    if (document === null) throw refusal(reply, budget, new NotFoundError())
    if (document !== undefined) return send(request, reply, budget, document)
    return documents.load(publicId).then(
      (loaded) => {
        if (loaded === undefined) throw refusal(reply, budget, new NotFoundError())
        return send(request, reply, budget, loaded)
      },
      (error: Error) => { throw refusal(reply, budget, error) }
    )
  }

  function send (request: FastifyRequest, reply: FastifyReply, budget: string[], document: CachedDocument): void | Promise<void> {
    const encoding = preferredEncoding(request.headers['accept-encoding'] as string | undefined)
    const representation = document.ready(encoding)
    if (representation !== undefined) return write(request, reply, budget, document, representation)
    return document.make(encoding as 'br' | 'gzip').then((made) => {
      documents.resized(document)
      write(request, reply, budget, document, made)
    })
  }

  function write (request: FastifyRequest, reply: FastifyReply, budget: string[], document: CachedDocument, { headers, validators, bytes }: Representation): void {
    const unmodified = isUnmodified(request.headers['if-none-match'], document.hash)
    reply.hijack()
    reply.raw.writeHead(unmodified ? 304 : 200, ['x-request-id', request.id, ...budget, ...constantHeaders, ...(unmodified ? validators : headers)])
    reply.raw.end(unmodified ? undefined : bytes)
  }
}

/** The RateLimit fields (draft-ietf-httpapi-ratelimit-headers), as names and values in turn. */
const rateLimitFields = (tier: Tier, count: Count, now: number): string[] =>
  ['ratelimit-policy', tier.policy, 'ratelimit', `"${tier.name}";r=${Math.max(0, tier.limit - count.used)};t=${secondsLeft(count, now)}`]

/** An error of this route, for the error handler; its answer can be read by any page and tells what is left. */
function refusal (reply: FastifyReply, budget: string[], error: Error): Error {
  reply.headers(CORS)
  for (let index = 0; index < budget.length; index += 2) reply.header(budget[index] as string, budget[index + 1])
  return error
}
