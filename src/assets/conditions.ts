import type { IncomingHttpHeaders } from 'node:http'

// What a reader gets of a file, by the conditions and the range that it asks with (RFC 9110, 13.2.2 and 14.2).

/** What conditions are about. */
export interface Representation {
  /** A strong entity tag, in its quotes. */
  readonly etag: string
  readonly modifiedAt: Date
  readonly byteSize: number
}

export type Verdict =
  | { readonly status: 200 | 304 | 412 | 416 }
  /** Positions of the first and the last byte. */
  | { readonly status: 206, readonly first: number, readonly last: number }

const TAG = /(W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g
const DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/

/** Whether an answer can depend on more than the name of the file. */
export const isConditional = (headers: IncomingHttpHeaders): boolean =>
  ['if-match', 'if-unmodified-since', 'if-none-match', 'if-modified-since', 'range'].some((name) => headers[name] !== undefined)

/** @param method GET or HEAD */
export function decide (method: string, headers: IncomingHttpHeaders, file: Representation): Verdict {
  const modifiedMs = Math.floor(file.modifiedAt.getTime() / 1000) * 1000 // as Last-Modified says it
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch, range } = headers
  const unmodifiedSince = dateOf(headers['if-unmodified-since'])
  const modifiedSince = dateOf(headers['if-modified-since'])

  if (ifMatch !== undefined) {
    if (!lists(ifMatch, file.etag, 'strong')) return { status: 412 }
  } else if (unmodifiedSince !== undefined && modifiedMs > unmodifiedSince) return { status: 412 }

  if (ifNoneMatch !== undefined) {
    if (lists(ifNoneMatch, file.etag, 'weak')) return { status: 304 }
  } else if (modifiedSince !== undefined && modifiedMs <= modifiedSince) return { status: 304 }

  const ifRange = headers['if-range']
  const isWhole = range === undefined || method !== 'GET' || (ifRange !== undefined && ifRange !== file.etag && dateOf(String(ifRange)) !== modifiedMs)
  return isWhole ? { status: 200 } : rangeOf(range, file.byteSize)
}

/** One range; several at once, and other units, are not supported, which means all of it. */
function rangeOf (header: string, byteSize: number): Verdict {
  if (!/^bytes=[^,]*$/.test(header)) return { status: 200 }
  const [, from = '', to = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/.exec(header) ?? []
  if (from === '') {
    const length = Number(to)
    if (length >= byteSize) return { status: 200 } // the last 1,000 bytes of a shorter file are all of it
    return length > 0 ? { status: 206, first: byteSize - length, last: byteSize - 1 } : { status: 416 }
  }
  const first = Number(from)
  const last = to === '' ? byteSize - 1 : Math.min(Number(to), byteSize - 1)
  return first <= last ? { status: 206, first, last } : { status: 416 }
}

function lists (header: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (header.trim() === '*') return true
  for (const [, weak, tag] of header.matchAll(TAG)) if (tag === etag && (weak === undefined || comparison === 'weak')) return true
  return false
}

const dateOf = (text: string | undefined): number | undefined => text !== undefined && DATE.test(text) ? Date.parse(text) : undefined
