import type { IncomingHttpHeaders } from 'node:http'
import { matchesIfRange, type Validators } from './conditional-requests.ts'

// Range and If-Range (RFC 9110, section 14).

/** Positions of the first and the last byte. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** Returns the part of a file to send. Several ranges, invalid ones and other units select the whole file. */
export function requestedRange (
  headers: IncomingHttpHeaders,
  file: Validators & { readonly byteSize: number }
): ByteRange | 'whole' | 'not satisfiable' {
  const { range } = headers
  const ifRange = headers['if-range'] as string | undefined
  if (range === undefined || (ifRange !== undefined && !matchesIfRange(ifRange, file))) return 'whole'
  return parseRange(range, file.byteSize)
}

function parseRange (header: string, byteSize: number): ByteRange | 'whole' | 'not satisfiable' {
  const [range, from = '', to = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(header) ?? []
  if (range === undefined || from + to === '') return 'whole'
  if (from === '') {
    const length = Number(to)
    if (length >= byteSize) return 'whole' // a suffix longer than the file selects the whole file
    return length > 0 ? { first: byteSize - length, last: byteSize - 1 } : 'not satisfiable'
  }
  const first = Number(from)
  if (to !== '' && Number(to) < first) return 'whole' // invalid (RFC 9110, 14.1.1)
  const last = to === '' ? byteSize - 1 : Math.min(Number(to), byteSize - 1)
  return first <= last ? { first, last } : 'not satisfiable'
}
