export interface CacheOptions {
  /** The largest number of documents. Default 100; 0 turns the cache off. */
  readonly maxEntries?: number
  /** The largest total length of the documents, in characters. Default 5,000,000. */
  readonly maxCharacters?: number
  /** How long a document is used without asking the service, in seconds. Default 0. */
  readonly maxAgeSeconds?: number
  /** Whether a read uses the cached document when there is no response, a 429 or a 5xx. Default true. */
  readonly staleIfError?: boolean
}

export interface CachedText {
  readonly etag: string
  readonly text: string
  /** When the service was last asked for it, in milliseconds of `performance.now()`. */
  readonly askedMs: number
}

/** A bounded cache of texts with their entity tags. It evicts the least recently used entry first. */
export class DocumentCache {
  readonly #maxEntries: number
  readonly #maxCharacters: number
  /** The least recently used entry comes first. */
  readonly #entries = new Map<string, CachedText>()
  #characters = 0

  constructor ({ maxEntries = 100, maxCharacters = 5_000_000 }: CacheOptions = {}) {
    this.#maxEntries = maxEntries
    this.#maxCharacters = maxCharacters
  }

  get (key: string): CachedText | undefined {
    const entry = this.#entries.get(key)
    if (entry !== undefined) {
      this.#entries.delete(key)
      this.#entries.set(key, entry)
    }
    return entry
  }

  set (key: string, entry: CachedText): void {
    this.delete(key)
    if (entry.text.length > this.#maxCharacters) return
    this.#entries.set(key, entry)
    this.#characters += entry.text.length
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries && this.#characters <= this.#maxCharacters) break
      this.delete(oldest)
    }
  }

  delete (key: string): void {
    this.#characters -= this.#entries.get(key)?.text.length ?? 0
    this.#entries.delete(key)
  }
}
