import type { Result } from 'ioredis'
import type { RedisClient } from '../../infra/redis/redis-client.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallListNearLimit(list: string, client: string, lifetimeMs: number): Result<null, Context>
  }
}

/** Longer than the window that is open when a client is listed, also if Redis' clock is set. */
const LIFETIME_MS = 120_000
/** With more clients than this no process gets a first share. */
const MAX_LOADED = 100_000
/** Clients in one response. */
const LOAD_BATCH = 1000

const LIST = `
local list, client, lifetime_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', list, now, client)
redis.call('ZREMRANGEBYSCORE', list, '-inf', now - lifetime_ms)
redis.call('PEXPIRE', list, lifetime_ms)
`

export const NEAR_LIMIT_SCRIPTS = { landfallListNearLimit: { numberOfKeys: 1, lua: LIST } } as const

/** Lists a client that may soon have spent its limit, for processes that start. @throws {RedisAwayError} */
export async function listNearLimit (redis: RedisClient, nameSpace: string, key: string): Promise<void> {
  await redis.run(async (redis) => await redis.landfallListNearLimit(listOf(nameSpace), key, LIFETIME_MS))
}

/**
 * Returns the clients of a limit that may have spent it; undefined if there are too many.
 *
 * @throws {RedisAwayError}
 */
export async function loadNearLimit (
  redis: RedisClient,
  nameSpace: string
): Promise<ReadonlySet<string> | undefined> {
  const clients = new Set<string>()
  let cursor = '0'
  do {
    const [next, entries] = await redis.run(async (redis) =>
      await redis.zscan(listOf(nameSpace), cursor, 'COUNT', LOAD_BATCH)
    )
    for (let entry = 0; entry < entries.length; entry += 2) clients.add(entries[entry] as string)
    if (clients.size > MAX_LOADED) return undefined
    cursor = next
  } while (cursor !== '0')
  return clients
}

const listOf = (nameSpace: string): string => `landfall:near-limit:1:${nameSpace}`
