import { COUNTER_SCRIPTS } from './counters.ts'
import { HANDOVER_SCRIPTS } from './handovers.ts'
import { LEASE_SCRIPTS } from './lease-script.ts'
import { NEAR_LIMIT_SCRIPTS } from './first-share.ts'
import { SHARE_SCRIPTS } from './shares.ts'

// The public interface of the module.

export { default as rateLimit, counterKey, MAX_WINDOW_MS, secondsLeft, type Counters } from './counters.ts'
export { LeasedLimit } from './leased-limit.ts'
export { WINDOW_CHANNEL, windowKey, type LeaseStore } from './lease-store.ts'
export type { Count } from './local-windows.ts'

/** The Lua scripts of this module, for the Redis client. */
export const RATE_LIMIT_SCRIPTS = {
  ...COUNTER_SCRIPTS,
  ...LEASE_SCRIPTS,
  ...HANDOVER_SCRIPTS,
  ...SHARE_SCRIPTS,
  ...NEAR_LIMIT_SCRIPTS
} as const
