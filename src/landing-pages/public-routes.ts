import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { clock } from '../clock.ts'
import { secondsLeft } from '../counters/counters.ts'
import type { Count } from '../counters/local-windows.ts'
import { errorBody, NotFoundError, tooManyRequestsMessage } from '../errors.ts'
import { isPublicId } from '../identifiers.ts'
import { requireHost } from '../plugins/every-request.ts'
import { sampled } from '../plugins/request-log.ts'
import { transportSecurity } from '../plugins/security-headers.ts'
import { preferredEncoding } from './accept-encoding.ts'
import type { CachedDocument, Representation } from './cached-document.ts'
import { isUnmodified } from './etag.ts'
import { headerLines, headersOf, PreparedHeads } from './prepared-head.ts'
import { ReadLimit, type Tier } from './read-limit.ts'
import { publicReadMetrics, type Served } from './read-metrics.ts'
import { preflightSchema, publicReadSchema } from './schemas.ts'

const CORS = [
  ['access-control-allow-origin', '*'],
  ['access-control-expose-headers', 'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Link']
] as const
const NOSNIFF = ['x-content-type-options', 'nosniff'] as const
const PREFLIGHT = {
  ...Object.fromEntries(CORS),
  'access-control-allow-methods': 'GET, HEAD, OPTIONS',
  vary: 'Access-Control-Request-Headers',
  'access-control-max-age': '86400'
}

/**
 * The public read, the hot path: limit, cache, bytes. While both are in memory a handler answers in the same tick, which
 * is why these are no async functions; no hook runs for them (`app.ts`) and no line is logged unless asked for. Header lines were made
 * with the document and go to the socket as they are, past Fastify's reply.
 */
export const publicRoutes: FastifyPluginAsync = async (app) => {
  const { documents } = app
  const limit = new ReadLimit(app.config, app.leases)
  app.addHook('onClose', async () => await limit.close())
  const loadSeconds = publicReadMetrics(app.metrics, limit.tiers)
  const heads = await PreparedHeads.create(app.server.keepAliveTimeout)
  if (!heads.isSupported) app.log.warn('this version of Node does not take prepared heads: public reads are slower than they could be')

  const constant = [
    ...CORS,
    ['cache-control', app.config.PUBLIC_CACHE_CONTROL],
    ['vary', 'Accept-Encoding'],
    ['cross-origin-resource-policy', 'cross-origin'],
    NOSNIFF,
    ...transportSecurity(app.config)
  ] as const
  const hitLines = headerLines(...constant, ['cache-status', 'landfall; hit'])
  const loadedLines = headerLines(...constant, ['cache-status', 'landfall; fwd=miss'])
  const refusalLines = headerLines(...CORS, NOSNIFF, ...transportSecurity(app.config), ['cache-control', 'no-store'], ['content-type', 'application/json; charset=utf-8'])
  const notFound = errorBody([new NotFoundError().message])

  // A logger for each request costs a twentieth of the rate.
  app.get('/landing_pages/:public_id', { schema: publicReadSchema, childLoggerFactory: () => app.log }, sampled(app, (request: FastifyRequest, reply: FastifyReply) => {
    requireHost(request)
    const now = clock.now()
    const address = app.addressOf(request)
    const tier = limit.tierOf(request, address)
    const count = tier.limit.take(address.counted, now)
    if (count instanceof Promise) return count.then((settled) => answer(request, reply, tier, settled, clock.now()))
    return answer(request, reply, tier, count, now)
  }))

  app.options('/landing_pages/:public_id', { schema: preflightSchema }, (request, reply) => {
    requireHost(request)
    // Whatever a page's HTTP client adds to every request is ignored here, and no reason to keep the document from it.
    const asked = request.headers['access-control-request-headers'] ?? 'If-None-Match, X-Request-Id'
    reply.code(204).headers(PREFLIGHT).header('x-request-id', request.id).header('access-control-allow-headers', asked).send()
  })

  function answer (request: FastifyRequest, reply: FastifyReply, tier: Tier, count: Count, now: number): void | Promise<void> {
    const own = ownLines(request, tier, count, now)
    if (!count.allowed) {
      tier.reads.refused++
      const seconds = secondsLeft(count, now)
      refuse(reply, 429, `${own}retry-after: ${seconds}\r\n`, errorBody([tooManyRequestsMessage(seconds)]), now)
      return
    }
    const { public_id: publicId } = request.params as { public_id: string }
    const document = documents.get(publicId, now)
    if (document === undefined && isPublicId(publicId)) return loading(request, reply, tier, own, publicId)
    if (document == null) {
      tier.reads.notFound++
      refuse(reply, 404, own, notFound, now)
      return
    }
    return send(request, reply, tier.reads.process, own + hitLines, document, now)
  }

  const { tracing } = app
  const loading: typeof load = tracing === undefined
    ? load
    : async (request, reply, ...rest) => await tracing.traceRead(request, reply, async () => await load(request, reply, ...rest))

  async function load (request: FastifyRequest, reply: FastifyReply, tier: Tier, own: string, publicId: string): Promise<void> {
    const { reads } = tier
    const startedAt = performance.now() // the process clock has whole milliseconds
    let document
    try {
      document = await documents.load(publicId)
    } catch (error) {
      reads.failed++
      reply.headers(Object.fromEntries([...CORS, ...headersOf(own)]))
      throw error
    }
    const now = clock.now()
    const isStale = document !== undefined && documents.isStale(document, now)
    const source = document === undefined ? 'none' : isStale ? 'stale' : document.origin
    loadSeconds.observe({ source }, (performance.now() - startedAt) / 1000)
    if (document === undefined) {
      reads.notFound++
      refuse(reply, 404, own, notFound, now)
    } else if (isStale) {
      const age = Math.floor((now - document.knownAt) / 1000)
      await send(request, reply, reads.stale, own + headerLines(...constant, ['age', String(age)], ['cache-status', 'landfall; hit; detail=stale']), document, now)
    } else {
      await send(request, reply, reads[document.origin], own + loadedLines, document, now)
    }
  }

  function send (request: FastifyRequest, reply: FastifyReply, served: Served, lines: string, document: CachedDocument, now: number): void | Promise<void> {
    const encoding = preferredEncoding(request.raw.headers['accept-encoding'] as string | undefined)
    const representation = document.ready(encoding) ?? (documents.holds(document) ? undefined : document.identity)
    if (representation !== undefined) return write(request, reply, served, lines, document, representation, now)
    return document.make(encoding as 'br' | 'gzip', documents.compressions).then((made) => {
      documents.resized(document)
      write(request, reply, served, lines, document, made, now)
    })
  }

  function write (request: FastifyRequest, reply: FastifyReply, served: Served, lines: string, document: CachedDocument, representation: Representation, now: number): void {
    reply.hijack()
    if (isUnmodified(request.raw.headers['if-none-match'], document.hash)) {
      served.notModified++
      heads.send(reply.raw, 304, lines + representation.validatorLines, undefined, now)
    } else {
      served.sent++
      heads.send(reply.raw, 200, lines + representation.lines, representation.body, now)
    }
  }

  function refuse (reply: FastifyReply, status: 404 | 429, own: string, body: string, now: number): void {
    reply.hijack()
    heads.send(reply.raw, status, `${own}${refusalLines}content-length: ${body.length}\r\n`, body, now)
  }
}

/** The lines that each answer has of its own. */
const ownLines = (request: FastifyRequest, tier: Tier, count: Count, now: number): string =>
  `x-request-id: ${request.id}\r\n${tier.lines}${Math.max(0, tier.max - count.used)};t=${secondsLeft(count, now)}\r\n`
