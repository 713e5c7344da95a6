import { clock } from '../clock.ts'
import { secondsLeft } from '../counters/counters.ts'
import { tooManyRequests } from '../errors.ts'

/** Requests that may wait in one line; what they hold is memory, and the last of them waits for all before it. */
const MAX_WAITING = 64

interface Waiting {
  readonly pass: () => void
  readonly refuse: (error: Error) => void
}

/**
 * Those who want a place of one budget, in order, and those in this process who have one and are not decided yet. Only
 * the first in line looks whether a place is free: if all did at each decision, a thousand would look a million times.
 */
export class Line {
  /** When the window of the budget ends, as far as it is known, on the process clock. */
  resetAt = 0
  /** Attempts that have a place. */
  underWay = 0
  /** Attempts that were decided, ever. */
  decided = 0
  readonly #waiting: Waiting[] = []
  readonly #onEmpty: () => void
  #hasFirst = false
  #onDecision = (): void => {}

  /** @param onEmpty called when nobody is left, neither in line nor with a place */
  constructor (onEmpty: () => void) {
    this.#onEmpty = onEmpty
  }

  /**
   * Resolves when it is one's turn to look; `next` ends it.
   *
   * @throws {RetryLaterError} 429 when the line is too long, or was sent away
   */
  async join (): Promise<void> {
    if (!this.#hasFirst) {
      this.#hasFirst = true
      return
    }
    if (this.#waiting.length >= MAX_WAITING) throw this.refusal()
    await new Promise<void>((resolve, reject) => { this.#waiting.push({ pass: resolve, refuse: reject }) })
  }

  /** The next one's turn. */
  next (): void {
    const next = this.#waiting.shift()
    if (next !== undefined) {
      next.pass()
      return
    }
    this.#hasFirst = false
    this.#leaveEmpty()
  }

  enter (): void {
    this.underWay++
  }

  /** An attempt was decided, and gave its place back before this if it had to. */
  leave (): void {
    this.underWay--
    this.decided++
    this.#onDecision()
    this.#leaveEmpty()
  }

  /** Resolves when the next attempt is decided; for the first in line. */
  async decision (): Promise<void> {
    await new Promise<void>((resolve) => { this.#onDecision = resolve })
  }

  /** Sends away all who wait; gives what the first in line is to throw. */
  refuseAll (): Error {
    for (const { refuse } of this.#waiting.splice(0)) refuse(this.refusal())
    return this.refusal()
  }

  refusal (): Error {
    return tooManyRequests(secondsLeft(this, clock.now()))
  }

  #leaveEmpty (): void {
    if (!this.#hasFirst && this.underWay === 0) this.#onEmpty()
  }
}
