import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { findPacked, packedPartOf, type ClientTable, type ClientWindow } from './client-table.ts'
import { GenerationalMap } from './generational-map.ts'

// When a process shuts down gracefully, it stores the reads that it has counted for clients in Redis, so that
// the others need not reserve its share. They look there when a client exceeds a share.

/** Others may first see that a process has left a window later, and count it for another window. */
const LIFETIME_MS = 130_000
/** The field that is stored last: the seeds of the table and its age. The others are named by a part. */
const HEAD = 'head'
const MAX_HEADS = 1000

/** What is needed to find a client in a handover. */
interface Head {
  readonly seeds: Uint32Array
  /** When it was packed, in milliseconds of the process clock. */
  readonly packedAt: number
}

/** The counts that processes leave in Redis when they shut down gracefully. */
export class Handovers {
  readonly #redis: RedisClient
  readonly #heads = new GenerationalMap<Head>(LIFETIME_MS, MAX_HEADS)

  constructor (redis: RedisClient) {
    this.#redis = redis
  }

  /** Stores the counts of a limit of this process. @throws {RedisAwayError} */
  async store (processId: string, nameSpace: string, counts: ClientTable): Promise<void> {
    const key = handoverKey(processId, nameSpace)
    const write = async (fields: Map<string, Buffer>): Promise<void> => {
      await this.#redis.run(async (redis) =>
        await Promise.all([redis.hset(key, fields), redis.pexpire(key, LIFETIME_MS)])
      )
    }
    const packedAt = clock.now()
    for (const parts of counts.pack(packedAt)) {
      const fields =
        new Map([...parts].map(([part, words]) => [String(part), bytesOf(Uint32Array.from(words))]))
      if (fields.size > 0) await write(fields)
    }
    await write(new Map([[HEAD, bytesOf(Uint32Array.of(...counts.seeds, clock.now() - packedAt))]]))
  }

  /**
   * Returns what a process that has left has counted for a client.
   *
   * @returns 'lost' if Redis doesn't have all of its counts
   * @throws {RedisAwayError}
   */
  async find (
    processId: string,
    { nameSpace, key, timeWindow: windowMs }: { nameSpace: string, key: string, timeWindow: number }
  ): Promise<ClientWindow | 'lost' | undefined> {
    const name = handoverKey(processId, nameSpace)
    const known = this.#heads.get(name) ?? await this.#loadHead(name)
    if (known === undefined) return 'lost'
    const { seeds, packedAt } = known
    const part = String(packedPartOf(key, seeds))
    const [head, bytes] = await this.#redis.run(async (redis) => await redis.hmgetBuffer(name, HEAD, part))
    if (head === null) return 'lost'
    if (bytes === null || bytes === undefined) return undefined
    const now = clock.now()
    return findPacked(key, seeds, wordsOf(bytes), { elapsedMs: now - packedAt, windowMs, now })
  }

  async #loadHead (name: string): Promise<Head | undefined> {
    const [leftMs, bytes] = await this.#redis.run(async (redis) =>
      await Promise.all([redis.pttl(name), redis.hgetBuffer(name, HEAD)])
    )
    if (bytes === null) return undefined
    const seeds = wordsOf(bytes)
    const [, , ageMs = 0] = seeds
    const now = clock.now()
    const head = { seeds, packedAt: now - (LIFETIME_MS - leftMs) - ageMs }
    this.#heads.set(name, head, now)
    return head
  }
}

const handoverKey = (processId: string, nameSpace: string): string =>
  `landfall:handover:1:${processId}:${nameSpace}`

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/** Copies the bytes, because words must begin at a multiple of four. */
const wordsOf = (bytes: Buffer): Uint32Array => new Uint32Array(Uint8Array.from(bytes).buffer)
