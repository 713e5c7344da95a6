import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { entityTag, type Encoding } from './etag.ts'

/** A version of a document as PostgreSQL and Redis hold it. */
export interface DocumentVersion {
  readonly publicId: string
  /** Grows with each write of the document; from PostgreSQL. */
  readonly version: number
  readonly hash: string
  readonly updatedAt: Date
  readonly bytes: Buffer
}

/** The bytes that are sent and the headers that depend on them, as names and values in turn. */
export interface Representation {
  readonly bytes: Buffer
  readonly headers: readonly string[]
  /** Those of a 304. */
  readonly validators: readonly string[]
}

const compress = {
  // Quality 5 takes about as long as gzip and is smaller; 11 would take a hundred times as long.
  br: async (bytes: Buffer) => await promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }),
  gzip: async (bytes: Buffer) => await promisify(gzip)(bytes)
} as const

/** Compressing less than this saves no packet. */
const MIN_COMPRESSED_BYTES = 256
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
  /** When it was known to be the current version, in milliseconds of the process clock. */
  knownAt = 0

  constructor (document: DocumentVersion) {
    this.publicId = document.publicId
    this.version = document.version
    this.hash = document.hash
    this.lastModified = document.updatedAt.toUTCString()
    this.identity = this.#represent(document.bytes, 'identity')
  }

  /** Memory that it takes, in bytes. */
  get size (): number {
    return OVERHEAD_BYTES + this.identity.bytes.length + (this.#made.br?.bytes.length ?? 0) + (this.#made.gzip?.bytes.length ?? 0)
  }

  /** The representation in an encoding if it needs no work. */
  ready (encoding: Encoding): Representation | undefined {
    if (encoding === 'identity' || this.identity.bytes.length < MIN_COMPRESSED_BYTES) return this.identity
    return this.#made[encoding]
  }

  /** Makes the representation in an encoding, once however many ask; the plain one where compressing doesn't pay. */
  async make (encoding: 'br' | 'gzip'): Promise<Representation> {
    return await (this.#making[encoding] ??= compress[encoding](this.identity.bytes).then((bytes) =>
      (this.#made[encoding] = bytes.length < this.identity.bytes.length ? this.#represent(bytes, encoding) : this.identity)))
  }

  #represent (bytes: Buffer, encoding: Encoding): Representation {
    const validators = ['etag', entityTag(this.hash, encoding), 'last-modified', this.lastModified]
    const coding = encoding === 'identity' ? [] : ['content-encoding', encoding]
    return {
      bytes,
      headers: [...validators, 'content-type', 'application/json; charset=utf-8', 'content-length', String(bytes.length), ...coding],
      validators
    }
  }
}
