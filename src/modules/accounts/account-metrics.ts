import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { addMetrics } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    authCounts: AuthCounts
    /** Counts a request of the API key with this id. */
    countKeyUse: (keyId: string) => void
  }
}

/** Counts of events in this process. The code that handles an event increments its count. */
type AuthCounts = ReturnType<typeof noCounts>
const noCounts = () => ({
  sessions: { begun: 0, refreshed: 0, replayed: 0, signed_out: 0, ended: 0 },
  signInFailures: 0,
  /** Requests answered with a 429, by limit. */
  throttled: { sign_in: 0, sign_up: 0, refresh: 0, password_reset: 0 }
})

/** Keys that have a metric of their own: those used last. Prometheus keeps a time series for each. */
const MEASURED_KEYS = 1000

export default fp(async (app) => {
  const keyRequests = new LRUCache<string, number>({ max: MEASURED_KEYS })
  app.decorate('countKeyUse', (id) => keyRequests.set(id, (keyRequests.get(id) ?? 0) + 1))
  const counts = noCounts()
  app.decorate('authCounts', counts)
  addMetrics(app.metrics, {
    landfall_api_key_requests_total: [
      `Requests by API key (its id), for the ${MEASURED_KEYS} keys that this process saw last`,
      () => Object.fromEntries(keyRequests.entries()),
      { label: 'key' }
    ],
    landfall_sessions_total: [
      'Sessions by event: begun, refreshed, signed_out, ended (by another session, a new password or a ' +
      'confirmed address), or replayed (ended because a rotated refresh token was used again)',
      () => counts.sessions,
      { label: 'event' }
    ],
    landfall_sign_in_failures_total: ['Wrong addresses and passwords', () => counts.signInFailures],
    landfall_auth_throttled_total: ['429 of account routes', () => counts.throttled, { label: 'limit' }]
  })
}, { name: 'auth-counts', dependencies: ['metrics'] })
