import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { addCounter } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    authCounts: AuthCounts
    apiKeyUses: ApiKeyUses
  }
}

/** Counts of events in this process. The code that handles an event increments its count. */
export interface AuthCounts {
  readonly sessions: Record<'begun' | 'refreshed' | 'replayed' | 'signed_out' | 'ended', number>
  signInFailures: number
  /** Requests answered with a 429, by limit. */
  readonly throttled: Record<'sign_in' | 'sign_up' | 'refresh' | 'password_reset', number>
}

/** Keys that have a metric of their own. Prometheus keeps a time series for each. */
const MEASURED_KEYS = 1000

/** Counts the requests of each API key, for the keys that were used last. */
export class ApiKeyUses {
  readonly #requests = new LRUCache<string, number>({ max: MEASURED_KEYS })

  /** @param keyId its id, never the key */
  add (keyId: string): void {
    this.#requests.set(keyId, (this.#requests.get(keyId) ?? 0) + 1)
  }

  get byKey (): Record<string, number> {
    return Object.fromEntries(this.#requests.entries())
  }
}

export default fp(async (app) => {
  const apiKeyUses = new ApiKeyUses()
  app.decorate('apiKeyUses', apiKeyUses)
  addCounter(
    app.metrics,
    {
      name: 'landfall_api_key_requests_total',
      help: `Requests by API key (its id), for the ${MEASURED_KEYS} keys that this process saw last`
    },
    () => apiKeyUses.byKey,
    'key'
  )
  const counts: AuthCounts = {
    sessions: { begun: 0, refreshed: 0, replayed: 0, signed_out: 0, ended: 0 },
    signInFailures: 0,
    throttled: { sign_in: 0, sign_up: 0, refresh: 0, password_reset: 0 }
  }
  app.decorate('authCounts', counts)
  addCounter(
    app.metrics,
    {
      name: 'landfall_sessions_total',
      help:
        'Sessions by event: begun, refreshed, signed_out, ended (by another session, a new password or a ' +
        'confirmed address), or replayed (ended because a rotated refresh token was used again)'
    },
    () => counts.sessions,
    'event'
  )
  addCounter(app.metrics, {
    name: 'landfall_sign_in_failures_total',
    help: 'Sign-ins with a wrong e-mail address or password, and wrong current passwords'
  }, () => counts.signInFailures)
  addCounter(
    app.metrics,
    {
      name: 'landfall_auth_throttled_total',
      help: 'Sign-ins, sign-ups, refreshes and requests for a password reset answered with a 429, by limit'
    },
    () => counts.throttled,
    'limit'
  )
}, { name: 'auth-counts', dependencies: ['metrics'] })
