// Attack: a JSON body that is sent byte by byte, or not at all, to keep memory and a connection in use.
// Test: test/integration/hostile/slow-clients.test.ts
// nginx: stops long pauses, but not a steady trickle

import { clock } from '../../infra/system/clock.ts'

/** A body that hasn't begun to arrive may take this long. */
const GRACE_MS = 5_000
/** 4 KiB a second, which every mobile network reaches. */
const MIN_BYTES_PER_MS = 4096 / 1000
/** The longest pause of a body that was faster before, such as that of a phone that changes its cell. */
const MAX_PAUSE_MS = 10_000

/** Watches a body: each byte that arrives allows it a little more time. */
export class BodyPace {
  readonly #onLate: () => void
  readonly #endsAt: number
  #lateAt: number
  #timer: NodeJS.Timeout | undefined
  #hasEnded = false

  /**
   * @param timeoutMs time limit for the whole body, in milliseconds
   * @param onLate called once when the body is too slow, unless `stop()` was called before
   */
  constructor (timeoutMs: number, onLate: () => void) {
    const now = clock.now()
    this.#onLate = onLate
    this.#endsAt = now + timeoutMs
    this.#lateAt = now + GRACE_MS
    this.#wait(now)
  }

  received (bytes: number): void {
    this.#lateAt = Math.min(this.#lateAt + bytes / MIN_BYTES_PER_MS, clock.now() + MAX_PAUSE_MS)
  }

  stop (): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
  }

  /** If this process was suspended, bytes have arrived that are only read after the timers. */
  #wait (now: number): void {
    this.#timer = setTimeout(() => setImmediate(() => this.#check()), this.#timeLeft(now))
  }

  #timeLeft (now: number): number {
    return Math.min(this.#lateAt, this.#endsAt) - now
  }

  #check (): void {
    if (this.#hasEnded) return
    const now = clock.now()
    if (this.#timeLeft(now) > 0) this.#wait(now)
    else this.#onLate()
  }
}
