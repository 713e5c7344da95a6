import { LRUCache } from 'lru-cache'
import { clock } from '../../../infra/system/clock.ts'
import { SingleFlight, type Flight } from '../../../infra/system/single-flight.ts'
import { isDatabaseUnavailable } from '../../../infra/postgres/unavailable.ts'
import { CachedDocument, type CompressionCounts, type DocumentVersion, type Origin,
  type PublicVersion } from './cached-document.ts'
import { createPublisher, type Publisher } from './publisher.ts'
import { DELETED, LIFETIME_MS, type SharedDocuments } from './shared-documents.ts'

/** How long a document is served without a reload while this process can miss writes of other processes. */
const SHORT_LEASE_MS = 1000
/** The most ids without a document. They have their own cache, so that guessed ids can't evict documents. */
const MAX_ABSENT = 20_000
/** The most versions that are remembered so that a slow load can't restore an older version. */
const MAX_NEWEST = 20_000

export interface DocumentCacheOptions {
  readonly maxBytes: number
  /** How long a document may be served while PostgreSQL is unreachable, in milliseconds. */
  readonly maxStaleMs: number
  /** Reads the current version from PostgreSQL. */
  readonly read: (publicId: string) => Promise<PublicVersion | undefined>
  readonly shared?: SharedDocuments
  /** Whether this process currently learns of every write of other processes. */
  readonly hearsAllWrites: () => boolean
  /** Returns the header line that tells caches in front of the service what to purge; empty for none. */
  readonly tagLine?: (publicId: string) => string
}

interface Loaded {
  readonly document: PublicVersion
  readonly lifetimeMs: number
  readonly origin: Origin
}

/**
 * Caches documents for the public read. A document is looked up in this process, then in Redis, then in
 * PostgreSQL. Concurrent callers share one load per document.
 *
 * The version of a document grows with each write, and no layer replaces a newer version by an older one.
 * When a newer version becomes known during a load, callers that already wait get the result of that load;
 * later callers start another load. A deleted document leaves a tombstone. A page that is only hidden leaves
 * none, because a later version may be published. While this process can miss writes of other processes,
 * documents are reloaded after one second.
 */
export class DocumentCache {
  /** The number of compressions. Pass it to CachedDocument.make(). */
  readonly compressions: CompressionCounts = { br: 0, gzip: 0 }
  /** Tells other replicas of writes; undefined without Redis. */
  readonly publisher: Publisher | undefined
  readonly #options: DocumentCacheOptions
  readonly #documents: LRUCache<string, CachedDocument> | undefined
  #evictions = 0
  /** Until when a page is known to be hidden, on the process clock; Infinity if it doesn't exist. */
  readonly #absent = new LRUCache<string, number>({ max: MAX_ABSENT })
  readonly #flights = new SingleFlight<CachedDocument | undefined>()
  /** The newest known version by public id, also of documents that are no longer cached. */
  readonly #newest = new LRUCache<string, number>({ max: MAX_NEWEST })
  /** A document that was loaded before this time of the process clock may be outdated. */
  #trustedSince = 0
  #isDatabaseAway = false

  constructor (options: DocumentCacheOptions) {
    this.#options = options
    if (options.maxBytes > 0) {
      this.#documents = new LRUCache({
        maxSize: options.maxBytes,
        maxEntrySize: options.maxBytes,
        sizeCalculation: (document) => document.size,
        dispose: (_document, _publicId, reason) => {
          if (reason === 'evict') this.#evictions++
        }
      })
    }
    const { shared } = options
    if (shared === undefined) return
    this.publisher = createPublisher(shared, (publicId, version) => this.#learn(publicId, version))
    shared.onNotice(({ publicId, version }) => this.#learn(publicId, version))
  }

  /**
   * Returns the cached document, null if readers are known to get none, undefined if it has to be loaded.
   *
   * @param now the process clock, in milliseconds
   */
  get (publicId: string, now: number): CachedDocument | null | undefined {
    const document = this.#documents?.get(publicId)
    if (document !== undefined && now < document.freshUntil) return document
    return now < (this.#absent.get(publicId) ?? 0) ? null : undefined
  }

  /**
   * Loads a document, once for all concurrent callers. Returns undefined when it doesn't exist, or is hidden.
   *
   * @throws the driver's error when PostgreSQL is unreachable and no cached copy is recent enough
   */
  load (publicId: string): Promise<CachedDocument | undefined> {
    const old = this.#documents?.peek(publicId)
    return old === undefined ? this.#join(publicId) : this.#reload(publicId, old)
  }

  /**
   * Publishes a committed write. It must be called after every write. Readers of this process see the write
   * at once, readers of other processes when Redis has delivered the message.
   *
   * @param published a removed page has the version `DELETED`
   * @param knownAt when the statement began, on the process clock, because another write may have followed
   * @returns false if Redis could not be told
   */
  async publish (published: PublicVersion, knownAt = clock.now()): Promise<boolean> {
    this.#learn(published.publicId, published.version)
    if (published.body !== undefined) this.#keep(published, knownAt, LIFETIME_MS)
    else if (published.version !== DELETED) this.#hide(published, knownAt, LIFETIME_MS)
    return await this.publisher?.publish(published) ?? true
  }

  /** Publishes the removal of pages. Never rejects. */
  async publishDeletions (publicIds: readonly string[]): Promise<void> {
    await Promise.all(publicIds.map(async (publicId) => await this.publish({ publicId, version: DELETED })))
  }

  /** Forces a reload of every document before it is served again, because writes may have been missed. */
  expireAll (): void {
    this.#trustedSince = clock.now()
    for (const document of this.#documents?.values() ?? []) document.freshUntil = 0
    this.#absent.clear()
  }

  /** Whether load() returned an expired document because PostgreSQL is unreachable. */
  isStale (document: CachedDocument, now: number): boolean {
    return this.#isDatabaseAway && document.knownAt > 0 && now >= document.freshUntil
  }

  /**
   * Whether a document is cached. Callers compress only cached documents; for others, every request would
   * compress again.
   */
  holds (document: CachedDocument): boolean {
    return this.#documents?.peek(document.publicId) === document
  }

  /** Updates the size of a document that has gained a representation. */
  resized (document: CachedDocument): void {
    if (!this.holds(document)) return
    // lru-cache measures a value only when it is added.
    this.#documents?.delete(document.publicId)
    this.#documents?.set(document.publicId, document)
  }

  /** The number of documents in memory, their size in bytes, and the evictions so far. */
  get usage (): { entries: number, bytes: number, evictions: number } {
    return {
      entries: this.#documents?.size ?? 0,
      bytes: this.#documents?.calculatedSize ?? 0,
      evictions: this.#evictions
    }
  }

  /** Records that a version exists, so that later callers never get an older one. */
  #learn (publicId: string, version: number): void {
    if (version <= this.#newestOf(publicId)) return
    this.#newest.set(publicId, version)
    this.#flights.forget(publicId)
    if (version === DELETED) this.#absent.set(publicId, Infinity)
    else if (!this.#isGone(publicId)) this.#absent.delete(publicId)
    const held = this.#documents?.peek(publicId)
    if (held !== undefined && held.version < version) this.#documents?.delete(publicId)
  }

  #cached (document: DocumentVersion): CachedDocument {
    return new CachedDocument(document, this.#options.tagLine?.(document.publicId))
  }

  /** Caches a version unless a newer one is known. Returns the version to serve. */
  #keep (document: DocumentVersion, knownAt: number, lifetimeMs: number): CachedDocument {
    const held = this.#documents?.peek(document.publicId)
    if (held !== undefined && held.version > document.version) return held
    if (document.version < this.#newestOf(document.publicId) || this.#isGone(document.publicId)) {
      return this.#cached(document)
    }
    // After a failover, PostgreSQL may assign a version number again, to another text.
    const isSame = held?.version === document.version && held.hash === document.hash
    const entry = isSame ? held : this.#cached(document)
    entry.knownAt = Math.max(entry.knownAt, knownAt)
    if (knownAt >= this.#trustedSince) entry.freshUntil = this.#leaseEnd(knownAt, lifetimeMs)
    this.#documents?.set(document.publicId, entry)
    return entry
  }

  /** Remembers that a page is hidden, unless a newer version is known. */
  #hide ({ publicId, version }: PublicVersion, knownAt: number, lifetimeMs: number): void {
    if (version < this.#newestOf(publicId) || knownAt < this.#trustedSince) return
    this.#documents?.delete(publicId)
    this.#absent.set(publicId, this.#leaseEnd(knownAt, lifetimeMs))
  }

  #leaseEnd (knownAt: number, lifetimeMs: number): number {
    return knownAt + (this.#options.hearsAllWrites() ? lifetimeMs : Math.min(SHORT_LEASE_MS, lifetimeMs))
  }

  #isGone (publicId: string): boolean {
    return this.#absent.peek(publicId) === Infinity
  }

  #newestOf (publicId: string): number {
    return this.#newest.peek(publicId) ?? 0
  }

  #mayServeStale (document: CachedDocument): boolean {
    return clock.now() < document.knownAt + this.#options.maxStaleMs
  }

  async #reload (publicId: string, old: CachedDocument): Promise<CachedDocument | undefined> {
    if (this.#isDatabaseAway && this.#mayServeStale(old)) {
      // One load in the background detects when PostgreSQL is reachable again.
      if (!this.#flights.has(publicId)) this.#join(publicId).catch(() => {})
      return old
    }
    try {
      return await this.#join(publicId)
    } catch (error) {
      if (isDatabaseUnavailable(error) && this.#mayServeStale(old)) return old
      throw error
    }
  }

  #join (publicId: string): Promise<CachedDocument | undefined> {
    return this.#flights.run(publicId, (flight) => this.#loadOnce(publicId, flight))
  }

  async #loadOnce (publicId: string, flight: Flight): Promise<CachedDocument | undefined> {
    const startedAt = clock.now()
    const newestBefore = this.#newestOf(publicId)
    const loaded = await this.#fetch(publicId)
    // If a version was learned during this load but evicted since, assume the highest number.
    const newest = this.#newest.peek(publicId) ?? (flight.isForgotten ? Infinity : 0)
    if (newest === DELETED || loaded === undefined) {
      // Only ids that existed are put into #newest, so that guessed ids can't evict them.
      if (newest > 0) this.#learn(publicId, DELETED)
      this.#documents?.delete(publicId)
      this.#absent.set(publicId, Infinity)
      return undefined
    }
    const { document, lifetimeMs, origin } = loaded
    // If PostgreSQL lacks a version that was known before it was asked, a failover has lost writes.
    const hasLostWrites = origin === 'database' && document.version < newest && newest === newestBefore &&
      !flight.isForgotten
    if (hasLostWrites) {
      this.#newest.delete(publicId)
      this.#documents?.delete(publicId)
    }
    if (document.version >= newest || hasLostWrites) {
      // Its publication may not have arrived. Learn the version now, so that later callers don't join a load
      // that began earlier.
      if (document.version !== newest) this.#learn(publicId, document.version)
      if (document.body === undefined) {
        this.#hide(document, startedAt, lifetimeMs)
        return undefined
      }
      // Redis gets no version that is older than one known here.
      if (origin === 'database' && !hasLostWrites) this.#options.shared?.fill(document)
      const kept = this.#keep(document, startedAt, lifetimeMs)
      kept.origin = origin
      return kept
    }
    const held = this.#documents?.peek(publicId)
    if (held !== undefined && held.version >= document.version) return held
    return document.body === undefined ? undefined : this.#cached(document)
  }

  async #fetch (publicId: string): Promise<Loaded | undefined> {
    const { shared } = this.#options
    if (shared !== undefined && this.publisher?.isBehind(publicId) !== true) {
      const copy = await shared.get(publicId)
      if (copy?.deleted === true) return undefined
      // After a flush of Redis, a slow replica may have stored an older version there.
      if (copy?.deleted === false && copy.document.version >= this.#newestOf(publicId)) {
        return { document: copy.document, lifetimeMs: copy.leftMs, origin: 'redis' }
      }
    }
    const document = await this.#readDatabase(publicId)
    if (document === undefined) return undefined
    return { document, lifetimeMs: LIFETIME_MS, origin: 'database' }
  }

  async #readDatabase (publicId: string): Promise<PublicVersion | undefined> {
    try {
      const document = await this.#options.read(publicId)
      this.#isDatabaseAway = false
      return document
    } catch (error) {
      this.#isDatabaseAway = isDatabaseUnavailable(error)
      throw error
    }
  }
}
