import { LRUCache } from 'lru-cache'
import fp from 'fastify-plugin'
import { clock } from '../clock.ts'
import { isDatabaseUnavailable } from '../database/unavailable.ts'
import { CachedDocument, type Compressions, type DocumentVersion, type Origin } from './cached-document.ts'
import { documentMetrics } from './read-metrics.ts'
import { LandingPageRepository } from './repository.ts'
import { DELETED, LIFETIME_MS, SharedDocuments } from './shared-documents.ts'

declare module 'fastify' {
  interface FastifyInstance {
    documents: DocumentCache
  }
}

/** While other replicas' writes may go unheard, a document is served no longer than this without asking again. */
const SHORT_LEASE_MS = 1000
/** Ids that are known to name nothing: few bytes each, and an attacker's guesses must not push documents out. */
const MAX_MISSING = 10_000
/** Writes remembered for a Redis that is away, as versions only; past this the oldest is left to the copy's own end. */
const MAX_UNPUBLISHED = 10_000
/** Few enough for Redis to answer in time; one by one, others would wait for the last one of many. */
const ANNOUNCED_AT_ONCE = 50
/** Of so many documents the newest version is remembered that anybody told of, for as long as older ones may be under way. */
const MAX_NEWEST = 20_000

interface Flight {
  readonly result: Promise<CachedDocument | undefined>
  /** Whether something newer was learned of while it was under way: nobody may join it any more. */
  isOvertaken: boolean
}

export interface DocumentCacheOptions {
  readonly maxBytes: number
  /** How long a document may be served while PostgreSQL can't be asked, in milliseconds. */
  readonly maxStaleMs: number
  /** Reads the current version from PostgreSQL. */
  readonly read: (publicId: string) => Promise<DocumentVersion | undefined>
  readonly shared?: SharedDocuments
  /** Whether no write of another process can go unheard, now. */
  readonly hearsAllWrites: () => boolean
}

/**
 * Documents for the public read: in this process, else in Redis, else in PostgreSQL, with one flight per document.
 *
 * Versions make it right: nothing ever replaces a newer version by an older one, here or in Redis. What a flight brings
 * something newer has overtaken is for those who waited before; who comes later gets a flight of its own. An id that
 * named nothing, or no longer names anything, never will again, since public ids are drawn at random and never given out
 * twice.
 */
export class DocumentCache {
  /** To be raised by whoever has a document compressed. */
  readonly compressions: Compressions = { br: 0, gzip: 0 }
  readonly #options: DocumentCacheOptions
  readonly #documents: LRUCache<string, CachedDocument> | undefined
  #evictions = 0
  readonly #missing = new LRUCache<string, true>({ max: MAX_MISSING })
  readonly #flights = new Map<string, Flight>()
  readonly #unpublished = new Map<string, number>()
  /** The newest versions that were written here, heard of or loaded, also of documents that are not held any more. */
  readonly #newest = new LRUCache<string, number>({ max: MAX_NEWEST })
  /** Whatever was known before this moment, in milliseconds of the process clock, may have been overwritten unheard. */
  #distrustedUntil = 0
  #databaseAway = false

  constructor (options: DocumentCacheOptions) {
    this.#options = options
    if (options.maxBytes > 0) {
      this.#documents = new LRUCache({
        maxSize: options.maxBytes,
        maxEntrySize: options.maxBytes,
        sizeCalculation: (document) => document.size,
        dispose: (_document, _publicId, reason) => { if (reason === 'evict') this.#evictions++ }
      })
    }
    options.shared?.onPublication(({ publicId, version }) => this.#learn(publicId, version))
  }

  /**
   * The document if this process may serve it without asking anybody, null if there is none with that id, undefined if
   * it has to be loaded.
   *
   * @param now the process clock, in milliseconds
   */
  get (publicId: string, now: number): CachedDocument | null | undefined {
    const document = this.#documents?.get(publicId)
    if (document !== undefined && now < document.freshUntil) return document
    if (this.#missing.has(publicId)) return null
    return undefined
  }

  /**
   * Loads a document, together with everybody else who waits for it. Undefined when there is none.
   *
   * @throws what PostgreSQL's driver throws when it can't be asked and no copy is recent enough
   */
  async load (publicId: string): Promise<CachedDocument | undefined> {
    const old = this.#documents?.peek(publicId)
    if (old !== undefined && this.#databaseAway && this.#mayServeStale(old)) {
      // Finds out when PostgreSQL is back: one does, for all who read meanwhile.
      if (!this.#flights.has(publicId)) this.#join(publicId).catch(() => {})
      return old
    }
    try {
      return await this.#join(publicId)
    } catch (error) {
      if (old !== undefined && isDatabaseUnavailable(error) && this.#mayServeStale(old)) return old
      throw error
    }
  }

  /**
   * Takes over a version that was just committed, or the news that the document was deleted: the one place from which
   * writes reach readers. Readers of this process see it at once, those of the others when Redis has told them.
   *
   * @param knownAt when its statement began, in milliseconds of the process clock: a write of another process may have
   *   come after it, and the news of that before its answer, or not at all
   */
  async publish (publicId: string, document: DocumentVersion | undefined, knownAt = clock.now()): Promise<void> {
    this.#learn(publicId, versionOf(document))
    if (document !== undefined) this.#keep(document, knownAt, LIFETIME_MS)
    await this.#tell(publicId, versionOf(document), async (shared) => await shared.publish(publicId, document))
  }

  /**
   * Tells of the writes that could not be published while Redis was away. Only their versions: by now another replica
   * may have written a newer one.
   */
  async publishOutstanding (): Promise<void> {
    const outstanding = [...this.#unpublished]
    while (outstanding.length > 0) {
      await Promise.all(outstanding.splice(0, ANNOUNCED_AT_ONCE).map(async ([publicId, version]) =>
        await this.#tell(publicId, version, async (shared) => await shared.announce(publicId, version))))
    }
  }

  /** Distrusts everything that is cached, because writes of other processes may have gone unheard. */
  expireAll (): void {
    const now = clock.now()
    this.#distrustedUntil = now
    for (const document of this.#documents?.values() ?? []) document.freshUntil = 0
  }

  /** Whether a document that load() gave was served because PostgreSQL is away, though it ought to be asked for anew. */
  isStale (document: CachedDocument, now: number): boolean {
    return this.#databaseAway && document.knownAt > 0 && now >= document.freshUntil
  }

  /** Whether what is made of a document will be kept: work on one that isn't would be done for each request. */
  holds (document: CachedDocument): boolean {
    return this.#documents?.peek(document.publicId) === document
  }

  /** Says that a document has grown by a representation, so that the budget is kept. */
  resized (document: CachedDocument): void {
    if (!this.holds(document)) return
    // Set alone would keep the size that it had: the cache measures a value only when it is new.
    this.#documents?.delete(document.publicId)
    this.#documents?.set(document.publicId, document)
  }

  /** Documents held, the memory that they take in bytes, and how many had to make room for others. */
  get usage (): { entries: number, bytes: number, evictions: number } {
    return { entries: this.#documents?.size ?? 0, bytes: this.#documents?.calculatedSize ?? 0, evictions: this.#evictions }
  }

  async #tell (publicId: string, version: number, publish: (shared: SharedDocuments) => Promise<number>): Promise<void> {
    const { shared } = this.#options
    if (shared === undefined) return
    this.#rememberUnpublished(publicId, version)
    try {
      const newest = await publish(shared)
      if (this.#unpublished.get(publicId) === version) this.#unpublished.delete(publicId)
      if (newest > version) this.#learn(publicId, newest)
    } catch {
      // Redis is away. What it holds of this document is not used, and publishOutstanding() tries again.
    }
  }

  #rememberUnpublished (publicId: string, version: number): void {
    if ((this.#unpublished.get(publicId) ?? 0) < version) this.#unpublished.set(publicId, version)
    if (this.#unpublished.size > MAX_UNPUBLISHED) this.#unpublished.delete(this.#unpublished.keys().next().value as string)
  }

  /** Takes note that there is a version: from now on nobody who asks gets an older one. */
  #learn (publicId: string, version: number): void {
    if (version <= this.#newestOf(publicId)) return
    this.#newest.set(publicId, version)
    const flight = this.#flights.get(publicId)
    if (flight !== undefined) {
      flight.isOvertaken = true
      this.#flights.delete(publicId)
    }
    const held = this.#documents?.peek(publicId)
    if (held !== undefined && held.version < version) this.#documents?.delete(publicId)
    if (version === DELETED) this.#missing.set(publicId, true)
  }

  /** Keeps a version unless a newer one is held or was heard of, and gives the one to be served. */
  #keep (document: DocumentVersion, knownAt: number, lifetimeMs: number): CachedDocument {
    const held = this.#documents?.peek(document.publicId)
    if (held !== undefined && held.version > document.version) return held
    if (document.version < this.#newestOf(document.publicId) || this.#missing.has(document.publicId)) return new CachedDocument(document)
    // A database that lost its last writes, after a failover, gives their versions out again.
    const entry = held?.version === document.version && held.hash === document.hash ? held : new CachedDocument(document)
    const lease = this.#options.hearsAllWrites() ? lifetimeMs : Math.min(SHORT_LEASE_MS, lifetimeMs)
    entry.knownAt = Math.max(entry.knownAt, knownAt)
    if (knownAt >= this.#distrustedUntil) entry.freshUntil = knownAt + lease
    this.#documents?.set(document.publicId, entry)
    return entry
  }

  #newestOf (publicId: string): number {
    return this.#newest.peek(publicId) ?? 0
  }

  #mayServeStale (document: CachedDocument): boolean {
    return clock.now() < document.knownAt + this.#options.maxStaleMs
  }

  async #join (publicId: string): Promise<CachedDocument | undefined> {
    const underWay = this.#flights.get(publicId)
    if (underWay !== undefined) return await underWay.result
    const flight: Flight = { isOvertaken: false, result: Promise.resolve().then(async () => await this.#fly(publicId, flight)) }
    this.#flights.set(publicId, flight)
    try {
      return await flight.result
    } finally {
      if (this.#flights.get(publicId) === flight) this.#flights.delete(publicId)
    }
  }

  async #fly (publicId: string, flight: Flight): Promise<CachedDocument | undefined> {
    const startedAt = clock.now()
    const newestBefore = this.#newestOf(publicId)
    const found = await this.#fetch(publicId)
    // What was learned and forgotten meanwhile may have been newer.
    const newest = this.#newest.peek(publicId) ?? (flight.isOvertaken ? Infinity : 0)
    if (newest === DELETED || found === undefined) {
      // An id that never named a page must not push out what is known of those that did.
      if (newest > 0) this.#learn(publicId, DELETED)
      this.#documents?.delete(publicId)
      this.#missing.set(publicId, true)
      return undefined
    }
    const { document, lifetimeMs, origin } = found
    // Asked after a version was known, the database has not got it: it has lost its last writes.
    const isSetBack = origin === 'database' && document.version < newest && newest === newestBefore && !flight.isOvertaken
    if (isSetBack) {
      this.#newest.delete(publicId)
      this.#documents?.delete(publicId)
    }
    if (document.version >= newest || isSetBack) {
      // PostgreSQL shows it before it is published: nobody is to join a flight that may bring an older one.
      this.#learn(publicId, document.version)
      const kept = this.#keep(document, startedAt, lifetimeMs)
      kept.origin = origin
      return kept
    }
    const held = this.#documents?.peek(publicId)
    return held !== undefined && held.version >= document.version ? held : new CachedDocument(document)
  }

  async #fetch (publicId: string): Promise<{ document: DocumentVersion, lifetimeMs: number, origin: Origin } | undefined> {
    const { shared, read } = this.#options
    // What Redis holds is older than a write of ours that it has not heard of.
    if (shared !== undefined && !this.#unpublished.has(publicId)) {
      const copy = await shared.get(publicId).catch(() => undefined)
      if (copy?.deleted === true) return undefined
      // Nor is it used when it is older than what is known: somebody slow may have filled a Redis that was flushed.
      if (copy?.deleted === false && copy.document.version >= this.#newestOf(publicId)) return { document: copy.document, lifetimeMs: copy.leftMs, origin: 'redis' }
    }
    let document: DocumentVersion | undefined
    try {
      document = await read(publicId)
      this.#databaseAway = false
    } catch (error) {
      this.#databaseAway = isDatabaseUnavailable(error)
      throw error
    }
    if (document === undefined) return undefined
    if (document.version >= this.#newestOf(publicId)) shared?.fill(document).catch(() => {})
    return { document, lifetimeMs: LIFETIME_MS, origin: 'database' }
  }
}

export default fp<{ channel: string }>(async (app, { channel }) => {
  const { config, shared } = app
  const repository = new LandingPageRepository(app.database)
  const documents = new DocumentCache({
    maxBytes: config.CACHE_MAX_BYTES,
    maxStaleMs: config.CACHE_MAX_STALE_SECONDS * 1000,
    read: async (publicId) => {
      const page = await repository.findPublic(publicId)
      return page === null ? undefined : documentVersion({ publicId, ...page })
    },
    shared: shared === undefined ? undefined : new SharedDocuments(shared, channel),
    // The embedded database has no other process; a PostgreSQL without Redis may have.
    // Who can't send commands must suppose that the others can't either, and so have nothing to say.
    hearsAllWrites: () => config.DATABASE_URL === undefined || (shared !== undefined && shared.subscribed && shared.reachable)
  })
  shared?.on('subscribed', () => documents.expireAll())
  shared?.on('unsubscribed', () => documents.expireAll())
  shared?.on('unreachable', () => documents.expireAll())
  shared?.on('reachable', () => { documents.publishOutstanding().catch((error: unknown) => app.log.warn({ err: error }, 'outstanding publications failed')) })
  app.decorate('documents', documents)
  documentMetrics(app.metrics, documents, config.CACHE_MAX_BYTES)
}, { name: 'document-cache', dependencies: ['database', 'redis', 'metrics'] })

const versionOf = (document: DocumentVersion | undefined): number => document?.version ?? DELETED

/** The version of a document that a row of the table holds. */
export const documentVersion = (page: { publicId: string, version: bigint, contentHash: string, updatedAt: Date, currentData: string }): DocumentVersion => ({
  publicId: page.publicId,
  version: Number(page.version),
  hash: page.contentHash,
  updatedAt: page.updatedAt,
  bytes: Buffer.from(page.currentData)
})
