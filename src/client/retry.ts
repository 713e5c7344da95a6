export interface RetryOptions {
  /** How often one call is repeated at most. Default 3. */
  readonly maxRetries?: number
  /** How long one call waits at most before its repetitions, all together, in milliseconds. Default 30,000. */
  readonly maxWaitMs?: number
}

/** Repeating them leaves the service as sending them once does. */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
/** The first wait when an answer names none; each one after it is twice as long. */
const FIRST_WAIT_MS = 500
/** Added to each wait at random, so that those who were refused together don't come back together. */
const SPREAD_MS = 250

/** What one call may still spend on its repetitions, however many requests it takes. */
export class RetryBudget {
  readonly #maxRetries: number
  #retries = 0
  #leftMs: number
  /** One of the answers was a 503: what the call asks for may be done by now. */
  mayBeDone = false

  constructor ({ maxRetries = 3, maxWaitMs = 30_000 }: RetryOptions) {
    this.#maxRetries = maxRetries
    this.#leftMs = maxWaitMs
  }

  /** @returns how long to wait before the next repetition; undefined when there is to be none */
  spend (retryAfter: string | null): number | undefined {
    if (this.#retries >= this.#maxRetries) return undefined
    const waitMs = retryAfterMs(retryAfter, Date.now()) ?? FIRST_WAIT_MS * 2 ** this.#retries
    if (waitMs > this.#leftMs) return undefined
    this.#retries++
    this.#leftMs -= waitMs
    return waitMs
  }
}

/** Answers to what may have been done before; see `mayHaveBeenDone`. */
const afterUnavailable = new WeakSet<Response>()

/**
 * Sends until the answer is neither 429 nor 503, as often and as long as `budget` allows, waiting as long as
 * `Retry-After` says. A 429 comes before anything was done, so it is repeated whatever the method; a 503 may come after
 * the database was asked, so POST and PATCH are not repeated. An answer that asks for more patience than is left is
 * given back as it is.
 *
 * @throws what `send` throws; the reason of `signal` when that is aborted
 */
export async function withRetries (send: () => Promise<Response>, method: string, budget: RetryBudget, signal?: AbortSignal | null): Promise<Response> {
  while (true) {
    const response = await send()
    if (budget.mayBeDone) afterUnavailable.add(response)
    if (response.status === 503) budget.mayBeDone = true
    if (response.status !== 429 && !(response.status === 503 && IDEMPOTENT.has(method))) return response
    const waitMs = budget.spend(response.headers.get('retry-after'))
    if (waitMs === undefined) return response
    await response.body?.cancel()
    await abortableSleep(waitMs + Math.random() * SPREAD_MS, signal)
  }
}

/** Whether what was asked for may have been done before this answer: one to the same call was a 503. */
export const mayHaveBeenDone = (response: Response): boolean => afterUnavailable.has(response)

/** Reads `Retry-After`, seconds or a date; undefined when it is neither. */
export function retryAfterMs (header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header) * 1000
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs)
}

/** @throws the reason of `signal` when that is aborted */
export async function abortableSleep (ms: number, signal?: AbortSignal | null): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  try {
    await abortable(new Promise((resolve) => { timer = setTimeout(resolve, ms) }), signal)
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Waits for what goes on for others too, but not longer than until `signal` is aborted.
 *
 * @throws the reason of `signal` when that is aborted
 */
export async function abortable<T> (promise: Promise<T>, signal?: AbortSignal | null): Promise<T> {
  if (signal == null) return await promise
  let abort = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
  })
  try {
    return await Promise.race([aborted, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
