import type { Client } from 'openapi-fetch'
import type { paths } from './api.ts'
import { errorOf } from './errors.ts'
import { mayHaveBeenDone } from './retry.ts'

/**
 * openapi-fetch's client without its middleware, whose changes to a request would be lost: what is sent, and sent again,
 * is made of what the call was given. A `fetch` of your own sees every request.
 */
export type Api = Omit<Client<paths>, 'use' | 'eject'>

export interface CallOptions {
  /** Ends the call, its waits and repetitions included. */
  readonly signal?: AbortSignal
}

export interface ListOptions extends CallOptions {
  /** Records of one answer, 1 to 100. */
  readonly limit?: number
  /** `next` of the list before. */
  readonly cursor?: string | undefined
}

/** A part of a list. */
export interface List<Item> {
  readonly items: Item[]
  /** The cursor that leads on; undefined when there is no more. */
  readonly next: string | undefined
}

interface Answer<T> {
  readonly data?: T
  readonly error?: unknown
  readonly response: Response
}

/** @throws {LandfallError} when the answer is no success */
export async function unwrap<T> (answer: Promise<Answer<T>>): Promise<{ data: T, response: Response }> {
  const { data, error, response } = await answer
  if (!response.ok) throw errorOf(response, error)
  return { data: data as T, response }
}

/**
 * The end of a deletion. One that is repeated after a 503 may find nothing left to delete.
 *
 * @throws {LandfallError}
 */
export async function deleted (answer: Promise<Answer<unknown>>): Promise<void> {
  const { error, response } = await answer
  if (!response.ok && !(response.status === 404 && mayHaveBeenDone(response))) throw errorOf(response, error)
}

/** The cursor in `Link: <…>; rel="next"`. Only that: seen from here, the service may be at another address than it knows of. */
export function nextCursor (response: Response): string | undefined {
  const url = /<([^>]*)>\s*;\s*rel="?next\b/i.exec(response.headers.get('link') ?? '')?.[1]
  return url === undefined ? undefined : new URL(url, 'http://localhost').searchParams.get('cursor') ?? undefined
}

/** All items of a list, asked for as they are needed. */
export async function * itemsOf<Item> (page: (options: ListOptions) => Promise<List<Item>>, options: ListOptions): AsyncGenerator<Item, void, undefined> {
  let { cursor } = options
  do {
    const { items, next } = await page({ ...options, ...(cursor !== undefined && { cursor }) })
    for (const item of items) {
      options.signal?.throwIfAborted()
      yield item
    }
    cursor = next
  } while (cursor !== undefined)
}
