import type { RedisClient } from '../../../infra/redis/redis-client.ts'

/** Short, so that a variant is made again soon after a crash. */
const LOCK_MS = 5_000
const RENEWAL_MS = 1_500

/**
 * Tries to become the only replica that makes a variant. The lock is renewed until it is released. Without
 * Redis, each replica makes its own.
 *
 * @returns releases the lock; undefined if another replica has it
 */
export async function lockVariant (
  redisClient: RedisClient | undefined,
  name: string
): Promise<(() => Promise<void>) | undefined> {
  if (redisClient === undefined) return async () => {}
  const key = `landfall:variant:2:${name}`
  const taken = await redisClient.run(async (redis) => await redis.set(key, '1', 'PX', LOCK_MS, 'NX'))
    .catch(() => 'OK')
  if (taken === null) return undefined
  const renewal = setInterval(() => {
    redisClient.run(async (redis) => await redis.pexpire(key, LOCK_MS)).catch(() => {})
  }, RENEWAL_MS)
  return async () => {
    clearInterval(renewal)
    await redisClient.run(async (redis) => await redis.del(key)).catch(() => {})
  }
}
