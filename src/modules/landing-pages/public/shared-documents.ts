import { clock } from '../../../infra/system/clock.ts'
import type { RedisCommands } from '../../../infra/redis/connections.ts'
import type { RedisClient } from '../../../infra/redis/redis-client.ts'
import { batchReads, LARGE, type BatchedReads } from './batched-reads.ts'
import type { DocumentVersion, PublicVersion } from './cached-document.ts'
import { Body } from './prepared-head.ts'
import type { StoredDocument } from './document-scripts.ts'
import { createFillQueue, type FillCounts } from './fill-queue.ts'

/** Lifetime of a copy in Redis. If a crash loses a publication, readers see the old version for this long. */
export const LIFETIME_MS = 60_000
/** The version of a deleted document: newer than all others, because public ids are never reused. */
export const DELETED = Number.MAX_SAFE_INTEGER

/** Redis gets only the version of a larger document, because its bytes would delay all other commands. */
const MAX_SHARED_BYTES = 2 * 1024 * 1024

/** The Redis channel for notices of written documents. */
export const DOCUMENT_CHANNEL = 'landfall:documents'

/** A message on the channel: a document and its new version. */
export interface Notice {
  readonly publicId: string
  readonly version: number
}

/** A copy in Redis: a version with the rest of its lifetime, or a tombstone. */
export type SharedCopy = { readonly deleted: true } | {
  readonly deleted: false
  readonly document: DocumentVersion
  readonly leftMs: number
}

/** Documents in Redis, for all replicas. */
export class SharedDocuments {
  readonly #redis: RedisClient
  readonly #channel: string
  readonly #reads: BatchedReads<SharedCopy | undefined>
  readonly #fills: ReturnType<typeof createFillQueue>

  constructor (redis: RedisClient, channel: string) {
    this.#redis = redis
    this.#channel = channel
    this.#reads = batchReads<SharedCopy | undefined>({
      readMany: async (ids, maxBytes) =>
        await this.#readMany(ids, maxBytes).catch(() => Array<undefined>(ids.length).fill(undefined)),
      maxBytes: MAX_SHARED_BYTES,
      missing: undefined
    })
    this.#fills = createFillQueue(async (documents) => {
      const entries = documents.map((document) => ({ published: document, message: '' }))
      return await this.#inGroups(
        entries,
        ({ published }) => published.publicId,
        async (connection, group) => await storeAndPublish(connection, this.#channel, group)
      )
    })
  }

  /**
   * Returns the copy in Redis. Ignores a copy from before the end of the last outage, because a replica that
   * has not reconnected yet may have written a newer version. Never rejects: without Redis there is no copy.
   */
  get (publicId: string): Promise<SharedCopy | undefined> {
    return this.#reads.read(publicId)
  }

  /**
   * Stores a version that was read from PostgreSQL, unless Redis has a newer one, it is too large, or the
   * queue drops it. Never rejects; readers don't wait for it.
   */
  fill (document: DocumentVersion): Promise<void> {
    return isSharable(document) ? this.#fills.fill(document) : Promise.resolve()
  }

  /**
   * Stores a committed version and notifies all replicas. Stores only the number of a version without a
   * document, and of one whose document is too large; a tombstone is the number `DELETED`.
   *
   * @returns the newest version that Redis knows
   * @throws {RedisAwayError}
   */
  async publish (published: PublicVersion): Promise<number> {
    const [newest] = await this.#redis.run(async (connection) =>
      await storeAndPublish(connection, this.#channel, [entryWithMessage(published)])
    )
    return newest as number
  }

  /** Calls the listener for notices of all replicas, including this one. */
  onNotice (listener: (notice: Notice) => void): void {
    this.#redis.on('message', (channel, message) => {
      if (channel !== this.#channel) return
      const [publicId = '', version] = message.split(' ')
      listener({ publicId, version: Number(version) })
    })
  }

  /** The commands that have read copies so far, and what became of documents that were to be stored. */
  get usage (): { readonly batches: number, readonly fills: FillCounts } {
    return { batches: this.#reads.batches, fills: this.#fills.counts }
  }

  async #readMany (
    ids: readonly string[],
    maxBytes: number
  ): Promise<(SharedCopy | undefined | typeof LARGE)[]> {
    const askedAt = clock.now()
    return await this.#inGroups(ids, (publicId) => publicId, async (connection, group) => {
      const copies = await connection.landfallReadBuffer(group.length, ...group.map(redisKey), maxBytes)
      return copies.map((copy, index) => this.#copyOf(group[index] as string, copy, askedAt))
    })
  }

  #copyOf (publicId: string, copy: StoredDocument, askedAt: number): SharedCopy | undefined | typeof LARGE {
    if (copy === null) return undefined
    if (copy === 0) return LARGE
    const [version, leftMs, hash, updatedAt, bytes] = copy
    if (leftMs <= 0) return undefined
    if (Number(version) === DELETED) return { deleted: true }
    if (hash === undefined || bytes === undefined) return undefined
    if (askedAt - (LIFETIME_MS - leftMs) < this.#redis.backSince) return undefined
    this.#fills.hit()
    return {
      deleted: false,
      leftMs,
      document: {
        publicId,
        version: Number(version),
        hash: hash.toString(),
        updatedAt: new Date(Number(updatedAt)),
        body: new Body(bytes)
      }
    }
  }

  /** Runs a command for each group of keys that one command may name. Returns all results in order. */
  async #inGroups<Item, Response> (
    items: readonly Item[],
    publicIdOf: (item: Item) => string,
    command: (connection: RedisCommands, group: readonly Item[]) => Promise<readonly Response[]>
  ): Promise<Response[]> {
    const groups = this.#redis.groups(items, (item) => redisKey(publicIdOf(item)))
    const byGroup = await this.#redis.run(async (connection) =>
      await Promise.all(groups.map(async (group) => await command(connection, group)))
    )
    if (groups.length === 1) return [...byGroup[0] as readonly Response[]]
    const responses = new Map<Item, Response>()
    for (const [place, group] of groups.entries()) {
      for (const [index, item] of group.entries()) responses.set(item, byGroup[place]?.[index] as Response)
    }
    return items.map((item) => responses.get(item) as Response)
  }
}

/** Publishes a deletion that the command line has made, to all replicas. */
export async function publishDeletion (redis: RedisCommands, publicId: string): Promise<void> {
  await storeAndPublish(redis, DOCUMENT_CHANNEL, [entryWithMessage({ publicId, version: DELETED })])
}

/** A version to store. */
interface Entry {
  readonly published: PublicVersion
  /** The message to publish; empty for none. */
  readonly message: string
}

function entryWithMessage (published: PublicVersion): Entry {
  const { publicId, version, body } = published
  const message = `${publicId} ${version}`
  return {
    published: body === undefined || isSharable(published) ? published : { publicId, version },
    message
  }
}

/** Stores and publishes versions. Returns the newest versions that Redis knows. */
async function storeAndPublish (
  connection: RedisCommands,
  channel: string,
  entries: readonly Entry[]
): Promise<number[]> {
  return await connection.landfallStore(
    entries.length,
    ...entries.map(({ published }) => redisKey(published.publicId)),
    channel,
    LIFETIME_MS,
    ...entries.flatMap(({ published, message }) => {
      const { version, body } = published
      return body === undefined ? [version, '', 0, '', message]
        : [version, published.hash, published.updatedAt.getTime(), body.bytes, message]
    })
  )
}

const isSharable = ({ body }: DocumentVersion): boolean => body.bytes.length <= MAX_SHARED_BYTES

const redisKey = (publicId: string): string => `landfall:document:${publicId}`
