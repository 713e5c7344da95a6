import { Type } from '@sinclair/typebox'
import { InvalidError } from './errors.ts'
import { isUuid } from './identifiers.ts'

// Cursor pagination of every list: newest first, because ids are UUIDs of version 7 and sort by time.

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 100

/** What a list takes in its query, for the route's schema. */
export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT, description: 'Most records in one answer' })),
  cursor: Type.Optional(Type.String({ description: 'Where to go on, from the Link header of the answer before' }))
})

export interface Page {
  /** Most records of one answer. */
  readonly limit: number
  /** Only records older than this id, when given. */
  readonly before: string | undefined
}

/**
 * Reads `limit` and `cursor` of a query.
 *
 * @throws {InvalidError} with a sentence for each that is wrong, a repeated one included
 */
export function parsePage (query: unknown): Page {
  const { limit, cursor } = query as Record<string, unknown>
  const problems: string[] = []
  const size = limit === undefined ? DEFAULT_LIMIT : typeof limit === 'string' && /^\d{1,3}$/.test(limit) ? Number(limit) : 0
  if (size < 1 || size > MAX_LIMIT) problems.push(`Limit must be a whole number from 1 to ${MAX_LIMIT}`)
  const before = typeof cursor === 'string' ? decodeCursor(cursor) : undefined
  if (cursor !== undefined && before === undefined) problems.push('Cursor is invalid')
  if (problems.length > 0) throw new InvalidError(problems)
  return { limit: size, before }
}

/** The Link header that leads to the records older than `lastId`. */
export const nextLink = (listUrl: string, page: Page, lastId: string): string =>
  `<${listUrl}?limit=${page.limit}&cursor=${encodeCursor(lastId)}>; rel="next"`

const encodeCursor = (id: string): string => Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')

function decodeCursor (cursor: string): string | undefined {
  const hex = Buffer.from(cursor, 'base64url').toString('hex')
  const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  return isUuid(id) && encodeCursor(id) === cursor ? id : undefined
}
