import { JSON_CONTENT_TYPE } from '../../../http/common-headers.ts'
import { compress, entityTag, type Encoding } from '../../../http/content-encoding.ts'
import type { PublicPage } from '../landing-page-repository.ts'
import { Body, headerLines } from './prepared-head.ts'
import { NOT_READ, type PageReads } from './read-reporter.ts'

/** A version of a document as PostgreSQL and Redis store it. */
export interface DocumentVersion {
  readonly publicId: string
  /** Assigned by PostgreSQL. It grows with each write of the document. */
  readonly version: number
  readonly hash: string
  readonly updatedAt: Date
  readonly body: Body
}

/** A version of a page that readers don't get: it is unpublished, or in the trash. */
export interface HiddenVersion {
  readonly publicId: string
  readonly version: number
  readonly body?: undefined
}

export type PublicVersion = DocumentVersion | HiddenVersion

/** Converts a row of the table to what readers get of it. */
export function publicVersion (page: PublicPage): PublicVersion {
  const { publicId, published } = page
  const version = Number(page.version)
  if (!published) return { publicId, version }
  const body = new Body(page.currentData)
  return { publicId, version, hash: page.contentHash, updatedAt: page.updatedAt, body }
}

/** A document in one encoding, with its header lines. */
export interface Representation {
  readonly body: Body
  readonly etag: string
  /** All lines that only this representation has. */
  readonly lines: string
  /** The ETag and the tag for caches, for a 304 or 412. */
  readonly etagLine: string
}

/** Where a cached document was loaded from. A document that this process wrote counts as `database`. */
export type Origin = 'redis' | 'database'

/** The number of compressions, by encoding. */
export type CompressionCounts = Record<'br' | 'gzip', number>

/** Smaller documents aren't compressed, because they fit into one packet. */
const MIN_COMPRESSED_BYTES = 1024
/** A compressed document is used if its size is at most this share of the original. */
const MAX_COMPRESSED_PART = 0.9
const CONTENT_TYPE_LINE = headerLines(['content-type', JSON_CONTENT_TYPE])
/** The memory of an entry without its bodies: headers, keys, and the entry itself. */
const OVERHEAD_BYTES = 1024

/** A version of a document with its representations. Each representation is created once. */
export class CachedDocument {
  readonly publicId: string
  readonly version: number
  readonly hash: string
  readonly updatedAt: Date
  readonly #lastModifiedLine: string
  readonly #tagLine: string
  #hasLastModified = false
  readonly identity: Representation
  readonly #made: { br?: Representation, gzip?: Representation } = {}
  readonly #making: { br?: Promise<Representation>, gzip?: Promise<Representation> } = {}
  /** From this time on it is reloaded before it is served, in milliseconds of the process clock. */
  freshUntil = 0
  /** Where it was last loaded from. */
  origin: Origin = 'database'
  /** When it was last known to be the current version, in milliseconds of the process clock. */
  knownAt = 0
  /** The reads of its page. They may be those of an earlier hour, or taken. */
  pageReads: PageReads = NOT_READ

  /** @param tagLine the line that tells caches what to purge; empty for none */
  constructor (document: DocumentVersion, tagLine = '') {
    this.publicId = document.publicId
    this.version = document.version
    this.hash = document.hash
    this.updatedAt = document.updatedAt
    this.#lastModifiedLine = `last-modified: ${document.updatedAt.toUTCString()}\r\n`
    this.#tagLine = tagLine
    this.identity = this.#represent(document.body, 'identity')
  }

  /**
   * The Last-Modified line; empty until a second after the write. Until then another write could have the
   * same date, and the clock of the writer may be ahead (RFC 9110, 8.8.2).
   */
  get lastModifiedLine (): string {
    if (!this.#hasLastModified) this.#hasLastModified = Date.now() >= this.updatedAt.getTime() + 1000
    return this.#hasLastModified ? this.#lastModifiedLine : ''
  }

  /** The memory that it uses, in bytes. */
  get size (): number {
    let size = OVERHEAD_BYTES + this.identity.body.size
    for (const made of [this.#made.br, this.#made.gzip]) {
      if (made !== undefined && made !== this.identity) size += made.body.size
    }
    return size
  }

  /** Returns the representation in an encoding; undefined if it has to be compressed first. */
  ready (encoding: Encoding): Representation | undefined {
    if (encoding === 'identity' || this.identity.body.bytes.length < MIN_COMPRESSED_BYTES) {
      return this.identity
    }
    return this.#made[encoding]
  }

  /**
   * Compresses the document, once for all callers. Returns the uncompressed representation if compressing
   * saves too little.
   *
   * @param compressions counts the compression
   */
  async make (encoding: 'br' | 'gzip', compressions: CompressionCounts): Promise<Representation> {
    return await (this.#making[encoding] ??= compress[encoding](this.identity.body.bytes).then((bytes) => {
      compressions[encoding]++
      return (this.#made[encoding] = bytes.length <= this.identity.body.bytes.length * MAX_COMPRESSED_PART
        ? this.#represent(new Body(bytes), encoding) : this.identity)
    }).catch((error: unknown) => {
      delete this.#making[encoding] // the next request tries again, because memory may only be short now
      throw error
    }))
  }

  #represent (body: Body, encoding: Encoding): Representation {
    const etag = entityTag(this.hash, encoding)
    const etagLine = `etag: ${etag}\r\n${this.#tagLine}`
    const coding = encoding === 'identity' ? '' : `content-encoding: ${encoding}\r\n`
    return {
      body,
      etag,
      lines: `${etagLine}${CONTENT_TYPE_LINE}content-length: ${body.bytes.length}\r\n${coding}`,
      etagLine
    }
  }
}
