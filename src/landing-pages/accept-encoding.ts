import type { Encoding } from './etag.ts'

/** Headers that are remembered: browsers send few different ones, attackers any number. */
const MAX_KNOWN = 200
const known = new Map<string, Encoding>()
/** In characters; who asks for more than these has no browser. */
const MAX_LENGTH = 1024

/**
 * The encoding that an Accept-Encoding header (RFC 9110, 12.5.3) prefers among those that documents come in; `br` where
 * it leaves the choice. Identity where none of them is wanted, even if identity is refused: an answer beats a 406.
 */
export function preferredEncoding (header: string | undefined): Encoding {
  if (header === undefined || header === '' || header.length > MAX_LENGTH) return 'identity'
  const remembered = known.get(header)
  if (remembered !== undefined) return remembered
  // Without white space, which no coding has in it and some clients have around the `=` of a weight.
  const weights = new Map(header.toLowerCase().replaceAll(/[ \t]/g, '').split(',').map(weightOf))
  const weight = (coding: string): number => weights.get(coding) ?? weights.get('*') ?? 0
  const br = weight('br')
  const gzip = weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0
  const identity = weights.get('identity') ?? 0
  const best = Math.max(br, gzip)
  const encoding = best === 0 || identity > best ? 'identity' : br === best ? 'br' : 'gzip'
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(header, encoding)
  return encoding
}

function weightOf (part: string): [coding: string, weight: number] {
  const [coding = '', ...parameters] = part.split(';')
  const q = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = q === undefined ? 1 : Number(q.slice(2))
  return [coding, weight >= 0 && weight <= 1 ? weight : 0]
}
