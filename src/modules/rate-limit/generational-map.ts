/**
 * A bounded map whose entries expire without timers. New entries go to the young one of two generations.
 * When the young generation is `lifetimeMs` old or has `maxEntries / 2` entries, it replaces the old one. So
 * an entry lives for `lifetimeMs` to twice as long, or less if the map is full.
 */
export class GenerationalMap<Value> {
  readonly #lifetimeMs: number
  readonly #maxEntries: number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  #nextTurnAt = 0

  constructor (lifetimeMs: number, maxEntries: number) {
    this.#lifetimeMs = lifetimeMs
    this.#maxEntries = maxEntries
  }

  get (key: string): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  /** @param now the process clock, in milliseconds */
  set (key: string, value: Value, now: number): void {
    if (now >= this.#nextTurnAt || this.#young.size >= this.#maxEntries / 2) {
      this.#old = this.#young
      this.#young = new Map()
      this.#nextTurnAt = now + this.#lifetimeMs
    }
    this.#young.set(key, value)
  }

  delete (key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  /** The number of entries in both generations. A key that is in both counts twice. */
  get size (): number {
    return this.#young.size + this.#old.size
  }

  *entries (): Generator<[key: string, value: Value]> {
    for (const entry of this.#old) if (!this.#young.has(entry[0])) yield entry
    yield* this.#young
  }
}
