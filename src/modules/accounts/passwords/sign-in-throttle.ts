import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createTooManyRequestsError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { clock } from '../../../infra/system/clock.ts'
import { Semaphore } from '../../../infra/system/semaphore.ts'
import { secondsLeft } from '../../rate-limit/index.ts'
import { addressKey } from '../request-limits.ts'

const ADDRESS_WINDOW_MS = 60_000
const ACCOUNT_WINDOW_MS = 15 * 60_000

/** A refused attempt is retried for one second, because another replica may return budget in that time. */
const RETRY_MS = 250
const MAX_RETRIES = 4
/** The most attempts that may wait in one queue. Each uses memory, and the last waits for all others. */
const MAX_WAITING = 64

interface Budget {
  /** Its name in the audit trail. */
  readonly limit: 'sign_in:account' | 'sign_in:address'
  readonly key: string
  readonly max: number
  readonly windowMs: number
}

/**
 * The password hash is part of the key, so that failures don't count any more once the password is changed.
 *
 * @param email normalised
 */
const accountKey = (email: string, passwordHash = ''): string =>
  `sign-in:account:${createHash('sha256').update(email).update(passwordHash).digest('base64url')}`

/** The running and the waiting sign-in attempts of this process that share one budget. */
class AttemptQueue {
  /** The last known end of the budget's window, in milliseconds of the process clock. */
  resetAt = 0
  /** The number of running attempts. Each has taken one unit of the budget. */
  running = 0
  /** The number of attempts that have ended since the queue was created. */
  finished = 0
  /**
   * Attempts ask for budget one after the other, because a thousand that all asked would send a million
   * commands to Redis. One that finds the queue full gets a 429.
   */
  readonly waiting = new Semaphore({
    maxRunning: 1,
    maxWaiting: MAX_WAITING,
    createRefusal: () => this.createRefusal()
  })
  #onFinish = (): void => {}

  get isIdle (): boolean {
    return this.running === 0 && this.waiting.running === 0
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

  createRefusal (): Error {
    return createTooManyRequestsError(secondsLeft(this, clock.now()), 'failed sign-ins')
  }
}

/** Resolves to whether the credentials are right. */
type Attempt = () => Promise<boolean>

/**
 * Limits failed sign-ins per account and per client address. An attempt takes one unit of both budgets before
 * its password is checked, and returns them on success. So a thousand concurrent guesses get no further than
 * ten successive ones. If no budget is left, an attempt waits for the running ones, which may return theirs.
 */
export class SignInThrottle {
  readonly #app: FastifyInstance
  readonly #queues = new Map<string, AttemptQueue>()

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Runs an attempt to sign in.
   *
   * @param email normalised; the account need not exist; empty for malformed credentials
   * @param findHash resolves to the password hash of the account; an error isn't counted
   * @param attempt an error isn't counted
   * @returns whether the credentials are right
   * @throws {RetryLaterError} 429 after too many failures, or when too many attempts wait
   */
  async guard (
    request: FastifyRequest,
    email: string,
    findHash: () => Promise<string | undefined>,
    attempt: Attempt
  ): Promise<boolean> {
    const address: Budget = {
      limit: 'sign_in:address',
      key: addressKey('sign-in:address', request.server.addressOf(request).counted),
      max: this.#app.config.SIGN_IN_FAILURES_PER_ADDRESS,
      windowMs: ADDRESS_WINDOW_MS
    }
    return await this.#within(address, request, email, async () => {
      if (email === '') return await attempt()
      const account: Budget = {
        limit: 'sign_in:account',
        key: accountKey(email, await findHash()),
        max: this.#app.config.SIGN_IN_FAILURES_PER_ACCOUNT,
        windowMs: ACCOUNT_WINDOW_MS
      }
      return await this.#within(account, request, email, attempt)
    })
  }

  async #within (
    budget: Budget,
    request: FastifyRequest,
    email: string,
    attempt: Attempt
  ): Promise<boolean> {
    const queue = this.#queueOf(budget.key)
    try {
      const resetAt = await queue.waiting.run(async () => await this.#use(budget, queue, request))
        .catch((error: unknown) => {
          this.#app.authCounts.throttled.sign_in++
          auditRequest(request, 'limit_met', { limit: budget.limit, email_hash: this.#app.hashEmail(email) })
          throw error
        })
      let hasFailed = false
      try {
        const isRight = await attempt()
        hasFailed = !isRight
        return isRight
      } finally {
        if (!hasFailed) await this.#app.counters.giveBack(budget.key, budget.windowMs, resetAt)
        queue.finish()
      }
    } finally {
      if (queue.isIdle && this.#queues.get(budget.key) === queue) this.#queues.delete(budget.key)
    }
  }

  /** Takes one unit of the budget. Resolves to the end of its window. */
  async #use ({ key, max, windowMs }: Budget, queue: AttemptQueue, { raw }: FastifyRequest): Promise<number> {
    for (let retries = 0;;) {
      const { finished } = queue
      const { allowed, resetAt } = await this.#app.counters.takeReturnable(key, max, windowMs, clock.now())
      if (allowed) {
        queue.running++
        return resetAt
      }
      queue.resetAt = resetAt
      if (raw.socket.destroyed) throw queue.createRefusal()
      if (queue.finished > finished) continue // an attempt has ended since and may have returned budget
      if (queue.running > 0) await queue.nextFinish()
      else if (this.#app.counters.shared && retries++ < MAX_RETRIES) await sleep(RETRY_MS)
      else {
        queue.waiting.refuseWaiting(queue.createRefusal())
        throw queue.createRefusal()
      }
    }
  }

  #queueOf (key: string): AttemptQueue {
    let queue = this.#queues.get(key)
    if (queue === undefined) this.#queues.set(key, queue = new AttemptQueue())
    return queue
  }
}
