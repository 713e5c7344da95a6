import { LRUCache } from 'lru-cache'
import fp from 'fastify-plugin'
import { clock } from '../clock.ts'
import { isDatabaseUnavailable } from '../database/unavailable.ts'
import { CachedDocument, type DocumentVersion } from './cached-document.ts'
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
/** Publications kept for a Redis that is away; past this the oldest is left to the copy's own end. */
const MAX_UNPUBLISHED = 10_000

interface Flight {
  readonly result: Promise<CachedDocument | undefined>
  /** The first version that was published while it was under way; 0 for none. What it brings is then not to be kept. */
  overtakenBy: number
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
 * that a publication has overtaken is for those who waited before; who comes later gets a flight of its own. An id that
 * named nothing, or no longer names anything, never will again, since public ids are drawn at random and never given out
 * twice.
 */
export class DocumentCache {
  readonly #options: DocumentCacheOptions
  readonly #documents: LRUCache<string, CachedDocument> | undefined
  readonly #missing = new LRUCache<string, true>({ max: MAX_MISSING })
  readonly #flights = new Map<string, Flight>()
  readonly #unpublished = new Map<string, DocumentVersion | undefined>()
  /** Whatever was known before this moment, in milliseconds of the process clock, may have been overwritten unheard. */
  #distrustedUntil = 0
  #databaseAway = false

  constructor (options: DocumentCacheOptions) {
    this.#options = options
    if (options.maxBytes > 0) {
      this.#documents = new LRUCache({ maxSize: options.maxBytes, maxEntrySize: options.maxBytes, sizeCalculation: (document) => document.size })
    }
    options.shared?.onPublication(({ publicId, version }) => this.#heard(publicId, version))
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
      this.#join(publicId).catch(() => {}) // finds out when PostgreSQL is back
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
   */
  async publish (publicId: string, document: DocumentVersion | undefined): Promise<void> {
    this.#heard(publicId, versionOf(document))
    if (document !== undefined) this.#keep(document, clock.now(), LIFETIME_MS)
    const { shared } = this.#options
    if (shared === undefined) return
    this.#rememberUnpublished(publicId, document)
    try {
      await shared.publish(publicId, document)
      if (this.#unpublished.get(publicId) === document) this.#unpublished.delete(publicId)
    } catch {
      // Redis is away. What it holds of this document is not used, and publishOutstanding() tries again.
    }
  }

  /** Publishes what could not be published while Redis was away. */
  async publishOutstanding (): Promise<void> {
    for (const [publicId, document] of [...this.#unpublished]) await this.publish(publicId, document)
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

  #rememberUnpublished (publicId: string, document: DocumentVersion | undefined): void {
    const newer = this.#unpublished.has(publicId) && versionOf(this.#unpublished.get(publicId)) > versionOf(document)
    if (!newer) this.#unpublished.set(publicId, document)
    if (this.#unpublished.size > MAX_UNPUBLISHED) this.#unpublished.delete(this.#unpublished.keys().next().value as string)
  }

  #heard (publicId: string, version: number): void {
    const flight = this.#flights.get(publicId)
    if (flight !== undefined) {
      flight.overtakenBy = version
      this.#flights.delete(publicId)
    }
    const held = this.#documents?.peek(publicId)
    if (held !== undefined && held.version < version) this.#documents?.delete(publicId)
    if (version === DELETED) this.#missing.set(publicId, true)
  }

  /** Keeps a version unless a newer one is held, and gives the one that is held now. */
  #keep (document: DocumentVersion, knownAt: number, lifetimeMs: number): CachedDocument {
    const held = this.#documents?.peek(document.publicId)
    if (held !== undefined && held.version > document.version) return held
    const entry = held?.version === document.version ? held : new CachedDocument(document)
    const lease = this.#options.hearsAllWrites() ? lifetimeMs : Math.min(SHORT_LEASE_MS, lifetimeMs)
    entry.knownAt = Math.max(entry.knownAt, knownAt)
    if (knownAt >= this.#distrustedUntil) entry.freshUntil = knownAt + lease
    this.#documents?.set(document.publicId, entry)
    return entry
  }

  #mayServeStale (document: CachedDocument): boolean {
    return clock.now() < document.knownAt + this.#options.maxStaleMs
  }

  async #join (publicId: string): Promise<CachedDocument | undefined> {
    const underWay = this.#flights.get(publicId)
    if (underWay !== undefined) return await underWay.result
    const flight: Flight = { overtakenBy: 0, result: Promise.resolve().then(async () => await this.#fly(publicId, flight)) }
    this.#flights.set(publicId, flight)
    try {
      return await flight.result
    } finally {
      if (this.#flights.get(publicId) === flight) this.#flights.delete(publicId)
    }
  }

  async #fly (publicId: string, flight: Flight): Promise<CachedDocument | undefined> {
    const startedAt = clock.now()
    const found = await this.#fetch(publicId)
    if (flight.overtakenBy === DELETED || found === undefined) {
      this.#documents?.delete(publicId)
      this.#missing.set(publicId, true)
      return undefined
    }
    if (flight.overtakenBy === 0) return this.#keep(found.document, startedAt, found.lifetimeMs)
    const held = this.#documents?.peek(publicId)
    return held !== undefined && held.version >= found.document.version ? held : new CachedDocument(found.document)
  }

  async #fetch (publicId: string): Promise<{ document: DocumentVersion, lifetimeMs: number } | undefined> {
    const { shared, read } = this.#options
    // What Redis holds is older than a write of ours that it has not heard of.
    if (shared !== undefined && !this.#unpublished.has(publicId)) {
      const copy = await shared.get(publicId).catch(() => undefined)
      if (copy?.deleted === true) return undefined
      if (copy?.deleted === false) return { document: copy.document, lifetimeMs: copy.leftMs }
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
    shared?.fill(document).catch(() => {})
    return { document, lifetimeMs: LIFETIME_MS }
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
    hearsAllWrites: () => config.DATABASE_URL === undefined || (shared?.subscribed ?? false)
  })
  shared?.on('subscribed', () => documents.expireAll())
  shared?.on('unsubscribed', () => documents.expireAll())
  shared?.on('reachable', () => { documents.publishOutstanding().catch((error: unknown) => app.log.warn({ err: error }, 'outstanding publications failed')) })
  app.decorate('documents', documents)
}, { name: 'document-cache', dependencies: ['database', 'redis'] })

const versionOf = (document: DocumentVersion | undefined): number => document?.version ?? DELETED

/** The version of a document that a row of the table holds. */
export const documentVersion = (page: { publicId: string, version: bigint, contentHash: string, updatedAt: Date, currentData: string }): DocumentVersion => ({
  publicId: page.publicId,
  version: Number(page.version),
  hash: page.contentHash,
  updatedAt: page.updatedAt,
  bytes: Buffer.from(page.currentData)
})
