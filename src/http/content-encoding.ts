import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { LRUCache } from 'lru-cache'

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
