import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { Semaphore } from '../infra/system/semaphore.ts'
import { headersNamed } from './schemas.ts'

export type Encoding = 'identity' | 'br' | 'gzip'

/** What the tag of a compressed representation ends with, because it needs a strong tag of its own. */
const TAG_SUFFIX: Readonly<Record<Encoding, string>> = { identity: '', br: '-br', gzip: '-gzip' }

export const ENCODINGS = Object.keys(TAG_SUFFIX) as Encoding[]

/** Returns the strong tag of a representation in an encoding. `hash` is that of the identity. */
export const entityTag = (hash: string, encoding: Encoding = 'identity'): string =>
  `"${hash}${TAG_SUFFIX[encoding]}"`

export const compress = {
  // Quality 5 takes about as long as gzip, with a smaller result; 11 takes a hundred times as long.
  br: async (bytes: Buffer, quality = 5) =>
    await promisify(brotliCompress)(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    }),
  gzip: async (bytes: Buffer) => await promisify(gzip)(bytes)
} as const

/** Results by header. Browsers send few different headers. */
const known = new LRUCache<string, Encoding>({ max: 200 })
/** The longest header that is parsed, in characters. No browser sends a longer one. */
const MAX_LENGTH = 1024

/**
 * Returns the encoding that an Accept-Encoding header (RFC 9110, 12.5.3) prefers. Returns `br` if it has the
 * same weight as another, and `identity` if none is acceptable, because a readable response beats a 406.
 */
export function preferredEncoding (header: string | undefined): Encoding {
  if (header === undefined || header === '' || header.length > MAX_LENGTH) return 'identity'
  const remembered = known.get(header)
  if (remembered !== undefined) return remembered
  const weights = parseWeights(header)
  const weight = (coding: string): number => weights.get(coding) ?? weights.get('*') ?? 0
  const br = weight('br')
  const gzip = weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0
  const identity = weights.get('identity') ?? 0
  const best = Math.max(br, gzip)
  const encoding = best === 0 || identity > best ? 'identity' : br === best ? 'br' : 'gzip'
  known.set(header, encoding)
  return encoding
}

/** Returns the weights (RFC 9110, 12.4.2) in a header such as Accept, by name in lower case. */
export function parseWeights (header: string): ReadonlyMap<string, number> {
  // Some clients put white space around the `=` of a weight.
  return new Map(header.toLowerCase().replaceAll(/[ \t]/g, '').split(',').map(weightOf))
}

function weightOf (part: string): [name: string, weight: number] {
  const [name = '', ...parameters] = part.split(';')
  const q = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = q === undefined ? 1 : Number(q.slice(2))
  return [name, weight >= 0 && weight <= 1 ? weight : 0]
}

/** Shorter bodies, in bytes, fit into the first packets as they are. */
const MIN_BYTES = 1024
/** Bodies that are being compressed or wait for it, in bytes. Others are sent as they are. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024
/** What a tag of the service ends with only if it is that of a compressed representation. */
const TAG_SUFFIXES = /-(?:br|gzip)(?=")/g
/** Takes half as long as the default of compress(), 5. The result is 4 % larger. */
const BROTLI_QUALITY = 4

/**
 * Compresses the responses of a scope, each by itself, and gives the result an entity tag of its own (RFC
 * 9110, 8.8.3.3). Conditions of requests may name a tag in any encoding; handlers see it without its suffix.
 * Bodies must be of a compressible type and contain no secrets (BREACH).
 */
export function compressResponses (scope: FastifyInstance): void {
  let queuedBytes = 0
  const compressions = new Semaphore({
    maxRunning: 2,
    maxWaiting: Infinity, // MAX_QUEUED_BYTES limits it
    createRefusal: () => new Error('Too many responses are being compressed')
  })

  scope.addHook('onRoute', ({ schema }) => {
    const responses = (schema?.response ?? {}) as Readonly<Record<string, { readonly headers: object }>>
    for (const response of [responses['200'], responses['201']]) {
      if (response !== undefined) Object.assign(response.headers, headersNamed(['Content-Encoding?', 'Vary']))
    }
  })

  scope.addHook('onRequest', async (request) => {
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers
    if (ifMatch === undefined && ifNoneMatch === undefined) return
    request.headers = {
      ...ifMatch !== undefined && { 'if-match': ifMatch.replaceAll(TAG_SUFFIXES, '') },
      ...ifNoneMatch !== undefined && { 'if-none-match': ifNoneMatch.replaceAll(TAG_SUFFIXES, '') }
    }
  })

  scope.addHook('onSend', async (request, reply, payload: unknown) => {
    if (reply.statusCode >= 400 || reply.statusCode === 204) return payload
    reply.vary('Accept-Encoding')
    if (reply.statusCode === 304) keepKnownTag(request, reply)
    if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) return payload
    const size = Buffer.byteLength(payload)
    const encoding = preferredEncoding(request.headers['accept-encoding'])
    if (encoding === 'identity' || size < MIN_BYTES || queuedBytes + size > MAX_QUEUED_BYTES) return payload

    queuedBytes += size
    try {
      const compressed = await compressions.run(
        async () => await compress[encoding](Buffer.from(payload), BROTLI_QUALITY),
        request.caller.userId
      )
      setEncoding(reply, encoding)
      return compressed
    } finally {
      queuedBytes -= size
    }
  })
}

function setEncoding (reply: FastifyReply, encoding: Encoding): void {
  reply.header('content-encoding', encoding)
  const etag = reply.getHeader('etag')
  if (etag !== undefined) reply.header('etag', withEncoding(String(etag), encoding))
}

/** Gives a 304 the tag that the client has sent, which may be that of another encoding. */
function keepKnownTag (request: FastifyRequest, reply: FastifyReply): void {
  const listed = request.raw.headers['if-none-match'] ?? ''
  const tags = ENCODINGS.map((encoding) => withEncoding(String(reply.getHeader('etag')), encoding))
  const known = tags.find((tag) => listed.includes(tag))
  if (known !== undefined) reply.header('etag', known)
}

const withEncoding = (etag: string, encoding: Encoding): string => entityTag(etag.slice(1, -1), encoding)
