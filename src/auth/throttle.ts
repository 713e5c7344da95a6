import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { clock } from '../clock.ts'
import type { Counters } from '../counters/counters.ts'
import type { AuthCounts } from './auth-counts.ts'
import { Line } from './line.ts'

const MINUTE_MS = 60_000
const ACCOUNT_WINDOW_MS = 15 * MINUTE_MS

/**
 * Places may be taken by good sign-ins that another replica is just deciding, so a refusal is looked at again for about
 * as long as that takes. It slows down guessing, too.
 */
const LOOK_AGAIN_MS = 250
const MAX_LOOKS = 4

interface Budget {
  readonly key: string
  readonly limit: number
  readonly windowMs: number
}

/**
 * Counts failed sign-ins. An attempt takes its place in the count before the password is looked at and gives it back
 * when it succeeds, so that a thousand guesses at once are no more than ten in turn. Attempts that find the places
 * taken wait in line for those under way in this process to be decided, so that many good sign-ins at once all succeed.
 */
export class SignInThrottle {
  readonly #counters: Counters
  readonly #perAccount: number
  readonly #perAddress: number
  readonly #throttled: AuthCounts['throttled']
  readonly #lines = new Map<string, Line>()

  constructor (app: FastifyInstance) {
    this.#counters = app.counters
    this.#perAccount = app.config.SIGN_IN_FAILURES_PER_ACCOUNT
    this.#perAddress = app.config.SIGN_IN_FAILURES_PER_ADDRESS
    this.#throttled = app.authCounts.throttled
  }

  /**
   * Runs an attempt to sign in.
   *
   * @param email normalised; whether anybody has it makes no difference
   * @param attempt resolves to undefined when it failed; one that throws is not counted
   * @throws {RetryLaterError} 429 when there have been too many failures, or too many wait to know whether there have
   */
  async guard<T> (request: FastifyRequest, email: string, attempt: () => Promise<T | undefined>): Promise<T | undefined> {
    const address: Budget = { key: `sign-in:address:${request.server.addressOf(request).counted}`, limit: this.#perAddress, windowMs: MINUTE_MS }
    const account: Budget = { key: `sign-in:account:${createHash('sha256').update(email).digest('base64url')}`, limit: this.#perAccount, windowMs: ACCOUNT_WINDOW_MS }
    const { socket } = request.raw
    const isGone = (): boolean => socket.destroyed
    return await this.#within(address, isGone, async () => await this.#within(account, isGone, attempt))
  }

  async #within<T> (budget: Budget, isGone: () => boolean, attempt: () => Promise<T | undefined>): Promise<T | undefined> {
    const { resetAt, line } = await this.#takePlace(budget, isGone).catch((error: unknown) => {
      this.#throttled.sign_in++
      throw error
    })
    let failed = false
    try {
      const result = await attempt()
      failed = result === undefined
      return result
    } finally {
      if (!failed) await this.#counters.giveBack(budget.key, budget.windowMs, resetAt)
      line.leave()
    }
  }

  async #takePlace ({ key, limit, windowMs }: Budget, isGone: () => boolean): Promise<{ resetAt: number, line: Line }> {
    let line = this.#lines.get(key)
    if (line === undefined) this.#lines.set(key, line = new Line(() => this.#lines.delete(key)))
    await line.join()
    try {
      for (let looks = 0; ;) {
        const { decided } = line
        const now = clock.now()
        const count = this.#counters.takeReturnable(key, limit, windowMs, now)
        const { allowed, resetAt } = count instanceof Promise ? await count : count
        if (allowed) {
          line.enter()
          return { resetAt, line }
        }
        line.resetAt = resetAt
        if (isGone()) throw line.refusal()
        if (line.decided > decided) continue // meanwhile, maybe with a place given back
        if (line.underWay > 0) await line.decision()
        else if (this.#counters.shared && looks++ < MAX_LOOKS) await sleep(LOOK_AGAIN_MS)
        else throw line.refuseAll()
      }
    } finally {
      line.next()
    }
  }
}

/** Options of @fastify/rate-limit for a route that one client address may call `max` times a minute. */
export const perAddress = (name: string, max: number, onExceeded: () => void) => ({
  rateLimit: { max, timeWindow: MINUTE_MS, onExceeded, keyGenerator: (request: FastifyRequest) => `${name}:${request.server.addressOf(request).counted}` }
})

/** A store for @fastify/rate-limit on the service's own counters, so that there is one count and one way to lose Redis. */
export const rateLimitStore = (counters: Counters) => class Store {
  incr (key: string, done: (error: Error | null, result?: { current: number, ttl: number }) => void, windowMs: number, max: number): void {
    const now = clock.now()
    Promise.resolve(counters.take(key, max, windowMs, now)).then(
      (count) => done(null, { current: count.allowed ? count.used : max + 1, ttl: Math.max(1, count.resetAt - now) }),
      done
    )
  }

  child (): this {
    return this
  }
}
