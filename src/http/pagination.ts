import { Type, type Static } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'

// Cursor pagination of all lists, newest first. Ids are UUIDs of version 7, which sort by creation time, or
// numbers in the form of a UUID.

export const DEFAULT_LIMIT = 50
export const MAX_LIMIT = 100

/** 16 bytes in base64url: 22 characters. The last 4 bits of the last character are zero. */
const CURSOR = '^[A-Za-z0-9_-]{21}[AQgw]$'

/** The schema of the query string of a list. */
export const PageQuery = Type.Object({
  limit: Type
    .Optional(Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      default: DEFAULT_LIMIT,
      description: 'Maximum number of records in the response'
    })),
  cursor: Type
    .Optional(Type.String({
      pattern: CURSOR,
      description: 'Cursor of the next page, from the Link header of the previous response'
    }))
})

export interface Page {
  /** Maximum number of records in the response. */
  readonly limit: number
  /** Include only records that are older than this id. */
  readonly before: string
}

/** Less than every id. Work that goes through all rows in the order of ids begins here. */
export const OLDEST = '00000000-0000-0000-0000-000000000000'
/** Greater than every id. A list without a cursor begins here. */
export const NEWEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The page that a valid query asks for. */
export const pageOf = ({ limit = DEFAULT_LIMIT, cursor }: Static<typeof PageQuery>): Page => ({
  limit,
  before: cursor === undefined ? NEWEST : idOf(Buffer.from(cursor, 'base64url'))
})

/** The Link to the next part of a list. It is relative, so that tokens stay on their host. */
export const linkTo = (listPath: string, parameters: object): string =>
  `<${listPath}?${new URLSearchParams({ ...parameters })}>; rel="next"`

/** The Link to the records older than `lastId`. */
export const nextLink = (listPath: string, { limit }: Page, lastId: string): string =>
  linkTo(listPath, { limit, cursor: cursorOf(lastId) })

/**
 * Returns the records of a page, and adds the Link to the next one if there is one.
 *
 * @param path the list's path in the service
 * @param found the records of the page, and one more if there is a next page
 */
export function takePage<Row extends { readonly id: string }> (
  reply: FastifyReply,
  path: string,
  page: Page,
  found: readonly Row[]
): readonly Row[] {
  const shown = found.slice(0, page.limit)
  const last = shown.at(-1)
  if (found.length > page.limit && last !== undefined) {
    reply.header('link', nextLink(reply.server.publicPath(path), page, last.id))
  }
  return shown
}

/** The largest `bigint` of PostgreSQL. */
const MAX_BIGINT = 2n ** 63n - 1n

/** Returns a number from 0 in the form of an id, for lists that are ordered by a number. */
export const numberAsId = (number: bigint): string =>
  number.toString(16).padStart(32, '0').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')

/** Returns the number in an id of `numberAsId`. A cursor that a client made up gives some number. */
export function idAsNumber (id: string): bigint {
  const number = BigInt(`0x${id.replaceAll('-', '')}`)
  return number > MAX_BIGINT ? MAX_BIGINT : number
}

/** @param more what a cursor has in addition to an id */
export const cursorOf = (id: string, more = ''): string =>
  Buffer.concat([Buffer.from(id.replaceAll('-', ''), 'hex'), Buffer.from(more)]).toString('base64url')

export const idOf = (cursor: Buffer): string =>
  cursor.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
