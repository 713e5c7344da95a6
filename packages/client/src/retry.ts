export interface RetryOptions {
  /** The most retries of one call. Default 3. */
  readonly maxRetries?: number
  /** The longest total wait before the retries of one call, in milliseconds. Default 30,000. */
  readonly maxWaitMs?: number
  /**
   * Whether a read of a published document that is not in the cache also waits after a 429. Default false,
   * because the wait is up to a minute while a visitor sees nothing.
   */
  readonly publicReads?: boolean
}

interface Sending {
  /** Whether to repeat the request after a 503. */
  readonly isIdempotent: boolean
  readonly budget: RetryBudget
  /** Whether to repeat the request after a 429. */
  readonly waitsAtLimit: boolean
  readonly signal?: AbortSignal | null | undefined
}

/** The first wait without a `Retry-After`. It doubles with each retry. */
const FIRST_WAIT_MS = 500
/** A random part of this is added to each wait, so that clients don't all retry at once. */
const JITTER_MS = 250

/** The remaining retries and waiting time of a call, for all of its requests. */
export class RetryBudget {
  readonly #maxRetries: number
  #retries = 0
  #leftMs: number
  /** Whether a request of this call got a 503, so that the service may have carried it out. */
  mayBeDone = false

  constructor ({ maxRetries = 3, maxWaitMs = 30_000 }: RetryOptions) {
    this.#maxRetries = maxRetries
    this.#leftMs = maxWaitMs
  }

  /** Takes one retry. Returns the time to wait before it, or undefined when the budget is used up. */
  take (retryAfter: string | null): number | undefined {
    if (this.#retries >= this.#maxRetries) return undefined
    const waitMs = parseRetryAfter(retryAfter, Date.now()) ?? FIRST_WAIT_MS * 2 ** this.#retries
    if (waitMs > this.#leftMs) return undefined
    this.#retries++
    this.#leftMs -= waitMs
    return waitMs
  }
}

const afterUnavailable = new WeakSet<Response>()

/**
 * Sends a request and repeats it while the response is 429 or 503, as `Retry-After` and the budget allow.
 * After a 429, every method is repeated, because the service did not carry out the request. After a 503, it
 * may have done so, and only idempotent methods are repeated.
 *
 * @throws the error of `send`, or the reason of `signal` when it is aborted
 */
export async function sendWithRetries (
  send: () => Promise<Response>,
  { isIdempotent, budget, waitsAtLimit, signal }: Sending
): Promise<Response> {
  while (true) {
    const response = await send()
    if (budget.mayBeDone) afterUnavailable.add(response)
    if (response.status === 503) budget.mayBeDone = true
    const isRepeated = response.status === 429 ? waitsAtLimit
      : response.status === 503 && isIdempotent
    if (!isRepeated) return response
    const waitMs = budget.take(response.headers.get('retry-after'))
    if (waitMs === undefined) return response
    await response.body?.cancel()
    await sleep(waitMs + Math.random() * JITTER_MS, signal)
  }
}

/** Whether an earlier request of the same call got a 503, and so may have been carried out. */
export const isAfterUnavailable = (response: Response): boolean => afterUnavailable.has(response)

/** Parses `Retry-After` (seconds or a date) to milliseconds from `nowMs`; undefined when it is neither. */
export function parseRetryAfter (header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header) * 1000
  const date = Date.parse(header)
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs)
}

/** Waits for `ms` milliseconds. @throws the reason of `signal` when it is aborted */
export async function sleep (ms: number, signal?: AbortSignal | null): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  try {
    await abortable(
      new Promise((resolve) => {
        timer = setTimeout(resolve, ms)
      }),
      signal
    )
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Waits for a promise that other callers may share. An abort ends the wait, not the shared work.
 *
 * @throws the reason of `signal` when it is aborted
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
