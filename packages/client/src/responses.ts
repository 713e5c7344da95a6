import type { Client } from 'openapi-fetch'
import type { paths } from './api.ts'
import { createError } from './errors.ts'
import { isAfterUnavailable } from './retry.ts'

/**
 * openapi-fetch's client without its middleware. A retry repeats the original call, so changes by middleware
 * would be lost. Pass your own `fetch` to observe or change every request.
 */
export type Api = Omit<Client<paths>, 'use' | 'eject'>

export interface CallOptions {
  /** Ends the call, including its retries. */
  readonly signal?: AbortSignal
}

export interface ListOptions extends CallOptions {
  /** The number of records in one part, 1 to 100. */
  readonly limit?: number
  /** The `next` of the previous part. */
  readonly cursor?: string | undefined
}

/** Options of a list that can be searched and sorted. */
export interface SearchOptions<Sort extends string> extends ListOptions {
  /** Only records with this text. Case and accents don't count. A part may then have few records, or none. */
  readonly q?: string | undefined
  /** Default: `created`, newest first. */
  readonly sort?: Sort | undefined
}

/** One part of a list. */
export interface List<Item> {
  readonly items: Item[]
  /** The cursor of the next part; undefined when this is the last one. */
  readonly next: string | undefined
}

/** What openapi-fetch returns for a request. */
export interface Result<T> {
  readonly data?: T
  readonly error?: unknown
  readonly response: Response
}

/** Returns the data of a response. @throws {LandfallError} when the service answered with an error */
export async function unwrap<T> (result: Promise<Result<T>>): Promise<{ data: T, response: Response }> {
  const { data, error, response } = await result
  if (!response.ok) throw createError(response, error)
  return { data: data as T, response }
}

/** Returns one part of a list. @throws {LandfallError} when the service answered with an error */
export async function unwrapList<Item> (result: Promise<Result<Item[]>>): Promise<List<Item>> {
  const { data, response } = await unwrap(result)
  return { items: data, next: getNextCursor(response) }
}

/**
 * Accepts a 404 for a deletion that was repeated after a 503: the first request may have deleted the record.
 *
 * @throws {LandfallError} when the service answered with another error
 */
export async function unwrapDeletion (result: Promise<Result<unknown>>): Promise<Response> {
  const { error, response } = await result
  if (response.ok || (response.status === 404 && isAfterUnavailable(response))) return response
  throw createError(response, error)
}

/**
 * Returns the `ETag` of a response to an owner; empty when it has none. It is that of the uncompressed
 * response, so that a version has the same ETag everywhere. Conditions of owners' requests accept both.
 */
export const getEtag = (response: Response): string =>
  (response.headers.get('etag') ?? '').replace(/-(?:br|gzip)"$/, '"')

/** Returns the cursor in `Link: <…>; rel="next"`. Ignores the path, because a proxy may have changed it. */
export function getNextCursor (response: Response): string | undefined {
  const url = /<([^>]*)>\s*;\s*rel="?next\b/i.exec(response.headers.get('link') ?? '')?.[1]
  return url === undefined ? undefined
    : new URL(url, 'http://localhost').searchParams.get('cursor') ?? undefined
}

/** Iterates over all items of a list and requests each part when it is needed. */
export async function* iterate<Item, Options extends ListOptions> (
  listPage: (options: Options) => Promise<List<Item>>,
  options: Options
): AsyncGenerator<Item, void, undefined> {
  let { cursor } = options
  do {
    const { items, next } = await listPage({ ...options, cursor })
    for (const item of items) {
      options.signal?.throwIfAborted()
      yield item
    }
    cursor = next
  } while (cursor !== undefined)
}

/** Returns a time as the service takes it. */
export const toTimeText = (time: Date | string | undefined): string | undefined =>
  time instanceof Date ? time.toISOString() : time
