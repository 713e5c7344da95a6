import type { FastifyInstance, onRequestAsyncHookHandler } from 'fastify'
import { createTooManyRequestsError } from '../../errors.ts'
import { auditRequest } from '../../http/audit.ts'
import { clock } from '../../infra/system/clock.ts'
import { secondsLeft } from '../rate-limit/index.ts'

const MINUTE_MS = 60_000

/** Limits of requests per client address and minute. */
type RequestLimit = 'sign_up' | 'refresh' | 'password_reset'

/** The counter of a client address, by limit. */
export const addressKey = (limit: 'sign-in:address' | RequestLimit, address: string): string =>
  `${limit}:${address}`

/** Returns an `onRequest` hook that limits each client address to `max` requests a minute. */
export function limitByAddress (
  app: FastifyInstance,
  name: RequestLimit,
  max: number
): onRequestAsyncHookHandler {
  const { counters, authCounts } = app
  return async (request) => {
    const now = clock.now()
    const count = await counters.take(addressKey(name, app.addressOf(request).counted), max, MINUTE_MS, now)
    if (count.allowed) return
    authCounts.throttled[name]++
    auditRequest(request, 'limit_met', { limit: `${name}:address` })
    throw createTooManyRequestsError(secondsLeft(count, now))
  }
}
