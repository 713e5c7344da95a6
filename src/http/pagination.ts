import { Type, type Static } from '@sinclair/typebox'

// Cursor pagination of all lists, newest first. Ids are UUIDs of version 7, which sort by creation time, or
// numbers in the form of a UUID.

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 100

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
  /** Maximum number of records in the answer. */
  readonly limit: number
  /** Include only records that are older than this id. */
  readonly before: string | undefined
}

/** The page that a valid query asks for. */
export const pageOf = ({ limit = DEFAULT_LIMIT, cursor }: Static<typeof PageQuery>): Page => ({
  limit,
  before: cursor === undefined ? undefined : decodeCursor(cursor)
})

/** The Link to the records older than `lastId`. It is relative, so that tokens stay on their host. */
export const nextLink = (listPath: string, page: Page, lastId: string): string =>
  `<${listPath}?limit=${page.limit}&cursor=${encodeCursor(lastId)}>; rel="next"`

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

const encodeCursor = (id: string): string => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')

function decodeCursor (cursor: string): string {
  const hex = Buffer.from(cursor, 'base64url').toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
