import { randomUUID } from 'node:crypto'
import fp from 'fastify-plugin'
import type { Result } from 'ioredis'
import { clock } from '../../infra/system/clock.ts'
import { LeaseStore, WINDOW_CHANNEL } from './lease-store.ts'
import { LocalWindows, type Count } from './local-windows.ts'
import { Members } from './members.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'

declare module 'fastify' {
  interface FastifyInstance {
    counters: Counters
    /** Grants the leases of this process; undefined when REDIS_URL is not set. */
    leases: LeaseStore | undefined
  }
}

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallTake(
      key: string,
      limit: number,
      windowMs: number,
      knownId: string,
      knownUsed: number,
      knownLeftMs: number
    ): Result<[used: number, leftMs: number, allowed: number, id: string], Context>
    landfallGiveBack(key: string): Result<[used: number, id: string | null], Context>
    landfallClear(key: string, windowMs: number): Result<number, Context>
  }
}

// Counts one use unless the limit is reached. The window begins with its first use. If Redis has evicted the
// window that the process knows, it is put back: another window of the key has another id.
const TAKE = `
local counter = KEYS[1]
local limit, window_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local known_id, known_used, known_left_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]) -- left 0: none known

local id, used, cleared = unpack(redis.call('HMGET', counter, 'id', 'used', 'cleared'))
local left_ms = redis.call('PTTL', counter)
if not id then id, used, left_ms = table.concat(redis.call('TIME'), '.'), 0, window_ms end
used = tonumber(used)
if known_left_ms > 0 and known_id ~= id and not cleared then
  used, left_ms = math.max(used, known_used), math.min(left_ms, known_left_ms)
end
local allowed = used < limit
if allowed then used = used + 1 end
redis.call('HSET', counter, 'id', id, 'used', used)
redis.call('PEXPIRE', counter, left_ms)
return {used, left_ms, allowed and 1 or 0, id}
`

// Takes back one use, unless the window has ended. Returns what is left of it, which others may have lowered.
const GIVE_BACK = `
local counter = KEYS[1]
local id, used = unpack(redis.call('HMGET', counter, 'id', 'used'))
used = tonumber(used or '0')
if used > 0 then used = redis.call('HINCRBY', counter, 'used', -1) end
return {used, id}
`

// Clears a window. It stays, because processes would put back one that is missing, also one that was evicted.
const CLEAR = `
local counter, window_ms = KEYS[1], ARGV[1]
local id, used = unpack(redis.call('HMGET', counter, 'id', 'used'))
if id then
  redis.call('HSET', counter, 'used', 0)
else
  redis.call('HSET', counter, 'id', table.concat(redis.call('TIME'), '.'), 'used', 0, 'cleared', 1)
  redis.call('PEXPIRE', counter, window_ms)
end
return tonumber(used or '0')
`

export const COUNTER_SCRIPTS = {
  landfallTake: { numberOfKeys: 1, lua: TAKE },
  landfallGiveBack: { numberOfKeys: 1, lua: GIVE_BACK },
  landfallClear: { numberOfKeys: 1, lua: CLEAR }
} as const

/**
 * Fixed-window counters in Redis, shared by all replicas. Without Redis each process counts locally, starting
 * from the last count that Redis returned. If Redis loses a count, the processes that know it put it back.
 */
export class Counters {
  readonly #local = new Map<number, LocalWindows>()
  readonly #shared: RedisClient | undefined

  constructor (shared: RedisClient | undefined) {
    this.#shared = shared
  }

  /** Whether counts are shared by all replicas: false while Redis is unreachable or not configured. */
  get shared (): boolean {
    return this.#shared?.reachable ?? false
  }

  /**
   * Counts one use of `key` unless its limit is reached. Returns a promise only if Redis has to be asked. An
   * exhausted window is remembered and refused without Redis, so takeReturnable() must be used for uses that
   * may be given back.
   *
   * @param windowMs length of the window from its first use, in milliseconds
   * @param now the process clock, in milliseconds
   */
  take (key: string, limit: number, windowMs: number, now: number): Count | Promise<Count> {
    const refusal = this.shared ? this.#windows(windowMs).refusal(key, limit, now) : undefined
    return refusal ?? this.takeReturnable(key, limit, windowMs, now)
  }

  /** Like take(), for uses that may be given back. It asks Redis even if the window was exhausted. */
  takeReturnable (key: string, limit: number, windowMs: number, now: number): Count | Promise<Count> {
    const shared = this.#shared
    if (shared === undefined || !shared.reachable) return this.#windows(windowMs).take(key, limit, now)
    return this.#takeShared(shared, key, limit, windowMs, now)
  }

  /**
   * Takes back a use, unless its window has ended.
   *
   * @param resetAt the `resetAt` of the count that takeReturnable() returned
   */
  async giveBack (key: string, windowMs: number, resetAt: number): Promise<void> {
    const now = clock.now()
    if (now >= resetAt) return
    const windows = this.#windows(windowMs)
    windows.giveBack(key, now)
    const left = await this.#shared?.run((redis) => redis.landfallGiveBack(counterKey(key)))
      .catch(() => undefined)
    if (left !== undefined) windows.lower(key, left[1], left[0], now)
  }

  #windows (windowMs: number): LocalWindows {
    let windows = this.#local.get(windowMs)
    if (windows === undefined) this.#local.set(windowMs, windows = new LocalWindows(windowMs))
    return windows
  }

  async #takeShared (
    shared: RedisClient,
    key: string,
    limit: number,
    windowMs: number,
    now: number
  ): Promise<Count> {
    const windows = this.#windows(windowMs)
    const known = windows.find(key, now)
    const knownLeftMs = known === undefined ? 0 : known.resetAt - now
    let response
    try {
      response = await shared.run((redis) =>
        redis.landfallTake(counterKey(key), limit, windowMs, known?.id ?? '', known?.used ?? 0, knownLeftMs)
      )
    } catch {
      return windows.take(key, limit, clock.now())
    }
    const [used, leftMs, allowed, id] = response
    const resetAt = now + leftMs
    windows.adopt(key, { id, used, resetAt }, now)
    return { allowed: allowed === 1, used, resetAt }
  }
}

/** The longest window of a leased limit. */
export const MAX_WINDOW_MS = 60_000

/** The name of a counter in Redis, with the version of its format. */
export const counterKey = (key: string): string => `landfall:count:2:${key}`

/** Whole seconds until a window ends, at least 1: the value of Retry-After. */
export const secondsLeft = (count: Pick<Count, 'resetAt'>, now: number): number =>
  Math.max(1, Math.ceil((count.resetAt - now) / 1000))

export default fp(async (app) => {
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
