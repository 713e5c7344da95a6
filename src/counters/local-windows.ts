/** What a fixed window says about one more use. */
export interface Count {
  /** Whether this use is within the limit, and so was counted. */
  readonly allowed: boolean
  /** Uses counted in the window, this one included if it was allowed. */
  readonly used: number
  /** When the window ends, in milliseconds of the process clock. */
  readonly resetAt: number
}

interface Window {
  used: number
  resetAt: number
}

/** How many windows are kept before the oldest are forgotten: some tens of MB. */
const MAX_WINDOWS = 500_000

/**
 * Fixed windows of one length, counted in this process. Two generations of windows take turns, so that windows which
 * have ended are dropped together instead of by one timer each. A window is forgotten only when it has ended, or early
 * when there are more than MAX_WINDOWS of them.
 */
export class LocalWindows {
  readonly #windowMs: number
  #young = new Map<string, Window>()
  #old = new Map<string, Window>()
  #turnAt = 0

  /** @param windowMs how long a window lasts from its first use, in milliseconds */
  constructor (windowMs: number) {
    this.#windowMs = windowMs
  }

  /** Counts one use if that keeps within the limit. A refused use is not counted. */
  take (key: string, limit: number, now: number): Count {
    const window = this.#open(key, now)
    const allowed = window.used < limit
    if (allowed) window.used++
    return { allowed, used: window.used, resetAt: window.resetAt }
  }

  /** Takes a use back, because it turned out not to be one that counts. */
  giveBack (key: string, now: number): void {
    const window = this.#find(key, now)
    if (window !== undefined && window.used > 0) window.used--
  }

  /** The refusal that is due if the window is known to be used up, without counting anything. */
  refusal (key: string, limit: number, now: number): Count | undefined {
    const window = this.#find(key, now)
    if (window === undefined || window.used < limit) return undefined
    return { allowed: false, used: window.used, resetAt: window.resetAt }
  }

  /** Takes over what is known from elsewhere, so that counting goes on from there. */
  adopt (key: string, used: number, resetAt: number, now: number): void {
    const window = this.#open(key, now)
    window.used = used
    window.resetAt = resetAt
  }

  #find (key: string, now: number): Window | undefined {
    const window = this.#young.get(key) ?? this.#old.get(key)
    return window !== undefined && now < window.resetAt ? window : undefined
  }

  #open (key: string, now: number): Window {
    const known = this.#find(key, now)
    if (known !== undefined) return known
    if (now >= this.#turnAt || this.#young.size >= MAX_WINDOWS / 2) {
      this.#old = this.#young
      this.#young = new Map()
      this.#turnAt = now + this.#windowMs
    }
    const window = { used: 0, resetAt: now + this.#windowMs }
    this.#young.set(key, window)
    return window
  }
}
