import { Type, type Static } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { InvalidError, RetryLaterError } from '../errors.ts'
import { KeyedSemaphore } from '../infra/system/semaphore.ts'

// Cursor pagination of all lists. Ids are UUIDs of version 7, which sort by creation time, or numbers in the
// form of a UUID.

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
const NEWEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The page that a valid query asks for. */
export const pageOf = ({ limit = DEFAULT_LIMIT, cursor }: Static<typeof PageQuery>): Page => ({
  limit,
  before: cursor === undefined ? NEWEST : idOf(Buffer.from(cursor, 'base64url'))
})

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
  const hasNext = found.length > page.limit
  addNextLink(reply, path, page, hasNext ? cursorOf(shown.at(-1)?.id as string) : undefined)
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

// Lists that are searched and sorted. A cursor has the id of the last record and, unless the sort is
// `created`, the sort and the value of the record.

const TEXT = { pattern: /^[^\0]+$/, first: '', before: OLDEST }

/** For each sort, the values in its cursors, and the value and id before the first record. */
const SORTS = {
  created: { pattern: /^$/, first: '', before: NEWEST },
  updated: { pattern: /^\d{1,14}$/, first: '9'.repeat(14), before: NEWEST }, // in milliseconds
  /** The order in which `updated_since` lists changes, the oldest first. */
  changed: { pattern: /^\d{1,15}$/, first: '0', before: OLDEST },
  byte_size: { pattern: /^\d{1,18}$/, first: `${2n ** 63n - 1n}`, before: NEWEST },
  label: TEXT,
  filename: TEXT
}
type Sort = keyof typeof SORTS

/** A page of such a list. */
export interface SortedPage<S extends Sort = Sort> {
  /** Maximum number of records in the response. */
  readonly limit: number
  readonly sort: S
  /** Include only records with this text; null for all. */
  readonly q: string | null
  /** The list goes on after the record with this id and this value. */
  readonly after: { readonly id: string, readonly value: string }
  /** The parameters of the request. */
  readonly query: object
}

/**
 * The schema of the query string.
 *
 * @param searched where `q` is searched
 * @param sorts the sorts and their order
 */
export const sortedQuery = <S extends Sort>(searched: string, sorts: Readonly<Record<S, string>>) =>
  Type.Object({
    limit: PageQuery.properties.limit,
    cursor: Type.Optional(Type.String({
      pattern: '^[A-Za-z0-9_-]{22,4096}$',
      description: 'Cursor of the next page, from the Link header of the previous response with this `sort`'
    })),
    q: Type.Optional(Type.String({
      minLength: 1,
      maxLength: 100,
      description: `Include only records with this text in ${searched}. Case and accents do not count. A ` +
        'response may have fewer than `limit` records, or none, and still a `Link` to more.'
    })),
    sort: Type.Optional(Type.Unsafe<S>({
      type: 'string',
      enum: Object.keys(sorts),
      default: 'created',
      description: Object.entries(sorts).map(([sort, order]) => `\`${sort}\`: ${order}`).join('; ')
    }))
  })

/** The page that a valid query asks for. @throws {InvalidError} if the cursor is not one of this list */
export function sortedPageOf<S extends Sort> (
  query: Static<ReturnType<typeof sortedQuery<S>>>,
  sort = query.sort ?? 'created' as S
): SortedPage<S> {
  const { limit = DEFAULT_LIMIT, q, cursor } = query
  const { before: id, first: value } = SORTS[sort]
  return {
    limit,
    sort,
    q: q?.replaceAll('\0', '\uFFFD') ?? null, // PostgreSQL's text has no NUL
    after: cursor === undefined ? { id, value } : decode(cursor, sort),
    query
  }
}

/** Returns where a page begins in the order `of`: after the cursor, or at the start of another order. */
export const cursorValue = ({ sort, after }: SortedPage, of: Sort): string =>
  sort === of ? after.value : SORTS[of].first

export const cursorAfter = (sort: Sort, id: string, value: string): string =>
  cursorOf(id, sort === 'created' ? '' : `${sort} ${value}`)

/**
 * Adds the Link to the next page, if there is a cursor of one. It is relative, so that tokens stay on their
 * host.
 *
 * @param path the list's path in the service
 */
export function addNextLink (
  reply: FastifyReply,
  path: string,
  { limit, query }: { readonly limit: number, readonly query?: object },
  cursor: string | undefined
): void {
  if (cursor === undefined) return
  const parameters = new URLSearchParams({ ...query, limit: String(limit), cursor })
  reply.header('link', `<${reply.server.publicPath(path)}?${parameters}>; rel="next"`)
}

/** Lists of one account that may wait for the one that is read. Requests of others come in between. */
const MAX_WAITING_LISTS = 100

/** Creates the queue of lists that are read, by owner. */
export const createListQueue = (): KeyedSemaphore<number> =>
  new KeyedSemaphore({
    maxRunning: 1,
    maxWaiting: MAX_WAITING_LISTS,
    createRefusal: () => new RetryLaterError(503, 'Too many lists are being read, try again shortly', 2)
  })

function decode (cursor: string, sort: Sort): SortedPage['after'] {
  const bytes = Buffer.from(cursor, 'base64url')
  const id = idOf(bytes)
  const [, name = 'created', value = ''] = /^(\w+) (.*)$/s.exec(bytes.toString('utf8', 16)) ?? []
  const isCursor = Object.hasOwn(SORTS, name) && SORTS[name as Sort].pattern.test(value) &&
    cursorAfter(name as Sort, id, value) === cursor
  if (!isCursor) throw new InvalidError(['Cursor is invalid'])
  if (name !== sort) throw new InvalidError([`Cursor is of a list with the sort ${name}`])
  return { id, value }
}
