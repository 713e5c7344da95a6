import { Type, type Static } from '@sinclair/typebox'
import type { FastifyReply } from 'fastify'
import { InvalidError, RetryLaterError } from '../errors.ts'
import { KeyedSemaphore } from '../infra/system/semaphore.ts'
import { cursorOf, DEFAULT_LIMIT, idOf, linkTo, NEWEST, OLDEST, PageQuery } from './pagination.ts'

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

/** The value of a sort after which a page begins. With another sort, it is the first one. */
export const valueOf = ({ sort, after }: SortedPage, of: Sort): string =>
  sort === of ? after.value : SORTS[of].first

export const cursorAfter = (sort: Sort, id: string, value: string): string =>
  cursorOf(id, sort === 'created' ? '' : `${sort} ${value}`)

/** Adds the Link to the next page, if there is a cursor of one. @param path the list's path in the service */
export function addNextLink (
  reply: FastifyReply,
  path: string,
  { limit, query }: SortedPage,
  cursor: string | undefined
): void {
  if (cursor === undefined) return
  reply.header('link', linkTo(reply.server.publicPath(path), { ...query, limit, cursor }))
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
