import fp from 'fastify-plugin'
import { addCounter } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    authCounts: AuthCounts
  }
}

/** Counts of events in this process. The code that handles an event increments its count. */
export interface AuthCounts {
  readonly sessions: Record<'begun' | 'refreshed' | 'replayed' | 'signed_out', number>
  signInFailures: number
  /** Requests answered with a 429, by limit. */
  readonly throttled: Record<'sign_in' | 'sign_up' | 'refresh', number>
}

export default fp(async (app) => {
  const counts: AuthCounts = {
    sessions: { begun: 0, refreshed: 0, replayed: 0, signed_out: 0 },
    signInFailures: 0,
    throttled: { sign_in: 0, sign_up: 0, refresh: 0 }
  }
  app.decorate('authCounts', counts)
  addCounter(
    app.metrics,
    {
      name: 'landfall_sessions_total',
      help:
        'Sessions by event: begun, refreshed, signed_out, or replayed (ended because a rotated refresh token was used again)'
    },
    () => counts.sessions,
    'event'
  )
  addCounter(app.metrics, {
    name: 'landfall_sign_in_failures_total',
    help: 'Sign-ins with a wrong e-mail address or password'
  }, () => counts.signInFailures)
  addCounter(
    app.metrics,
    {
      name: 'landfall_auth_throttled_total',
      help: 'Sign-ins, sign-ups and refreshes answered with a 429, by limit'
    },
    () => counts.throttled,
    'limit'
  )
}, { name: 'auth-counts', dependencies: ['metrics'] })
