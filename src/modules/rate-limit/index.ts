import { randomUUID } from 'node:crypto'
import fp from 'fastify-plugin'
import { COUNTER_SCRIPTS, Counters } from './counters.ts'
import { NEAR_LIMIT_SCRIPTS } from './first-share.ts'
import { HANDOVER_SCRIPTS } from './handovers.ts'
import { LEASE_SCRIPTS } from './lease-script.ts'
import { LeaseStore, WINDOW_CHANNEL } from './lease-store.ts'
import { Members } from './members.ts'
import { SHARE_SCRIPTS } from './shares.ts'

// The public interface of the module.

export { counterKey, secondsLeft, type Count, type Counters } from './counters.ts'
export { LeasedLimit } from './leased-limit.ts'
export { windowKey } from './lease-script.ts'
export { WINDOW_CHANNEL, type LeaseStore } from './lease-store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    counters: Counters
    /** Grants the leases of this process; undefined when REDIS_URL is not set. */
    leases: LeaseStore | undefined
  }
}

/** The longest window of a leased limit. */
export const MAX_WINDOW_MS = 60_000

/** The Lua scripts of this module, for the Redis client. */
export const RATE_LIMIT_SCRIPTS = {
  ...COUNTER_SCRIPTS,
  ...LEASE_SCRIPTS,
  ...HANDOVER_SCRIPTS,
  ...SHARE_SCRIPTS,
  ...NEAR_LIMIT_SCRIPTS
} as const

export const rateLimit = fp(async (app) => {
  const { redisClient } = app
  app.decorate('counters', new Counters(redisClient))
  if (redisClient === undefined) {
    app.decorate('leases', undefined)
    return
  }
  const members = new Members(redisClient, { id: randomUUID(), windowMs: MAX_WINDOW_MS })
  app.decorate('leases', new LeaseStore(redisClient, WINDOW_CHANNEL, members))
  app.addHook('onClose', async () => members.close())
  // Now the limits exist, which may continue with the counts of a process that has left.
  app.addHook('onReady', async () => await members.start())
}, { name: 'counters', dependencies: ['redis'] })
