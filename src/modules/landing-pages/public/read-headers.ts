import type { Config } from '../../../config.ts'
import { DATA_HEADERS, DOCUMENT_CORS_HEADERS, JSON_CONTENT_TYPE,
  transportSecurity } from '../../../http/common-headers.ts'
import { headerLines } from './prepared-head.ts'

type Headers = readonly (readonly [name: string, value: string])[]

/** The header lines that are the same for every public read, formatted once. */
export class ReadHeaders {
  readonly cors: Headers = Object.entries(DOCUMENT_CORS_HEADERS)
  /** For a document from memory. */
  readonly hit: string
  /** For a document from Redis or PostgreSQL. */
  readonly loaded: string
  /** For a 404 or 429. */
  readonly refusal: string
  readonly #document: Headers

  constructor (config: Config) {
    const safety: Headers = [
      ['x-content-type-options', DATA_HEADERS['x-content-type-options']],
      ...transportSecurity(config)
    ]
    this.#document = [
      ...this.cors,
      ['cache-control', config.PUBLIC_CACHE_CONTROL],
      ['vary', 'Accept-Encoding'],
      ['cross-origin-resource-policy', 'cross-origin'],
      ...safety
    ]
    this.hit = headerLines(...this.#document, ['cache-status', 'landfall; hit'])
    this.loaded = headerLines(...this.#document, ['cache-status', 'landfall; fwd=miss'])
    this.refusal = headerLines(...this.cors, ...safety, ['cache-control', 'no-store'], [
      'content-type',
      JSON_CONTENT_TYPE
    ])
  }

  /** For an expired document from memory that was last known to be current `ageMs` milliseconds ago. */
  stale (ageMs: number): string {
    return headerLines(...this.#document, ['age', String(Math.floor(ageMs / 1000))], [
      'cache-status',
      'landfall; hit; detail=stale'
    ])
  }
}
