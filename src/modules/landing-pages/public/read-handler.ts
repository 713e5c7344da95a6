import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Histogram } from 'prom-client'
import type { Config } from '../../../config.ts'
import { clock } from '../../../infra/system/clock.ts'
import { isPublicId } from '../../../infra/system/identifiers.ts'
import { formatErrorBody, formatTooManyRequests, NotFoundError,
  PreconditionFailedError } from '../../../errors.ts'
import { DATA_HEADERS, DOCUMENT_CORS_HEADERS, JSON_CONTENT_TYPE,
  transportSecurity } from '../../../http/common-headers.ts'
import { failedPrecondition, hasConditions, isNotModified,
  type Precondition } from '../../../http/conditional-requests.ts'
import type { ClientAddress } from '../../../http/client-address.ts'
import { checkHead } from '../../../http/hardening/head-check.ts'
import { mayBePipelined } from '../../../http/hardening/pipelining.ts'
import { traceRead } from '../../../http/request-tracing.ts'
import { secondsLeft, type Count } from '../../rate-limit/index.ts'
import { ENCODINGS, entityTag, preferredEncoding } from '../../../http/content-encoding.ts'
import type { CachedDocument, Representation } from './cached-document.ts'
import type { DocumentCache } from './document-cache.ts'
import { headerLines, headersOf, PreparedHeads } from './prepared-head.ts'
import type { ReadLimit, Served, Tier } from './read-limit.ts'
import { publicReadMetrics } from './read-metrics.ts'
import type { ReadTally } from './read-reporter.ts'

const NOT_FOUND = formatErrorBody([new NotFoundError().message])

/** One read, the tier that it counts against, and the header lines that only its response has. */
interface Read {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly tier: Tier
  readonly ownLines: string
}

/**
 * Answers public reads, the hot path. If the limit and the document are in memory, it answers synchronously,
 * so these methods are not async. Header lines are prepared (docs/adr/0002-prepared-response-heads.md).
 */
export class ReadHandler {
  readonly #app: FastifyInstance
  readonly #documents: DocumentCache
  readonly #limit: ReadLimit
  readonly #tally: ReadTally
  readonly #loadSeconds: Histogram<'source'>
  readonly #heads: PreparedHeads
  readonly #headers: ReturnType<typeof readHeaders>

  constructor (app: FastifyInstance, limit: ReadLimit, tally: ReadTally) {
    this.#app = app
    this.#documents = app.documents
    this.#limit = limit
    this.#tally = tally
    this.#loadSeconds = publicReadMetrics(app.metrics, limit.tiers)
    this.#heads = new PreparedHeads(app.server.keepAliveTimeout)
    this.#headers = readHeaders(app.config)
  }

  handle (request: FastifyRequest, reply: FastifyReply): unknown {
    // A pipelined response has no socket until the earlier responses are sent.
    const address = this.#app.addressOf(request)
    if (reply.raw.socket === null) {
      if (!mayBePipelined(request)) return reply.hijack()
      this.#app.unreadResponses.addWaitingRead(request.raw.socket, [ownerOf(address)], reply.raw)
    }
    checkHead(request)
    const now = clock.now()
    const tier = this.#limit.tierOf(request, address)
    const count = tier.limit.take(address.counted, now)
    if (count instanceof Promise) {
      return count.then((settled) => this.#answer(request, reply, tier, settled, clock.now()))
    }
    return this.#answer(request, reply, tier, count, now)
  }

  #answer (
    request: FastifyRequest,
    reply: FastifyReply,
    tier: Tier,
    count: Count,
    now: number
  ): void | Promise<void> {
    const read: Read = { request, reply, tier, ownLines: ownLines(request, tier, count, now) }
    if (!count.allowed) {
      this.#refuseOverLimit(read, secondsLeft(count, now), now)
      return
    }
    const { public_id: publicId } = request.params as { public_id: string }
    const document = this.#documents.get(publicId, now)
    if (document === undefined && isPublicId(publicId)) return this.#load(read, publicId)
    if (document == null) {
      this.#refuseUnknown(read, now)
      return
    }
    return this.#send(read, tier.reads.process, this.#headers.hit, document, now)
  }

  #load (read: Read, publicId: string): Promise<void> {
    const { tracer } = this.#app
    if (tracer === undefined) return this.#loadAndSend(read, publicId)
    return traceRead(tracer, read.request, read.reply, () => this.#loadAndSend(read, publicId))
  }

  async #loadAndSend (read: Read, publicId: string): Promise<void> {
    const { reads } = read.tier
    const startedAt = performance.now() // `clock` has whole milliseconds, which are too coarse
    let document
    try {
      document = await this.#documents.load(publicId)
    } catch (error) {
      reads.failed++
      read.reply.headers(Object.fromEntries([...this.#headers.cors, ...headersOf(read.ownLines)]))
      throw error
    }
    const now = clock.now()
    const isStale = document !== undefined && this.#documents.isStale(document, now)
    const source = document === undefined ? 'none' : isStale ? 'stale' : document.origin
    this.#loadSeconds.observe({ source }, (performance.now() - startedAt) / 1000)
    if (document === undefined) {
      this.#refuseUnknown(read, now)
    } else if (isStale) {
      await this.#send(read, reads.stale, this.#headers.stale(now - document.knownAt), document, now)
    } else {
      await this.#send(read, reads[document.origin], this.#headers.loaded, document, now)
    }
  }

  #send (
    read: Read,
    served: Served,
    lines: string,
    document: CachedDocument,
    now: number
  ): void | Promise<void> {
    const encoding = preferredEncoding(read.request.raw.headers['accept-encoding'] as string | undefined)
    const representation = document.ready(encoding) ??
      (this.#documents.holds(document) ? undefined : document.identity)
    if (representation !== undefined) {
      this.#write(read, served, lines, document, representation, now)
      return
    }
    return document.make(encoding as 'br' | 'gzip', this.#documents.compressions).then((made) => {
      this.#documents.resized(document)
      this.#write(read, served, lines, document, made, now)
    })
  }

  #write (
    read: Read,
    served: Served,
    lines: string,
    document: CachedDocument,
    representation: Representation,
    now: number
  ): void {
    const { request, reply, ownLines } = read
    const { lastModifiedLine } = document
    const condition = evaluate(request.raw, document, representation, lastModifiedLine !== '')
    if (condition !== 'true' && condition !== 'not modified') {
      this.#refuseCondition(read, condition, representation, now)
      return
    }
    reply.hijack()
    if (condition === 'not modified') {
      served.notModified++
      this.#tally.count(document, true)
      const head = ownLines + lines + representation.etagLine + lastModifiedLine
      this.#heads.send(reply.raw, 304, head, undefined, now)
    } else {
      served.sent++
      this.#tally.count(document, false)
      const head = ownLines + lines + representation.lines + lastModifiedLine
      this.#heads.send(reply.raw, 200, head, representation.body, now)
      // In a pipeline, or the operating system hasn't taken all of it.
      if (reply.raw.socket === null || reply.raw.socket.writableLength > 0) this.#countUnread(read, document)
    }
  }

  #countUnread ({ request }: Read, document: CachedDocument): void {
    const owner = ownerOf(this.#app.addressOf(request))
    const size = (): number => this.#documents.holds(document) ? 0 : document.size
    this.#app.unreadResponses.addPart(request.raw.socket, [owner], document, size)
  }

  #refuseCondition (
    { reply, tier, ownLines }: Read,
    failed: Precondition,
    { etag, etagLine }: Representation,
    now: number
  ): void {
    tier.reads.conditionFailed++
    const body = formatErrorBody([new PreconditionFailedError(failed, etag).message])
    this.#refuse(reply, 412, ownLines + etagLine, body, now)
  }

  #refuseUnknown ({ reply, tier, ownLines }: Read, now: number): void {
    tier.reads.notFound++
    this.#refuse(reply, 404, ownLines, NOT_FOUND, now)
  }

  #refuseOverLimit ({ reply, tier, ownLines }: Read, seconds: number, now: number): void {
    tier.reads.refused++
    const body = formatErrorBody([formatTooManyRequests(seconds)])
    this.#refuse(reply, 429, `${ownLines}retry-after: ${seconds}\r\n`, body, now)
  }

  #refuse (reply: FastifyReply, status: 404 | 412 | 429, lines: string, body: string, now: number): void {
    reply.hijack()
    const head = `${lines}${this.#headers.refusal}content-length: ${body.length}\r\n`
    this.#heads.send(reply.raw, status, head, body, now)
  }
}

/** In characters; about 80 tags. To parse a longer If-None-Match costs more than to send the document. */
const MAX_LIST_LENGTH = 4096

/** Returns the result of the conditions of a read, or the precondition that is false. */
function evaluate (
  request: IncomingMessage,
  { hash, updatedAt: modifiedAt }: CachedDocument,
  { etag }: Representation,
  hasLastModified: boolean
): 'true' | 'not modified' | Precondition {
  const { headers } = request
  if (!hasConditions(headers)) return 'true'
  const { 'if-none-match': ifNoneMatch } = headers
  if (headers['if-match'] !== undefined || headers['if-unmodified-since'] !== undefined) {
    const otherTags = ENCODINGS.map((encoding) => entityTag(hash, encoding))
    const validators = { etag, otherTags, modifiedAt }
    const failed = failedPrecondition({ method: 'GET', headers }, validators)
    if (failed !== undefined) return failed
  }
  if (ifNoneMatch === etag) return 'not modified' // nearly every client sends exactly one tag
  const isIgnored = ifNoneMatch === undefined ? !hasLastModified : ifNoneMatch.length > MAX_LIST_LENGTH
  return !isIgnored && isNotModified(headers, { etag, modifiedAt }) ? 'not modified' : 'true'
}

/** The owner of a response, to whom it is counted while the client doesn't read it. */
const ownerOf = ({ counted }: ClientAddress): string => `address ${counted}`

/** The header lines that differ between responses: the request id and the remaining reads. */
const ownLines = (request: FastifyRequest, tier: Tier, count: Count, now: number): string =>
  `x-request-id: ${request.id}\r\n` +
  `${tier.lines}${Math.max(0, tier.max - count.used)};t=${secondsLeft(count, now)}\r\n`

type Headers = readonly (readonly [name: string, value: string])[]

/** Returns the header lines that are the same for every public read, formatted once. */
function readHeaders (config: Config) {
  const cors: Headers = Object.entries(DOCUMENT_CORS_HEADERS)
  const safety: Headers = [
    ['x-content-type-options', DATA_HEADERS['x-content-type-options']],
    ...transportSecurity(config)
  ]
  const document: Headers = [
    ...cors,
    ['cache-control', config.PUBLIC_CACHE_CONTROL],
    ['vary', 'Accept-Encoding'],
    ['cross-origin-resource-policy', 'cross-origin'],
    ...safety
  ]
  const status = (cacheStatus: string): [string, string] => ['cache-status', `landfall; ${cacheStatus}`]
  return {
    cors,
    /** For a document from memory. */
    hit: headerLines(...document, status('hit')),
    /** For a document from Redis or PostgreSQL. */
    loaded: headerLines(...document, status('fwd=miss')),
    /** For an expired document from memory that was last known to be current `ageMs` milliseconds ago. */
    stale: (ageMs: number): string =>
      headerLines(...document, ['age', String(Math.floor(ageMs / 1000))], status('hit; detail=stale')),
    /** For a 404, 412 or 429. */
    refusal: headerLines(...cors, ...safety, ['cache-control', 'no-store'], [
      'content-type',
      JSON_CONTENT_TYPE
    ])
  }
}
