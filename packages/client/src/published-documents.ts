import { DocumentCache, type CachedText, type CacheOptions } from './document-cache.ts'
import { createError, LandfallError } from './errors.ts'
import type { Api, CallOptions } from './responses.ts'
import { abortable } from './retry.ts'
import type { SendRequest } from './transport.ts'

export interface PublicDocument<Document = unknown> {
  readonly document: Document
  /** The document exactly as it was sent. */
  readonly text: string
  readonly etag: string
  /** Whether this is a cached document: the service answered 304, was not asked, or failed. */
  readonly notModified: boolean
  /** Whether the document may be out of date, because the service did not answer or refused the read. */
  readonly stale: boolean
}

type ReadText = Omit<PublicDocument, 'document'>

/** Reads published documents through a cache. */
export class PublishedDocuments {
  readonly #api: Api
  readonly #sendOnce: SendRequest
  readonly #cache: DocumentCache
  readonly #maxAgeMs: number
  readonly #staleIfError: boolean
  /** Reads under way, shared by callers while documents have a `maxAgeSeconds`. */
  readonly #pending = new Map<string, Promise<ReadText>>()

  /** @param sendOnce sends a request without retries */
  constructor (api: Api, sendOnce: SendRequest, options: CacheOptions = {}) {
    this.#api = api
    this.#sendOnce = sendOnce
    this.#cache = new DocumentCache(options)
    this.#maxAgeMs = (options.maxAgeSeconds ?? 0) * 1000
    this.#staleIfError = options.staleIfError ?? true
  }

  /** @throws {LandfallError} when the service answered with an error, and no document may be used instead */
  async read<Document> (publicId: string, { signal }: CallOptions = {}): Promise<PublicDocument<Document>> {
    signal?.throwIfAborted()
    const read = this.#maxAgeMs > 0
      ? await abortable(this.#share(publicId), signal)
      : await this.#ask(publicId, signal)
    // Each caller gets its own object, so that a change by one caller doesn't affect another.
    return { ...read, document: JSON.parse(read.text) as Document }
  }

  async #share (publicId: string): Promise<ReadText> {
    const known = this.#cache.get(publicId)
    if (known !== undefined && performance.now() - known.askedMs < this.#maxAgeMs) {
      return { text: known.text, etag: known.etag, notModified: true, stale: false }
    }
    const pending = this.#pending.get(publicId)
    if (pending !== undefined) return await pending
    const asked = this.#ask(publicId).finally(() => this.#pending.delete(publicId))
    this.#pending.set(publicId, asked)
    return await asked
  }

  async #ask (publicId: string, signal?: AbortSignal): Promise<ReadText> {
    const known = this.#cache.get(publicId)
    try {
      return await this.#request(publicId, known, signal)
    } catch (error) {
      if (known === undefined || !this.#staleIfError || signal?.aborted === true || !isOutage(error)) {
        throw error
      }
      return { text: known.text, etag: known.etag, notModified: true, stale: true }
    }
  }

  async #request (publicId: string, known: CachedText | undefined, signal?: AbortSignal): Promise<ReadText> {
    const askedMs = performance.now()
    const { data, error, response } = await this.#api.GET('/landing_pages/{public_id}', {
      params: { path: { public_id: publicId } },
      headers: { 'if-none-match': known?.etag },
      parseAs: 'text',
      signal,
      ...(known !== undefined && this.#staleIfError && { fetch: this.#sendOnce })
    })
    const notModified = response.status === 304 && known !== undefined
    if (!response.ok && !notModified) {
      if (response.status === 404) this.#cache.delete(publicId)
      throw createError(response, error)
    }
    const text = notModified ? known.text : data as string
    const etag = notModified ? known.etag : response.headers.get('etag') ?? ''
    if (etag !== '') this.#cache.set(publicId, { text, etag, askedMs })
    return { text, etag, notModified, stale: false }
  }
}

/** Whether a document may be used although the service did not confirm it: no response, a 429 or a 5xx. */
const isOutage = (error: unknown): boolean =>
  error instanceof LandfallError ? error.status === 429 || error.status >= 500 : error instanceof TypeError
