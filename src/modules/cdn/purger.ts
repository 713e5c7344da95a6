import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../../infra/postgres/database.ts'
import { clock } from '../../infra/system/clock.ts'
import { claimPurges, finishPurges, postponePurges, type Claim } from './purge-repository.ts'
import { batchSize, purgeCache, type PurgeSettings } from './purge-requests.ts'

const FIRST_RETRY_SECONDS = 5
const MAX_RETRY_SECONDS = 5 * 60

export interface PurgerOptions {
  readonly database: Database
  readonly log: FastifyBaseLogger
  readonly settings: PurgeSettings
  readonly baseUrl: () => string
}

/** Purges the CDN. */
export class Purger {
  readonly requests = { ok: 0, failed: 0 }
  givenUp = 0
  readonly #options: PurgerOptions
  /** Failures since the last success. */
  #failures = 0
  /** After a failure it sends nothing for a while, so that purges collect for one request. */
  #pausedUntil = 0

  constructor (options: PurgerOptions) {
    this.#options = options
  }

  /** Claims what is due. @returns the function that purges it; undefined when none is due */
  async claim (): Promise<((signal: AbortSignal) => Promise<void>) | undefined> {
    if (clock.now() < this.#pausedUntil) return undefined
    const { database, settings } = this.#options
    const claim = await claimPurges(database, batchSize(settings))
    return claim && (async (signal) => {
      if (claim.purges.length > 0) await this.#purge(claim, signal)
    })
  }

  async #purge (claim: Claim, signal: AbortSignal): Promise<void> {
    const { baseUrl, database, log, settings } = this.#options
    const { error, status, retryAfterSeconds = 0 } = await purgeCache(
      settings,
      baseUrl(),
      claim.purges,
      signal
    )
    if (signal.aborted) return // a shutdown: another process purges when the claim lapses
    if (error === null) {
      this.requests.ok++
      this.#failures = 0
      await finishPurges(database, claim, 'delivered')
      return
    }
    this.requests.failed++
    const seconds = Math.max(
      retryAfterSeconds,
      Math.min(FIRST_RETRY_SECONDS * 2 ** this.#failures++, MAX_RETRY_SECONDS)
    )
    this.#pausedUntil = clock.now() + seconds * 1000
    log.warn({ status, failure: error, seconds }, 'the CDN could not be purged; trying again later')
    this.givenUp += await postponePurges(database, claim, seconds)
  }
}
