import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { runQueue, watchBacklog } from '../../infra/postgres/shared-work.ts'
import { clock } from '../../infra/system/clock.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { CDN_TARGETS, measureOverdue } from '../landing-pages/index.ts'
import { claimPurges, endClaim, type Claim } from './purge-repository.ts'
import { batchSize, purgeCache, type PurgeSettings } from './purge-requests.ts'

const CHECK_INTERVAL_MS = 1_000
/** More than a request takes, and less than a claim, which lapses after 30 s. */
const PURGE_LIMIT_MS = 25_000
const MEASURE_INTERVAL_MS = 15_000

const FIRST_RETRY_SECONDS = 5
const MAX_RETRY_SECONDS = 5 * 60

/** Purges the CDN. */
class Purger {
  readonly requests = { ok: 0, failed: 0 }
  givenUp = 0
  readonly #app: FastifyInstance
  readonly #settings: PurgeSettings
  /** Failures since the last success. */
  #failures = 0
  /** After a failure it sends nothing for a while, so that purges collect for one request. */
  #pausedUntil = 0

  constructor (app: FastifyInstance, settings: PurgeSettings) {
    this.#app = app
    this.#settings = settings
  }

  /** Claims what is due. @returns the function that purges it; undefined when none is due */
  async claim (): Promise<((signal: AbortSignal) => Promise<void>) | undefined> {
    if (clock.now() < this.#pausedUntil) return undefined
    const claim = await claimPurges(this.#app.database, batchSize(this.#settings))
    return claim && (async (signal) => {
      if (claim.purges.length > 0) await this.#purge(claim, signal)
    })
  }

  async #purge (claim: Claim, signal: AbortSignal): Promise<void> {
    const { baseUrl, database, log } = this.#app
    const { error, status, retryAfterSeconds = 0 } = await purgeCache(
      this.#settings,
      baseUrl(),
      claim.purges,
      signal
    )
    if (signal.aborted) return // a shutdown: another process purges when the claim lapses
    if (error === null) {
      this.requests.ok++
      this.#failures = 0
      await endClaim(database, claim, null)
      return
    }
    this.requests.failed++
    const seconds = Math.max(
      retryAfterSeconds,
      Math.min(FIRST_RETRY_SECONDS * 2 ** this.#failures++, MAX_RETRY_SECONDS)
    )
    this.#pausedUntil = clock.now() + seconds * 1000
    log.warn({ status, failure: error, seconds }, 'the CDN could not be purged; trying again later')
    this.givenUp += await endClaim(database, claim, seconds)
  }
}

/** Purges a cache in front of the service, if there is one (docs/operations.md, "CDN"). */
export default fp(async (app) => {
  const { config, database, log, metrics } = app
  const { CDN_PURGE } = config
  if (CDN_PURGE === undefined) return
  if (!/\bs-maxage=\d/i.test(config.PUBLIC_CACHE_CONTROL)) {
    log.warn('PUBLIC_CACHE_CONTROL has no s-maxage, so the CDN keeps documents no longer than browsers do; ' +
      'see "CDN" in docs/operations.md')
  }
  const purger = new Purger(app, { ...config, CDN_PURGE })
  runQueue(app, {
    name: 'purges',
    intervalMs: CHECK_INTERVAL_MS,
    maxRunning: 1,
    limitMs: PURGE_LIMIT_MS,
    claim: async () => await purger.claim()
  })

  // A purge that is frozen is due when it is settled.
  const outstanding = watchBacklog(
    app,
    MEASURE_INTERVAL_MS,
    async () => await measureOverdue(database, { in: CDN_TARGETS }, 'settledAt')
  )
  addMetrics(metrics, {
    landfall_cdn_purge_requests_total: [
      'Requests that purge the CDN, by result',
      () => purger.requests,
      { label: 'result' }
    ],
    landfall_cdn_purges_given_up_total: [
      'Pages and files that all attempts of three days could not purge',
      () => purger.givenUp
    ],
    landfall_cdn_purges_outstanding: [
      'Pages and files that should have been purged but are not yet, by all processes',
      () => outstanding().count,
      { aggregator: 'max' }
    ],
    landfall_oldest_outstanding_cdn_purge_seconds: [
      'How long ago the oldest outstanding purge should have been made',
      () => outstanding().oldestSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'cdn', dependencies: ['database', 'metrics'] })
