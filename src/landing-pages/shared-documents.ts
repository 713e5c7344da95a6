import type { Result } from 'ioredis'
import { clock } from '../clock.ts'
import type { SharedRedis } from '../plugins/redis.ts'
import type { DocumentVersion } from './cached-document.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallStore (key: string, channel: string, message: string, version: number, ttlMs: number, hash: string, updatedAt: number, bytes: Buffer): Result<number, Context>
  }
}

/** Redis' copy of a document lives this long, so that even a publication that a crash swallowed is made good by then. */
export const LIFETIME_MS = 60_000
/** The version of a deleted document: newer than any, since public ids are never given out again. */
export const DELETED = Number.MAX_SAFE_INTEGER

/**
 * A larger document is not put there, its version is: its bytes would hold up everybody else's commands on the one
 * connection, for longer than those wait.
 */
const MAX_SHARED_BYTES = 2 * 1024 * 1024

// KEYS[1] the document; ARGV: channel, message ('' to tell nobody), version, lifetime in milliseconds, hash ('' when only
// the version is known), time of the write, bytes. Gives the newest version that it knows of. Never replaces a newer
// version by an older one, whatever order writers and readers arrive in; a deleted document leaves its version as a
// tombstone. A write of the same version with another hash replaces it: a database that lost its last writes in a
// failover gives their versions out again. Telling the other replicas in the same script means that whoever hears of a
// version finds nothing older here.
const STORE = `
local held = redis.call('HMGET', KEYS[1], 'v', 'h')
local known, version = tonumber(held[1] or '0'), tonumber(ARGV[3])
local other = ARGV[5] ~= '' and (not held[2] or (ARGV[2] ~= '' and held[2] ~= ARGV[5]))
if version > known or (version == known and other) then
  redis.call('DEL', KEYS[1])
  if ARGV[5] == '' then
    redis.call('HSET', KEYS[1], 'v', ARGV[3])
  else
    redis.call('HSET', KEYS[1], 'v', ARGV[3], 'h', ARGV[5], 't', ARGV[6], 'd', ARGV[7])
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
if ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return math.max(known, version)
`

export const DOCUMENT_SCRIPTS = { landfallStore: { numberOfKeys: 1, lua: STORE } } as const

/** What a message on the channel tells: this document has a version that new, or none any more. */
export interface Publication {
  readonly publicId: string
  readonly version: number
}

/** Redis' copy: a version with the milliseconds it has left there, or the news that it was deleted. */
export type SharedCopy = { readonly deleted: true } | { readonly deleted: false, readonly document: DocumentVersion, readonly leftMs: number }

/** Documents in Redis, shared by the replicas. Every method rejects with RedisAwayError while Redis is away. */
export class SharedDocuments {
  readonly #redis: SharedRedis
  readonly #channel: string

  constructor (redis: SharedRedis, channel: string) {
    this.#redis = redis
    this.#channel = channel
  }

  /**
   * Redis' copy if it is to be trusted. One that was made before the last outage ended may be older than a write that
   * could not be told, and whoever made that one may not be back yet.
   */
  async get (publicId: string): Promise<SharedCopy | undefined> {
    const askedAt = clock.now()
    const key = redisKey(publicId)
    const [[version, hash, updatedAt, bytes], leftMs] = await this.#redis.run(async (redis) =>
      await Promise.all([redis.hmgetBuffer(key, 'v', 'h', 't', 'd'), redis.pttl(key)]))
    if (version == null || leftMs <= 0) return undefined
    if (Number(version) === DELETED) return { deleted: true }
    if (hash == null || updatedAt == null || bytes == null) return undefined
    if (askedAt - (LIFETIME_MS - leftMs) < this.#redis.backSince) return undefined
    return {
      deleted: false,
      leftMs,
      document: { publicId, version: Number(version), hash: hash.toString(), updatedAt: new Date(Number(updatedAt)), bytes }
    }
  }

  /** Keeps a version that was read from PostgreSQL, unless a newer one is there or it is too large. */
  async fill (document: DocumentVersion): Promise<void> {
    if (isSharable(document)) await this.#store(document.publicId, document.version, document, '')
  }

  /**
   * Keeps a version that was written, unless it is too large, or a tombstone, and tells every replica.
   *
   * @returns the newest version that Redis has heard of
   */
  async publish (publicId: string, document: DocumentVersion | undefined): Promise<number> {
    return await this.#tell(publicId, document?.version ?? DELETED, document !== undefined && isSharable(document) ? document : undefined)
  }

  /** Tells everybody, and Redis, of a version that was written a while ago: what is older goes, and nobody keeps it again. */
  async announce (publicId: string, version: number): Promise<number> {
    return await this.#tell(publicId, version, undefined)
  }

  /** Calls back for each publication of any replica, this one included. */
  onPublication (listener: (publication: Publication) => void): void {
    this.#redis.on('message', (channel, message) => {
      if (channel !== this.#channel) return
      const [publicId = '', version] = message.split(' ')
      listener({ publicId, version: Number(version) })
    })
  }

  async #tell (publicId: string, version: number, document: DocumentVersion | undefined): Promise<number> {
    return await this.#store(publicId, version, document, `${publicId} ${version}`)
  }

  async #store (publicId: string, version: number, document: DocumentVersion | undefined, message: string): Promise<number> {
    return await this.#redis.run(async (redis) => await redis.landfallStore(
      redisKey(publicId), this.#channel, message, version, LIFETIME_MS,
      document?.hash ?? '', document?.updatedAt.getTime() ?? 0, document?.bytes ?? Buffer.alloc(0)))
  }
}

const isSharable = ({ bytes }: DocumentVersion): boolean => bytes.length <= MAX_SHARED_BYTES

const redisKey = (publicId: string): string => `landfall:document:${publicId}`
