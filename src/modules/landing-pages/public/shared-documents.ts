import type { Redis, Result } from 'ioredis'
import { clock } from '../../../infra/system/clock.ts'
import type { RedisClient } from '../../../infra/redis/redis-client.ts'
import type { DocumentVersion } from './cached-document.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallStore(
      key: string,
      channel: string,
      message: string,
      version: number,
      ttlMs: number,
      hash: string,
      updatedAt: number,
      bytes: Buffer
    ): Result<number, Context>
  }
}

/** Lifetime of a copy in Redis. If a crash loses a publication, readers see the old version for this long. */
export const LIFETIME_MS = 60_000
/** The version of a deleted document: newer than all others, because public ids are never reused. */
export const DELETED = Number.MAX_SAFE_INTEGER

/** Redis gets only the version of a larger document, because its bytes would delay all other commands. */
const MAX_SHARED_BYTES = 2 * 1024 * 1024

// Stores a version unless a newer one is known, and publishes it in the same script, so that a replica that
// receives the message never finds an older version here. Returns the newest version known.
const STORE = `
local key = KEYS[1]
local channel, message = ARGV[1], ARGV[2] -- message: '' to publish nothing
local version, lifetime_ms = ARGV[3], ARGV[4]
local hash, updated_at, bytes = ARGV[5], ARGV[6], ARGV[7] -- hash: '' to store only the version

local stored = redis.call('HMGET', key, 'v', 'h')
local newest, stored_hash = tonumber(stored[1] or '0'), stored[2]
-- After a failover, PostgreSQL may assign a version number again. Then the document that was just written wins.
local completes = hash ~= '' and (not stored_hash or (message ~= '' and stored_hash ~= hash))
if tonumber(version) > newest or (tonumber(version) == newest and completes) then
  redis.call('DEL', key)
  if hash == '' then
    redis.call('HSET', key, 'v', version)
  else
    redis.call('HSET', key, 'v', version, 'h', hash, 't', updated_at, 'd', bytes)
  end
  redis.call('PEXPIRE', key, lifetime_ms)
end
if message ~= '' then redis.call('PUBLISH', channel, message) end
return math.max(newest, tonumber(version))
`

export const DOCUMENT_SCRIPTS = { landfallStore: { numberOfKeys: 1, lua: STORE } } as const

/** The Redis channel for notices of written documents. */
export const DOCUMENT_CHANNEL = 'landfall:documents'

/** A message on the channel: a document and its new version. */
export interface Publication {
  readonly publicId: string
  readonly version: number
}

/** A copy in Redis: a version with the rest of its lifetime, or a tombstone. */
export type SharedCopy = { readonly deleted: true } | {
  readonly deleted: false
  readonly document: DocumentVersion
  readonly leftMs: number
}

/** Documents in Redis, for all replicas. Methods reject with RedisAwayError while Redis is unreachable. */
export class SharedDocuments {
  readonly #redis: RedisClient
  readonly #channel: string

  constructor (redis: RedisClient, channel: string) {
    this.#redis = redis
    this.#channel = channel
  }

  /**
   * Returns the copy in Redis. Ignores a copy from before the end of the last outage, because a replica that
   * has not reconnected yet may have written a newer version.
   */
  async get (publicId: string): Promise<SharedCopy | undefined> {
    const askedAt = clock.now()
    const key = redisKey(publicId)
    const [[version, hash, updatedAt, bytes], leftMs] = await this.#redis.run(async (redis) =>
      await Promise.all([redis.hmgetBuffer(key, 'v', 'h', 't', 'd'), redis.pttl(key)])
    )
    if (version == null || leftMs <= 0) return undefined
    if (Number(version) === DELETED) return { deleted: true }
    if (hash == null || updatedAt == null || bytes == null) return undefined
    if (askedAt - (LIFETIME_MS - leftMs) < this.#redis.backSince) return undefined
    return {
      deleted: false,
      leftMs,
      document: {
        publicId,
        version: Number(version),
        hash: hash.toString(),
        updatedAt: new Date(Number(updatedAt)),
        bytes
      }
    }
  }

  /** Stores a version that was read from PostgreSQL, unless Redis has a newer one or it is too large. */
  async fill (document: DocumentVersion): Promise<void> {
    if (isSharable(document)) await this.#store(document.publicId, document.version, document, '')
  }

  /**
   * Stores a committed version and notifies all replicas. Stores a tombstone if `document` is undefined.
   *
   * @returns the newest version that Redis knows
   */
  async publish (publicId: string, document: DocumentVersion | undefined): Promise<number> {
    return await this.#notify(
      publicId,
      document?.version ?? DELETED,
      document !== undefined && isSharable(document) ? document : undefined
    )
  }

  /** Notifies Redis and all replicas of a version written earlier, without its document. */
  async announce (publicId: string, version: number): Promise<number> {
    return await this.#notify(publicId, version, undefined)
  }

  /** Calls the listener for publications of all replicas, including this one. */
  onPublication (listener: (publication: Publication) => void): void {
    this.#redis.on('message', (channel, message) => {
      if (channel !== this.#channel) return
      const [publicId = '', version] = message.split(' ')
      listener({ publicId, version: Number(version) })
    })
  }

  async #notify (publicId: string, version: number, document: DocumentVersion | undefined): Promise<number> {
    return await this.#store(publicId, version, document, `${publicId} ${version}`)
  }

  async #store (
    publicId: string,
    version: number,
    document: DocumentVersion | undefined,
    message: string
  ): Promise<number> {
    return await this.#redis.run(async (redis) =>
      await redis.landfallStore(
        redisKey(publicId),
        this.#channel,
        message,
        version,
        LIFETIME_MS,
        document?.hash ?? '',
        document?.updatedAt.getTime() ?? 0,
        document?.bytes ?? Buffer.alloc(0)
      )
    )
  }
}

/** Publishes a deletion that the command line has made, to all replicas. */
export async function publishDeletion (redis: Redis, publicId: string): Promise<void> {
  const message = `${publicId} ${DELETED}`
  await redis.landfallStore(
    redisKey(publicId),
    DOCUMENT_CHANNEL,
    message,
    DELETED,
    LIFETIME_MS,
    '',
    0,
    Buffer.alloc(0)
  )
}

const isSharable = ({ bytes }: DocumentVersion): boolean => bytes.length <= MAX_SHARED_BYTES

const redisKey = (publicId: string): string => `landfall:document:${publicId}`
