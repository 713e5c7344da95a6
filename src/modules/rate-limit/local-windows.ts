import { GenerationalMap } from './generational-map.ts'

/** The result of counting one use in a fixed window. */
export interface Count {
  /** Whether the use is within the limit. A refused use isn't counted. */
  readonly allowed: boolean
  /** Uses counted in the window, including this one if it was allowed. */
  readonly used: number
  /** When the window ends, in milliseconds of the process clock. */
  readonly resetAt: number
}

/** What a process knows of a window. */
export interface Window {
  /** Its id in Redis; empty if it has uses that Redis doesn't know of. */
  id: string
  used: number
  /** When it ends, in milliseconds of the process clock. */
  resetAt: number
}

/** The most windows that are kept (some tens of MB). Beyond that, the oldest are forgotten. */
const MAX_WINDOWS = 500_000

/** Fixed windows of one length, counted in this process. */
export class LocalWindows {
  readonly #windowMs: number
  readonly #windows: GenerationalMap<Window>

  /** @param windowMs how long a window lasts from its first use, in milliseconds */
  constructor (windowMs: number) {
    this.#windowMs = windowMs
    this.#windows = new GenerationalMap(windowMs, MAX_WINDOWS)
  }

  /** Counts one use unless the limit is reached. */
  take (key: string, limit: number, now: number): Count {
    const window = this.#open(key, now)
    const allowed = window.used < limit
    if (allowed) {
      window.used++
      window.id = ''
    }
    return { allowed, used: window.used, resetAt: window.resetAt }
  }

  /** Takes back a use. */
  giveBack (key: string, now: number): void {
    const window = this.find(key, now)
    if (window !== undefined && window.used > 0) window.used--
  }

  /** Lowers the count of a window to the one in Redis, if they are the same window. */
  lower (key: string, id: string | null, used: number, now: number): void {
    const window = this.find(key, now)
    if (window?.id === id) window.used = Math.min(window.used, used)
  }

  /** Returns a refusal if the window is exhausted, and otherwise undefined. Doesn't count. */
  refusal (key: string, limit: number, now: number): Count | undefined {
    const window = this.find(key, now)
    if (window === undefined || window.used < limit) return undefined
    return { allowed: false, used: window.used, resetAt: window.resetAt }
  }

  /** Sets a window to the one in Redis, so that counting can continue without Redis. */
  adopt (key: string, known: Window, now: number): void {
    Object.assign(this.#open(key, now), known)
  }

  /** Returns the window, unless it has ended or none is known. */
  find (key: string, now: number): Window | undefined {
    const window = this.#windows.get(key)
    return window !== undefined && now < window.resetAt ? window : undefined
  }

  #open (key: string, now: number): Window {
    const known = this.find(key, now)
    if (known !== undefined) return known
    const window = { id: '', used: 0, resetAt: now + this.#windowMs }
    this.#windows.set(key, window, now)
    return window
  }
}
