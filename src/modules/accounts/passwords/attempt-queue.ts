import { createTooManyRequestsError } from '../../../errors.ts'
import { clock } from '../../../infra/system/clock.ts'
import { Semaphore } from '../../../infra/system/semaphore.ts'
import { secondsLeft } from '../../rate-limit/index.ts'

/** The most attempts that may wait in one queue. Each uses memory, and the last waits for all others. */
const MAX_WAITING = 64

/** The running and the waiting sign-in attempts of this process that share one budget. */
export class AttemptQueue {
  /** The last known end of the budget's window, in milliseconds of the process clock. */
  resetAt = 0
  /** The number of running attempts. Each has taken one unit of the budget. */
  running = 0
  /** The number of attempts that have ended since the queue was created. */
  finished = 0
  readonly #turns = new Semaphore({
    maxRunning: 1,
    maxWaiting: MAX_WAITING,
    createRefusal: () => this.createRefusal()
  })
  #onFinish = (): void => {}

  get isIdle (): boolean {
    return this.running === 0 && this.#turns.running === 0
  }

  /**
   * Calls `action` when this attempt is first in the queue. Only the first attempt asks for budget. If all
   * waiting attempts asked, a thousand of them would send a million commands to Redis.
   *
   * @throws {RetryLaterError} 429 when the queue is full or `refuseWaiting` was called
   */
  async whenFirst<T> (action: () => Promise<T>): Promise<T> {
    return await this.#turns.run(action)
  }

  /** Must be called after each attempt. A successful attempt must return its budget first. */
  finish (): void {
    this.running--
    this.finished++
    this.#onFinish()
  }

  /** Resolves when the next attempt ends. Only the first attempt in the queue may call it. */
  async nextFinish (): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onFinish = resolve
    })
  }

  /** Refuses all waiting attempts with a 429. */
  refuseWaiting (): void {
    this.#turns.refuseWaiting(this.createRefusal())
  }

  createRefusal (): Error {
    return createTooManyRequestsError(secondsLeft(this, clock.now()), 'failed sign-ins')
  }
}
