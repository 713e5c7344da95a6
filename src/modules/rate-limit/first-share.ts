import { setTimeout as sleep } from 'node:timers/promises'
import type { Result } from 'ioredis'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import type { Members } from './members.ts'
import type { LocalLimit, Succession } from './succession.ts'

// A new process that continues as no other one has a first share at once (docs/adr/0017). It isn't used for
// clients that may have spent their limit before: these are listed in Redis.

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallListNearLimit(list: string, client: string, lifetimeMs: number): Result<null, Context>
  }
}

/** The window that is open when a client is listed, and a minute more, in case Redis' clock is set. */
const LIFETIME_MS = 120_000
/** With more clients than this no process gets a first share. One entry stands for the others. */
const MAX_LISTED = 100_000
const TOO_MANY = '*'
/** Expired entries that are removed for each new one. To remove very many at once would block Redis. */
const MAX_REMOVED = 10
/** Clients in one response, about. */
const LOAD_BATCH = 1000

/** How long a new process waits until the others keep its first share back, in steps. */
const WAITS_MS = [0, 5, 10, 20, 50, 100, 200, 500, 1000, 1000, 1000, 1000] as const

const LIST = `
local list, client, lifetime_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('ZRANGEBYSCORE', list, '-inf', now - lifetime_ms, 'LIMIT', 0, ${MAX_REMOVED})
if #expired > 0 then redis.call('ZREM', list, unpack(expired)) end
if redis.call('ZCARD', list) >= ${MAX_LISTED} then client = '${TOO_MANY}' end
redis.call('ZADD', list, now, client)
redis.call('PEXPIRE', list, lifetime_ms)
`

export const NEAR_LIMIT_SCRIPTS = { landfallListNearLimit: { numberOfKeys: 1, lua: LIST } } as const

/** Lists a client near its limit, for two minutes. @throws {RedisAwayError} */
export async function listNearLimit (redis: RedisClient, nameSpace: string, key: string): Promise<void> {
  await redis.run(async (redis) => await redis.landfallListNearLimit(listOf(nameSpace), key, LIFETIME_MS))
}

/**
 * Gives a new process a first share of the limits, when all others keep it back. Never rejects.
 *
 * @param limits by name space
 */
export async function takeFirstShare (
  redis: RedisClient,
  members: Members,
  limits: ReadonlyMap<string, LocalLimit>,
  succession: Succession
): Promise<void> {
  try {
    if (!await members.requestFirstShare()) return
    await succession.announce()
    for (const wait of WAITS_MS) {
      await sleep(wait)
      await members.beat() // who has registered since then sees the first share
      if (!members.known.isFirstShareKeptBack) continue
      const lists = await Promise.all([...limits.keys()].map(async (name) =>
        await loadNearLimit(redis, name)
      ))
      await succession.tryToContinue()
      if (!members.isNew || lists.includes(undefined)) return
      if (!members.known.isFirstShareKeptBack) continue // another process has been started
      for (const [index, limit] of [...limits.values()].entries()) {
        limit.useFirstShare(lists[index] as ReadonlySet<string>)
      }
      members.usesFirstShare = true
      return
    }
  } catch {
    // Redis is away.
  }
}

/** Returns the clients of a limit, by key, that may have spent it; undefined if there are too many. */
async function loadNearLimit (
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
    cursor = next
  } while (cursor !== '0')
  return clients.has(TOO_MANY) ? undefined : clients
}

const listOf = (nameSpace: string): string => `landfall:near-limit:1:${nameSpace}`
