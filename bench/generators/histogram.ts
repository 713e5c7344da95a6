const BUCKET_MS = 0.02
const LARGEST_MS = 10_000

/** Counts times of up to ten seconds in buckets of 20 µs. */
export class Histogram {
  readonly #buckets = new Uint32Array(LARGEST_MS / BUCKET_MS + 1)
  #count = 0
  /** The longest time, in milliseconds. */
  max = 0

  add (ms: number): void {
    const bucket = Math.min(this.#buckets.length - 1, Math.floor(ms / BUCKET_MS))
    this.#buckets[bucket] = (this.#buckets[bucket] as number) + 1
    this.#count++
    if (ms > this.max) this.max = ms
  }

  /** Returns the time that a share of all times doesn't exceed, in milliseconds; 0 without times. */
  percentile (share: number): number {
    let left = share * this.#count
    const bucket = this.#buckets.findIndex((count) => (left -= count) <= 0)
    return this.#count === 0 ? 0 : (bucket + 0.5) * BUCKET_MS
  }
}
