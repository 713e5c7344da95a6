import fp from 'fastify-plugin'
import { counterOf } from '../plugins/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    authCounts: AuthCounts
  }
}

/** What happens to sessions and to those who want one. To be raised by whoever has done it. */
export interface AuthCounts {
  readonly sessions: Record<'begun' | 'refreshed' | 'replayed' | 'signed_out', number>
  /** Wrong e-mail address or password. */
  signInFailures: number
  /** Answered 429, by the limit. */
  readonly throttled: Record<'sign_in' | 'sign_up' | 'refresh', number>
}

export default fp(async (app) => {
  const counts: AuthCounts = {
    sessions: { begun: 0, refreshed: 0, replayed: 0, signed_out: 0 },
    signInFailures: 0,
    throttled: { sign_in: 0, sign_up: 0, refresh: 0 }
  }
  app.decorate('authCounts', counts)
  counterOf(app.metrics, { name: 'landfall_sessions_total', help: 'Sessions begun, refreshed, ended because a spent refresh token came back (replayed), and signed out' }, () => counts.sessions, 'event')
  counterOf(app.metrics, { name: 'landfall_sign_in_failures_total', help: 'Sign-ins with a wrong e-mail address or password' }, () => counts.signInFailures)
  counterOf(app.metrics, { name: 'landfall_auth_throttled_total', help: 'Sign-ins, sign-ups and refreshes answered 429, by their limit' }, () => counts.throttled, 'limit')
}, { name: 'auth-counts', dependencies: ['metrics'] })
