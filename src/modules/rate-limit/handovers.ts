import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { findPacked, packedSegmentOf, type ClientTable, type ClientWindow } from './client-table.ts'

// When a process shuts down gracefully, it stores the reads that it has counted for clients in Redis, so that
// the others need not reserve its share. They load a segment of them when a client in it exceeds a share.

/** How long counts are stored: two of the longest windows, because they tell when the previous one ended. */
const LIFETIME_MS = 120_000
/** The field with the seeds of the table. The others are named by the number of a segment. */
const SEEDS = 'seeds'
/** Segments in one command, at most 2 MB. */
const MAX_BATCH = 16

/** What a process that has shut down gracefully had counted for a client. */
export interface HandedOver {
  readonly processId: string
  readonly window: ClientWindow
}

interface Handover {
  readonly seeds: Uint32Array
  /** When it was stored, in milliseconds of the process clock. */
  readonly storedAt: number
  readonly segments: Map<number, Promise<Uint32Array | undefined>>
}

/** The counts that processes leave in Redis when they shut down gracefully. */
export class Handovers {
  readonly #redis: RedisClient
  readonly #known = new Map<string, Promise<Handover | undefined>>()

  constructor (redis: RedisClient) {
    this.#redis = redis
  }

  /** Stores the counts of a limit of this process. @throws {RedisAwayError} */
  async store (processId: string, nameSpace: string, counts: ClientTable): Promise<void> {
    const key = handoverKey(processId, nameSpace)
    const { seeds, segments } = counts.pack(clock.now())
    const fields = [...segments.map((words, number) => [String(number), bytesOf(words)] as const),
      [SEEDS, bytesOf(seeds)] as const]
    while (fields.length > 0) {
      const batch = fields.splice(0, MAX_BATCH).flat()
      await this.#redis.run(async (redis) => await redis.hset(key, ...batch))
    }
    await this.#redis.run(async (redis) => await redis.pexpire(key, LIFETIME_MS))
  }

  /**
   * Returns what a process that has left has counted for a client.
   *
   * @returns 'lost' if Redis no longer has its counts
   * @throws {RedisAwayError}
   */
  async find (
    processId: string,
    { nameSpace, key, timeWindow: windowMs }: { nameSpace: string, key: string, timeWindow: number }
  ): Promise<ClientWindow | 'lost' | undefined> {
    const name = handoverKey(processId, nameSpace)
    const handover = await this.#handover(name)
    if (handover === undefined) return 'lost'
    const { seeds, storedAt, segments } = handover
    const number = packedSegmentOf(key, seeds)
    const segment = await remember(segments, number, async () => await this.#load(name, String(number)))
    if (segment === undefined) return 'lost'
    const now = clock.now()
    return findPacked(key, seeds, segment, { elapsedMs: now - storedAt, windowMs, now })
  }

  async #handover (name: string): Promise<Handover | undefined> {
    return await remember(this.#known, name, async () => {
      const [leftMs, seeds] = await this.#redis.run(async (redis) =>
        await Promise.all([redis.pttl(name), redis.hgetBuffer(name, SEEDS)])
      )
      if (seeds === null) return undefined
      setTimeout(() => this.#known.delete(name), LIFETIME_MS).unref()
      const storedAt = clock.now() - (LIFETIME_MS - leftMs)
      return { seeds: wordsOf(seeds), storedAt, segments: new Map() }
    })
  }

  async #load (name: string, field: string): Promise<Uint32Array | undefined> {
    const bytes = await this.#redis.run(async (redis) => await redis.hgetBuffer(name, field))
    return bytes === null ? undefined : wordsOf(bytes)
  }
}

/** Returns the value of a key, which is loaded once. A failed load is forgotten. */
function remember<Key, Value> (
  values: Map<Key, Promise<Value>>,
  key: Key,
  load: () => Promise<Value>
): Promise<Value> {
  let value = values.get(key)
  if (value === undefined) {
    value = load()
    values.set(key, value)
    value.catch(() => values.delete(key))
  }
  return value
}

const handoverKey = (processId: string, nameSpace: string): string =>
  `landfall:handover:1:${processId}:${nameSpace}`

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/** Copies the bytes, because words must begin at a multiple of four. */
const wordsOf = (bytes: Buffer): Uint32Array => new Uint32Array(Uint8Array.from(bytes).buffer)
