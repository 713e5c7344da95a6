import { randomUUID } from 'node:crypto'
import fp from 'fastify-plugin'
import type { Redis, Result } from 'ioredis'
import { clock } from '../clock.ts'
import { RedisLeaseStore, type LeaseStore } from './lease-store.ts'
import { LocalWindows, type Count } from './local-windows.ts'
import type { SharedRedis } from '../plugins/redis.ts'

declare module 'fastify' {
  interface FastifyInstance {
    counters: Counters
    /** Where the leases of this process come from; undefined when REDIS_URL is not set. */
    leases: LeaseStore | undefined
  }
}

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallTake (key: string, limit: number, windowMs: number): Result<[used: number, leftMs: number, allowed: number], Context>
    landfallGiveBack (key: string): Result<number, Context>
  }
}

// KEYS[1] the counter; ARGV: limit, window in milliseconds. Counts one use unless the limit is reached and says how many
// are used, how long the window still lasts and whether this one counted. The window begins with its first use; a
// counter that lost its expiry (it can't, but a key without one would refuse for ever) gets a new one.
const TAKE = `
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
local left = redis.call('PTTL', KEYS[1])
local allowed = used < tonumber(ARGV[1])
if allowed then used = redis.call('INCR', KEYS[1]) end
if left < 0 then
  left = tonumber(ARGV[2])
  redis.call('PEXPIRE', KEYS[1], left)
end
return {used, left, allowed and 1 or 0}
`

// KEYS[1] the counter. Takes one use back; a window that has ended stays ended.
const GIVE_BACK = `
if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then return redis.call('DECR', KEYS[1]) end
return 0
`

export const COUNTER_SCRIPTS = { landfallTake: { numberOfKeys: 1, lua: TAKE }, landfallGiveBack: { numberOfKeys: 1, lua: GIVE_BACK } } as const

/**
 * Fixed-window counters: in Redis, one count over all replicas, or in this process while there is no Redis to ask. What
 * Redis said is remembered, so that a window goes on in the process where Redis left it.
 */
export class Counters {
  readonly #local = new Map<number, LocalWindows>()
  readonly #shared: SharedRedis | undefined

  constructor (shared: SharedRedis | undefined) {
    this.#shared = shared
  }

  /** Whether counts hold over all replicas: false while Redis is away or when there is none. */
  get shared (): boolean {
    return this.#shared?.reachable ?? false
  }

  /**
   * Counts one use of `key` unless its limit is reached. Answers at once when this process can tell by itself: without
   * Redis, and for a window that is known to be used up. For uses that are for good.
   *
   * @param windowMs length of the window from its first use, in milliseconds
   * @param now the process clock, in milliseconds
   */
  take (key: string, limit: number, windowMs: number, now: number): Count | Promise<Count> {
    const refusal = this.shared ? this.#windows(windowMs).refusal(key, limit, now) : undefined
    return refusal ?? this.takeReturnable(key, limit, windowMs, now)
  }

  /** The same for uses that may be given back, by any replica: a window that is used up now need not stay so. */
  takeReturnable (key: string, limit: number, windowMs: number, now: number): Count | Promise<Count> {
    const shared = this.#shared
    if (shared === undefined || !shared.reachable) return this.#windows(windowMs).take(key, limit, now)
    return this.#takeShared(shared, key, limit, windowMs, now)
  }

  /**
   * Takes a use back that turned out not to count, unless its window has ended: the next one has not got it.
   *
   * @param resetAt when that window ends, as its count said
   */
  async giveBack (key: string, windowMs: number, resetAt: number): Promise<void> {
    const now = clock.now()
    if (now >= resetAt) return
    this.#windows(windowMs).giveBack(key, now)
    await this.#shared?.run((redis) => redis.landfallGiveBack(redisKey(key))).catch(() => {})
  }

  #windows (windowMs: number): LocalWindows {
    let windows = this.#local.get(windowMs)
    if (windows === undefined) this.#local.set(windowMs, windows = new LocalWindows(windowMs))
    return windows
  }

  async #takeShared (shared: SharedRedis, key: string, limit: number, windowMs: number, now: number): Promise<Count> {
    let answer
    try {
      answer = await shared.run((redis: Redis) => redis.landfallTake(redisKey(key), limit, windowMs))
    } catch {
      return this.#windows(windowMs).take(key, limit, clock.now())
    }
    const [used, leftMs, allowed] = answer
    const resetAt = now + leftMs
    this.#windows(windowMs).adopt(key, used, resetAt, now)
    return { allowed: allowed === 1, used, resetAt }
  }
}

const redisKey = (key: string): string => `landfall:count:${key}`

/** Whole seconds until a window ends, at least 1: what Retry-After says. */
export const secondsLeft = (count: Pick<Count, 'resetAt'>, now: number): number => Math.max(1, Math.ceil((count.resetAt - now) / 1000))

export default fp<{ recallChannel: string }>(async (app, { recallChannel }) => {
  const { shared } = app
  app.decorate('counters', new Counters(shared))
  app.decorate('leases', shared === undefined ? undefined : new RedisLeaseStore(shared, recallChannel, randomUUID()))
}, { name: 'counters', dependencies: ['redis'] })
