import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { entityTag, type Encoding } from './etag.ts'
import { Body, headerLines } from './prepared-head.ts'

/** A version of a document as PostgreSQL and Redis hold it. */
export interface DocumentVersion {
  readonly publicId: string
  /** Grows with each write of the document; from PostgreSQL. */
  readonly version: number
  readonly hash: string
  readonly updatedAt: Date
  readonly bytes: Buffer
}

/** The bytes that are sent, and the header lines that depend on them. */
export interface Representation {
  readonly body: Body
  readonly lines: string
  /** Those of a 304. */
  readonly validatorLines: string
}

const compress = {
  // Quality 5 takes about as long as gzip and is smaller; 11 would take a hundred times as long.
  br: async (bytes: Buffer) => await promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  gzip: async (bytes: Buffer) => await promisify(gzip)(bytes)
} as const

/** Where the copy that a process holds came from: another's, or a row. What was written here counts as from the row. */
export type Origin = 'redis' | 'database'

/** How often documents were compressed, by encoding. */
export type Compressions = Record<'br' | 'gzip', number>

/** Less than this fits into one packet as it is. */
const MIN_COMPRESSED_BYTES = 1024
/** Compressing must make a document this much smaller to be worth the client's work, and the memory. */
const MAX_COMPRESSED_PART = 0.9
/** What an entry costs beside its bytes: headers, keys, the entry itself. */
const OVERHEAD_BYTES = 1024

/** A version of a document with all that is sent of it, made once. */
export class CachedDocument {
  readonly publicId: string
  readonly version: number
  readonly hash: string
  readonly lastModified: string
  readonly identity: Representation
  readonly #made: { br?: Representation, gzip?: Representation } = {}
  readonly #making: { br?: Promise<Representation>, gzip?: Promise<Representation> } = {}
  /** Until when it is served without asking again, in milliseconds of the process clock. */
  freshUntil = 0
  /** Where it was loaded from last. */
  origin: Origin = 'database'
  /** When it was known to be the current version, in milliseconds of the process clock. */
  knownAt = 0

  constructor (document: DocumentVersion) {
    this.publicId = document.publicId
    this.version = document.version
    this.hash = document.hash
    // The clock of who wrote it may be ahead, and what has been changed in the future is not allowed (RFC 9110, 8.8.2.1).
    this.lastModified = new Date(Math.min(document.updatedAt.getTime(), Date.now())).toUTCString()
    this.identity = this.#represent(document.bytes, 'identity')
  }

  /** Memory that it takes, in bytes. */
  get size (): number {
    const bodies = new Set([this.identity, ...Object.values(this.#made)].map(({ body }) => body))
    return [...bodies].reduce((sum, { size }) => sum + size, OVERHEAD_BYTES)
  }

  /** The representation in an encoding if it needs no work. */
  ready (encoding: Encoding): Representation | undefined {
    if (encoding === 'identity' || this.identity.body.bytes.length < MIN_COMPRESSED_BYTES) return this.identity
    return this.#made[encoding]
  }

  /**
   * Makes the representation in an encoding, once however many ask; the plain one where compressing doesn't pay.
   *
   * @param done is raised when there was work to do
   */
  async make (encoding: 'br' | 'gzip', done: Compressions): Promise<Representation> {
    return await (this.#making[encoding] ??= compress[encoding](this.identity.body.bytes).then((bytes) => {
      done[encoding]++
      return (this.#made[encoding] = bytes.length <= this.identity.body.bytes.length * MAX_COMPRESSED_PART ? this.#represent(bytes, encoding) : this.identity)
    }).catch((error: unknown) => {
      delete this.#making[encoding] // there may be memory for it the next time
      throw error
    }))
  }

  #represent (bytes: Buffer, encoding: Encoding): Representation {
    const validators = [['etag', entityTag(this.hash, encoding)], ['last-modified', this.lastModified]] as const
    const content = [['content-type', 'application/json; charset=utf-8'], ['content-length', String(bytes.length)]] as const
    const coding = encoding === 'identity' ? [] : [['content-encoding', encoding]] as const
    return { body: new Body(bytes), lines: headerLines(...validators, ...content, ...coding), validatorLines: headerLines(...validators) }
  }
}
