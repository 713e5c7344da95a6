import fp from 'fastify-plugin'
import { runQueue, watchBacklog } from '../../infra/postgres/queue-runner.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { CDN_TARGETS, measureOverdue } from '../landing-pages/index.ts'
import { Purger } from './purger.ts'

const CHECK_INTERVAL_MS = 1_000
/** More than a request takes, and less than a claim, which lapses after 30 s. */
const PURGE_LIMIT_MS = 25_000
const MEASURE_INTERVAL_MS = 15_000

/** Purges a cache in front of the service, if there is one (docs/operations.md, "CDN"). */
export default fp(async (app) => {
  const { config, database, log, metrics } = app
  const { CDN_PURGE } = config
  if (CDN_PURGE === undefined) return
  if (!/\bs-maxage=\d/i.test(config.PUBLIC_CACHE_CONTROL)) {
    log.warn('PUBLIC_CACHE_CONTROL has no s-maxage, so the CDN keeps documents no longer than browsers do; ' +
      'see "CDN" in docs/operations.md')
  }
  const purger = new Purger({ database, log, settings: { ...config, CDN_PURGE }, baseUrl: app.baseUrl })
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
      'How long ago the oldest of them should have been purged',
      () => outstanding().oldestSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'cdn', dependencies: ['database', 'metrics'] })
