import type { FastifyBaseLogger } from 'fastify'
import { messageOf } from './connection.ts'

/** Interval between two probes while PostgreSQL is reachable, and while it is not. */
const REACHABLE_INTERVAL_MS = 5000
const UNREACHABLE_INTERVAL_MS = 500

/**
 * Knows whether PostgreSQL is reachable, also while the service is idle: it probes the database regularly,
 * and at once when a statement or a connection fails. It logs one line when an outage begins and one when it
 * ends.
 */
export class Reachability {
  readonly #probe: () => Promise<unknown>
  readonly #log: FastifyBaseLogger
  #timer: NodeJS.Timeout | undefined
  #isReachable = true
  #probing: Promise<void> | undefined
  #isClosed = false

  /** @param probe runs a statement; it must fail after a time limit */
  constructor (probe: () => Promise<unknown>, log: FastifyBaseLogger) {
    this.#probe = probe
    this.#log = log
    this.#schedule()
  }

  get isReachable (): boolean {
    return this.#isReachable
  }

  /** Probes at once, because something failed. During an outage the next probe is near anyway. */
  suspect (): void {
    if (this.#isReachable) this.#check()
  }

  /** Returns whether PostgreSQL is reachable, after the probe under way. */
  async confirm (): Promise<boolean> {
    await this.#probing
    return this.#isReachable
  }

  close (): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #schedule (): void {
    clearTimeout(this.#timer)
    if (this.#isClosed) return
    const delayMs = this.#isReachable ? REACHABLE_INTERVAL_MS : UNREACHABLE_INTERVAL_MS
    this.#timer = setTimeout(() => {
      this.#check()
    }, delayMs)
    this.#timer.unref()
  }

  #check (): void {
    if (this.#isClosed) return
    this.#probing ??= this.#probeOnce().finally(() => {
      this.#probing = undefined
    })
  }

  async #probeOnce (): Promise<void> {
    const failure = await this.#probe().then(
      () => undefined,
      (error: unknown) => ({ reason: messageOf(error) })
    )
    if (this.#isClosed) return
    const wasReachable = this.#isReachable
    this.#isReachable = failure === undefined
    if (wasReachable && failure !== undefined) this.#log.warn(failure, 'PostgreSQL is unavailable')
    else if (!wasReachable && failure === undefined) this.#log.info('PostgreSQL is available again')
    this.#schedule()
  }
}
