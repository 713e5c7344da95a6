import type { Result } from 'ioredis'
import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { GenerationalMap } from './generational-map.ts'

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

/** The result of counting one use in a fixed window. */
export interface Count {
  /** Whether the use is within the limit. A refused use isn't counted. */
  readonly allowed: boolean
  /** Uses counted in the window, including this one if it was allowed. */
  readonly used: number
  /** When the window ends, in milliseconds of the process clock. */
  readonly resetAt: number
}

/** What a process knows of a window. */
interface Window {
  /** Its id in Redis; empty if it has uses that Redis doesn't know of. */
  id: string
  used: number
  /** When it ends, in milliseconds of the process clock. */
  resetAt: number
}

/** The most windows of one length that are kept (some tens of MB). Beyond that, the oldest are forgotten. */
const MAX_WINDOWS = 500_000

/**
 * Fixed-window counters in Redis, shared by all replicas. Without Redis each process counts locally, starting
 * from the last count that Redis returned. If Redis loses a count, the processes that know it put it back.
 */
export class Counters {
  readonly #redis: RedisClient | undefined
  /** By length, because a map lets all its entries expire after the same time. */
  readonly #windows = new Map<number, GenerationalMap<Window>>()

  /** @param redis undefined if the counts are not shared */
  constructor (redis: RedisClient | undefined) {
    this.#redis = redis
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
    const known = this.#find(key, windowMs, now)
    if (known === undefined || known.used < limit) return this.takeReturnable(key, limit, windowMs, now)
    return { allowed: false, used: known.used, resetAt: known.resetAt }
  }

  /** Like take(), for uses that may be given back. It asks Redis even if the window was exhausted. */
  takeReturnable (key: string, limit: number, windowMs: number, now: number): Count | Promise<Count> {
    const redis = this.#redis
    if (redis?.reachable !== true) return this.#takeLocally(key, limit, windowMs, now)
    return this.#takeShared(redis, key, limit, windowMs, now)
  }

  /**
   * Takes back a use, unless its window has ended.
   *
   * @param resetAt the `resetAt` of the count that takeReturnable() returned
   */
  async giveBack (key: string, windowMs: number, resetAt: number): Promise<void> {
    const now = clock.now()
    if (now >= resetAt) return
    const known = this.#find(key, windowMs, now)
    if (known !== undefined && known.used > 0) known.used--
    const left = await this.#redis?.run((redis) => redis.landfallGiveBack(counterKey(key)))
      .catch(() => undefined)
    if (known !== undefined && known.id === left?.[1]) known.used = Math.min(known.used, left[0])
  }

  async #takeShared (
    redis: RedisClient,
    key: string,
    limit: number,
    windowMs: number,
    now: number
  ): Promise<Count> {
    const known = this.#find(key, windowMs, now)
    const knownLeftMs = known === undefined ? 0 : known.resetAt - now
    try {
      const [used, leftMs, allowed, id] = await redis.run((redis) =>
        redis.landfallTake(counterKey(key), limit, windowMs, known?.id ?? '', known?.used ?? 0, knownLeftMs)
      )
      const resetAt = now + leftMs
      Object.assign(this.#open(key, windowMs, now), { id, used, resetAt })
      return { allowed: allowed === 1, used, resetAt }
    } catch {
      return this.#takeLocally(key, limit, windowMs, clock.now())
    }
  }

  #takeLocally (key: string, limit: number, windowMs: number, now: number): Count {
    const window = this.#open(key, windowMs, now)
    const allowed = window.used < limit
    if (allowed) {
      window.used++
      window.id = ''
    }
    return { allowed, used: window.used, resetAt: window.resetAt }
  }

  /** Returns the window, unless it has ended or none is known. */
  #find (key: string, windowMs: number, now: number): Window | undefined {
    const window = this.#windows.get(windowMs)?.get(key)
    return window !== undefined && now < window.resetAt ? window : undefined
  }

  /** Returns the window; begins one if none is known. */
  #open (key: string, windowMs: number, now: number): Window {
    const known = this.#find(key, windowMs, now)
    if (known !== undefined) return known
    let windows = this.#windows.get(windowMs)
    if (windows === undefined) {
      this.#windows.set(windowMs, windows = new GenerationalMap(windowMs, MAX_WINDOWS))
    }
    const window = { id: '', used: 0, resetAt: now + windowMs }
    windows.set(key, window, now)
    return window
  }
}

/** The name of a counter in Redis, with the version of its format. */
export const counterKey = (key: string): string => `landfall:count:2:${key}`

/** Whole seconds until a window ends, at least 1: the value of Retry-After. */
export const secondsLeft = (count: Pick<Count, 'resetAt'>, now: number): number =>
  Math.max(1, Math.ceil((count.resetAt - now) / 1000))
