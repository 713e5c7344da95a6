import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { PreconditionFailedError } from '../errors.ts'
import { errors, NOTHING_MATCHES, TagConditions } from './schemas.ts'

// Conditional requests (RFC 9110, section 13): If-Match, If-None-Match, If-Modified-Since and
// If-Unmodified-Since.

/** How tags are compared (RFC 9110, 8.8.3.2): a weak tag never matches in a strong comparison. */
type Comparison = 'strong' | 'weak'

/** The value of If-Match or If-None-Match: `*`, or the tags without their quotes. */
type TagList = '*' | readonly string[]

/** The validators of a representation. */
export interface Validators {
  /** A strong entity tag, in its quotes. */
  readonly etag: string
  /** Tags of other representations of the same resource, which preconditions may name, too. */
  readonly otherTags?: readonly string[]
  /** Undefined if some changes have no date. Then conditions with dates are ignored (RFC 9110, 13.1.4). */
  readonly modifiedAt?: Date
}

/** A condition that makes a request fail with 412 if it is false. */
export type Precondition = 'If-Match' | 'If-None-Match' | 'If-Unmodified-Since'

/** The parts of a request that conditions are read from. */
interface ConditionalRequest {
  readonly method: string
  readonly headers: IncomingHttpHeaders
}

const CONDITIONS = ['if-match', 'if-unmodified-since', 'if-none-match', 'if-modified-since'] as const

/** One element of a list of tags, up to its comma. It may be empty (RFC 9110, 5.6.1). */
const ELEMENT = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(,|$)/y

// The three formats of RFC 9110, 5.6.7.
const FIXED_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const RFC_850_DATE = /^[A-Z][a-z]+, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d:\d\d:\d\d) GMT$/
const ASCTIME_DATE = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/

/** Returns the SHA-256 hash of a representation in base64url, from which entity tags are built. */
export const contentHash = (content: string | Buffer): string =>
  createHash('sha256').update(content).digest('base64url')

/** Parses If-Match or If-None-Match. A malformed header gives an empty list, which matches no tag. */
function parseTagList (header: string, comparison: Comparison): TagList {
  if (header.trim() === '*') return '*'
  const tags: string[] = []
  ELEMENT.lastIndex = 0
  while (true) {
    const element = ELEMENT.exec(header)
    if (element === null) return []
    const [, weak, tag, comma] = element
    if (tag !== undefined && (weak === undefined || comparison === 'weak')) tags.push(tag)
    if (comma === '') return tags
  }
}

/** Whether If-Match or If-None-Match lists one of these entity tags, which are in their quotes. */
function listsAny (header: string, etags: readonly string[], comparison: Comparison): boolean {
  const listed = parseTagList(header, comparison)
  return listed === '*' || etags.some((etag) => listed.includes(etag.slice(1, -1)))
}

export const hasConditions = (headers: IncomingHttpHeaders): boolean =>
  CONDITIONS.some((name) => headers[name] !== undefined)

/**
 * Returns the precondition that is false, in the order of RFC 9110, 13.2.2. In a read, If-None-Match is no
 * precondition, because it leads to a 304.
 *
 * @param validators undefined for a resource that has none: only `*` matches it
 */
export function failedPrecondition (
  { method, headers }: ConditionalRequest,
  validators: Validators | undefined
): Precondition | undefined {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers
  const tags = validators === undefined ? [] : [validators.etag, ...validators.otherTags ?? []]
  if (ifMatch !== undefined) {
    if (!listsAny(ifMatch, tags, 'strong')) return 'If-Match'
  } else if (validators?.modifiedAt !== undefined) {
    const unmodifiedSince = parseHttpDate(headers['if-unmodified-since'])
    if (unmodifiedSince !== undefined && wholeSeconds(validators.modifiedAt) > unmodifiedSince) {
      return 'If-Unmodified-Since'
    }
  }
  const isWrite = method !== 'GET' && method !== 'HEAD'
  return isWrite && ifNoneMatch !== undefined && listsAny(ifNoneMatch, tags, 'weak') ? 'If-None-Match'
    : undefined
}

/** @throws {PreconditionFailedError} 412 if a precondition of the request is false */
export function checkPreconditions (request: ConditionalRequest, validators: Validators): void {
  const failed = failedPrecondition(request, validators)
  if (failed !== undefined) throw new PreconditionFailedError(failed, validators.etag)
}

/**
 * Lets false preconditions stop writes of resources without an ETag. Only `*` matches those, and they have no
 * time of their last change.
 *
 * @param path how the URLs of the resources begin
 * @param exists asked on routes with parameters: whether what a request names exists. If not, the route
 *   responds with its 404
 */
export function checkWithoutTags (
  routes: FastifyInstance,
  path: string,
  exists: (request: FastifyRequest) => Promise<boolean> = async () => true
): void {
  routes.addHook('onRoute', (route) => {
    if (!route.url.startsWith(path) || ['GET', 'HEAD'].includes([route.method].flat()[0] as string)) return
    const response = {
      ...errors([412], [], NOTHING_MATCHES),
      ...route.schema?.response as object
    }
    route.schema = { ...route.schema, headers: TagConditions, response }
    const hasParameters = route.url.includes('/:')
    const check = async (request: FastifyRequest): Promise<void> => {
      const failed = failedPrecondition(request, undefined)
      if (failed === undefined || (hasParameters && !await exists(request))) return
      throw new PreconditionFailedError(failed, undefined)
    }
    route.preHandler = [check, ...[route.preHandler ?? []].flat()]
  })
}

/**
 * Lets false preconditions stop the creation of a resource. Its collection has no ETag.
 *
 * @throws {PreconditionFailedError} 412
 */
export function checkCreation (request: ConditionalRequest): void {
  const failed = failedPrecondition(request, undefined)
  if (failed !== undefined) throw new PreconditionFailedError(failed, undefined)
}

/** Whether a GET or HEAD, whose preconditions are true, gets a 304. */
export function isNotModified (headers: IncomingHttpHeaders, validators: Validators): boolean {
  const { etag, modifiedAt } = validators
  const { 'if-none-match': ifNoneMatch } = headers
  if (ifNoneMatch !== undefined) return listsAny(ifNoneMatch, [etag], 'weak')
  if (modifiedAt === undefined) return false
  const modifiedSince = parseHttpDate(headers['if-modified-since'])
  return modifiedSince !== undefined && wholeSeconds(modifiedAt) <= modifiedSince
}

/** Whether If-Range, an entity tag or a date, matches the current representation (RFC 9110, 13.1.5). */
const matchesIfRange = (ifRange: string, { etag, modifiedAt }: Validators): boolean =>
  ifRange === etag || (modifiedAt !== undefined && parseHttpDate(ifRange) === wholeSeconds(modifiedAt))

/** In milliseconds, rounded down to whole seconds like Last-Modified. */
const wholeSeconds = (date: Date): number => Math.floor(date.getTime() / 1000) * 1000

/** Returns the milliseconds of an HTTP date in any of the three formats; undefined for anything else. */
export function parseHttpDate (text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const milliseconds = Date.parse(inOneFormat(text))
  return Number.isNaN(milliseconds) ? undefined : milliseconds
}

function inOneFormat (text: string): string {
  if (FIXED_DATE.test(text)) return text
  if (ASCTIME_DATE.test(text)) return `${text} GMT`
  const [, day, month, twoDigits, time] = RFC_850_DATE.exec(text) ?? []
  if (twoDigits === undefined) return ''
  const thisYear = new Date().getUTCFullYear()
  const year = thisYear - thisYear % 100 + Number(twoDigits)
  // A year more than 50 years ahead belongs to the last century.
  return `${day} ${month} ${year > thisYear + 50 ? year - 100 : year} ${time} GMT`
}

// Range and If-Range (RFC 9110, section 14).

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
