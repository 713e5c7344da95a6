import type { Result } from 'ioredis'
import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { ClientTable, findPacked, packedPartOf, SEGMENTS, type ClientWindow } from './client-table.ts'
import type { WindowOfClient } from './lease-script.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallFindHandedOverBuffer(
      handover: string,
      reported: string,
      part: string,
      client: string,
      lifetimeMs: number,
      head: string
    ): Result<[state: number, part: Buffer | null], Context>
    landfallAdopt(
      handover: string,
      reported: string,
      adopter: string,
      lifetimeMs: number,
      maxAgeMs: number
    ): Result<string[] | null, Context>
  }
}

// When a process shuts down gracefully, it stores the reads that it has counted for clients in Redis, so that
// the others need not reserve its share. They look there when a client exceeds a share, until a new process
// adopts the counts and continues with the share.

/** Others may first see that a process has left a window later, and count it for another window. */
const LIFETIME_MS = 130_000

interface Format {
  /** The field that is stored last: the seeds of the table, and its age. The others are named by a part. */
  readonly head: string
  readonly partCount: number
  readonly lifetimeMs: number
}

/** The format of release 0.2.0, and that of later ones. The name of a handover begins with the version. */
const FIRST: Format = { head: 'seeds', partCount: SEGMENTS, lifetimeMs: 120_000 }
const LATER: Format = { head: 'head', partCount: 65_536, lifetimeMs: LIFETIME_MS }
const formatOf = (handover: string): Format => handover.startsWith('1:') ? FIRST : LATER

/** The others count a process that has left for a window and 3 s. It must not be adopted after that. */
const MAX_ADOPTION_AGE_MS = 50_000
/** Longer than it takes to load all counts. */
const CLAIM_MS = 10_000
/** Parts in one response, some 200 KB. */
const LOAD_BATCH = 500
/** Clients in one command. */
const REPORTED_BATCH = 1000

// The field "adopter" has the id of the process that has adopted the counts. Until then, each lookup notes
// the client, because whoever looks it up reports its reads.
const FIND = `
local handover, reported = KEYS[1], KEYS[2]
local part, client, lifetime_ms, head = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call('HEXISTS', handover, 'adopter') == 1 then return {2, false} end
if redis.call('HEXISTS', handover, head) == 0 then return {0, false} end
redis.call('SADD', reported, client)
redis.call('PEXPIRE', reported, lifetime_ms)
return {1, redis.call('HGET', handover, part)}
`
const STATES = ['lost', 'found', 'adopted'] as const

// Returns the clients whose reads have been reported; nothing if the counts are lost, too old, or adopted by
// another process. The same process may ask again, because a response can get lost.
const ADOPT = `
local handover, reported = KEYS[1], KEYS[2]
local adopter, lifetime_ms, max_age_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('HGET', handover, 'adopter') ~= adopter then
  if redis.call('HEXISTS', handover, '${LATER.head}') == 0 then return false end
  if lifetime_ms - redis.call('PTTL', handover) > max_age_ms then return false end
  redis.call('UNLINK', handover)
  redis.call('HSET', handover, 'adopter', adopter)
  redis.call('PEXPIRE', handover, lifetime_ms)
end
return redis.call('SMEMBERS', reported)
`

export const HANDOVER_SCRIPTS = {
  landfallFindHandedOver: { numberOfKeys: 2, lua: FIND },
  landfallAdopt: { numberOfKeys: 2, lua: ADOPT }
} as const

/** Without the seeds and the age of a handover, no client is found in it. */
interface Head {
  readonly seeds: Uint32Array
  /** When it was packed, in milliseconds of the process clock. */
  readonly packedAt: number
}

/** The counts that processes leave in Redis when they shut down gracefully. */
export class Handovers {
  readonly #redis: RedisClient

  constructor (redis: RedisClient) {
    this.#redis = redis
  }

  /**
   * Stores the counts of a limit of this process.
   *
   * @param handover version and id of the handover, which are a part of the names in Redis
   * @throws {RedisAwayError}
   */
  async store (handover: string, nameSpace: string, counts: ClientTable): Promise<void> {
    const key = handoverKey(handover, nameSpace)
    const { head, partCount, lifetimeMs } = formatOf(handover)
    const write = async (fields: Map<string, Buffer>): Promise<void> => {
      await this.#redis.run(async (redis) =>
        await Promise.all([redis.hset(key, fields), redis.pexpire(key, lifetimeMs)])
      )
    }
    const packedAt = clock.now()
    for (const parts of counts.pack(partCount, packedAt)) {
      const fields =
        new Map([...parts].map(([part, words]) => [String(part), bytesOf(Uint32Array.from(words))]))
      if (fields.size > 0) await write(fields)
    }
    await write(new Map([[head, bytesOf(Uint32Array.of(...counts.seeds, clock.now() - packedAt))]]))
  }

  /**
   * Notes clients whose reads are reported, so that who adopts the counts asks Redis for them.
   *
   * @throws {RedisAwayError}
   */
  async noteReported (handover: string, nameSpace: string, clients: readonly string[]): Promise<void> {
    const key = reportedKey(handoverKey(handover, nameSpace))
    for (let from = 0; from < clients.length; from += REPORTED_BATCH) {
      const batch = clients.slice(from, from + REPORTED_BATCH)
      await this.#redis.run(async (redis) =>
        await Promise.all([redis.sadd(key, batch), redis.pexpire(key, LIFETIME_MS)])
      )
    }
  }

  /**
   * Returns what a process that has left has counted for a client. The caller has to report it.
   *
   * @returns 'lost' if Redis doesn't have all of its counts, 'adopted' if another process continues with them
   * @throws {RedisAwayError}
   */
  async find (
    handover: string,
    { nameSpace, key, timeWindow: windowMs }: WindowOfClient
  ): Promise<ClientWindow | 'lost' | 'adopted' | undefined> {
    const name = handoverKey(handover, nameSpace)
    const format = formatOf(handover)
    const head = await this.#loadHead(name, format)
    const part = head === undefined ? '' : String(packedPartOf(key, head.seeds, format.partCount))
    const [state, bytes] = await this.#redis.run(async (redis) =>
      await redis.landfallFindHandedOverBuffer(name, reportedKey(name), part, key, LIFETIME_MS, format.head)
    )
    const found = STATES[state]
    if (found !== 'found') return found
    if (head === undefined) return 'lost'
    if (bytes === null) return undefined
    const now = clock.now()
    return findPacked(key, head.seeds, wordsOf(bytes), { elapsedMs: now - head.packedAt, windowMs, now })
  }

  /**
   * Keeps other processes from loading all counts of a handover, for a few seconds.
   *
   * @returns whether no other process has claimed it
   * @throws {RedisAwayError}
   */
  async claim (handover: string): Promise<boolean> {
    const key = `landfall:adopter:1:${handover}`
    return await this.#redis.run(async (redis) => await redis.set(key, 1, 'PX', CLAIM_MS, 'NX')) ===
      'OK'
  }

  /**
   * Returns a copy of the counts of a limit.
   *
   * @returns undefined if Redis doesn't have all of them
   * @throws {RedisAwayError}
   */
  async load (handover: string, nameSpace: string, windowMs: number): Promise<ClientTable | undefined> {
    const name = handoverKey(handover, nameSpace)
    const head = await this.#loadHead(name, LATER)
    if (head === undefined) return undefined
    const counts = new ClientTable(windowMs, head.seeds.slice(0, 2))
    let cursor = '0'
    do {
      const [next, fields] = await this.#redis.run(async (redis) =>
        await redis.hscanBuffer(name, cursor, 'COUNT', LOAD_BATCH)
      )
      const now = clock.now()
      for (let field = 0; field < fields.length; field += 2) {
        if (String(fields[field]) === LATER.head) continue
        counts.load(wordsOf(fields[field + 1] as Buffer), head.packedAt, now)
      }
      cursor = String(next)
    } while (cursor !== '0')
    return counts
  }

  /**
   * Adopts the counts of a limit. Others can't look up clients in them any more.
   *
   * @param adopter the id of this process
   * @returns the clients whose reads are reported; undefined if the counts can't be adopted
   * @throws {RedisAwayError}
   */
  async adopt (handover: string, nameSpace: string, adopter: string): Promise<string[] | undefined> {
    const name = handoverKey(handover, nameSpace)
    return await this.#redis.run(async (redis) =>
      await redis.landfallAdopt(name, reportedKey(name), adopter, LIFETIME_MS, MAX_ADOPTION_AGE_MS)
    ) ?? undefined
  }

  async #loadHead (name: string, format: Format): Promise<Head | undefined> {
    const [leftMs, bytes] = await this.#redis.run(async (redis) =>
      await Promise.all([redis.pttl(name), redis.hgetBuffer(name, format.head)])
    )
    if (bytes === null) return undefined
    const seeds = wordsOf(bytes)
    const [, , ageMs = 0] = seeds
    return { seeds, packedAt: clock.now() - (format.lifetimeMs - leftMs) - ageMs }
  }
}

const handoverKey = (handover: string, nameSpace: string): string =>
  `landfall:handover:${handover}:${nameSpace}`

/** In a cluster on the same node as the handover. */
const reportedKey = (handover: string): string => `landfall:reported:1:{${handover}}`

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/** Copies the bytes, because words must begin at a multiple of four. */
const wordsOf = (bytes: Buffer): Uint32Array => new Uint32Array(Uint8Array.from(bytes).buffer)
