export interface CacheOptions {
  /** Documents that are kept at most. Default 100; 0 keeps none. */
  readonly maxEntries?: number
  /** Length of all kept documents at most, in characters. Default 5,000,000. */
  readonly maxCharacters?: number
}

export interface CachedText {
  readonly etag: string
  readonly text: string
}

/** Texts with their entity tags; the one that was not used for longest goes first. */
export class EtagCache {
  readonly #maxEntries: number
  readonly #maxCharacters: number
  /** In the order of use. */
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
