import { randomFillSync } from 'node:crypto'
import type { Count } from './counters.ts'

// A Map of objects takes 0.6 KB for each client; a slot of this table takes 20 bytes.

/** Words of a slot: a hash of 64 bits, the start of the window, the reads in it and in the previous one. */
const HASH_LOW = 0
const HASH_HIGH = 1
const START = 2
const USED = 3
const CARRIED = 4
const SLOT_WORDS = 5
/** HASH_LOW of a slot that was never used. */
const UNUSED = 0
const NO_SLOT = -1

/** The table grows in segments, because to copy all of it at once would stop the process for 0.1 s. */
export const SEGMENTS = 256
const MIN_SLOTS = 16
/** Together 1.5 million clients in 42 MB. */
const MAX_SLOTS = 8192
/** How full a segment gets before it is copied. A fuller copy than MAX_COPIED loses its older half. */
const MAX_FULL = 0.75
const MAX_COPIED = 0.625

/** What this process has counted for a client. Times are in milliseconds of the process clock. */
export interface ClientWindow {
  /** Reads in the open window; 0 if none is open. */
  readonly used: number
  /** When the open window ends. */
  readonly resetAt: number
  /** A time at which the previous window had ended; undefined without one in the last window's length. */
  readonly previousEnd: number | undefined
}

interface Segment {
  words: Uint32Array
  /** Slots that were ever used. Lookups stop at the first slot that was not. */
  filled: number
}

const segmentOf = (slots: number): Segment => ({ words: new Uint32Array(slots * SLOT_WORDS), filled: 0 })

/**
 * Fixed windows of very many clients, counted in this process. A client is remembered for two windows. A full
 * table forgets the oldest windows; such a client starts again, so it is never refused too early.
 */
export class ClientTable {
  readonly #windowMs: number
  readonly #segments = Array.from({ length: SEGMENTS }, () => segmentOf(MIN_SLOTS))
  /** Secret, so that nobody can choose addresses that share slots. */
  readonly seeds: Uint32Array

  /**
   * @param windowMs length of a window from its first read, in milliseconds
   * @param seeds those of a table whose packed parts will be loaded
   */
  constructor (windowMs: number, seeds = randomFillSync(new Uint32Array(2))) {
    this.#windowMs = windowMs
    this.seeds = seeds
  }

  /**
   * Counts one read, unless the client has no reads left.
   *
   * @param allowance reads that this process may allow in a window
   * @param carries whether the previous window's reads count, too; then no period as long as a window has
   *   more than `allowance` reads
   * @returns undefined if the read is not allowed; then it is not counted
   */
  take (key: string, allowance: number, carries: boolean, now: number): Count | undefined {
    const segment = this.#locate(key)
    let slot = this.#find(segment)
    const age = slot === NO_SLOT ? Infinity : ageAt(segment.words, slot, now)
    if (age >= this.#windowMs) {
      if (allowance <= 0) return undefined
      if (slot === NO_SLOT) slot = this.#insert(segment, now)
      const { words } = segment
      words[slot + CARRIED] = age < 2 * this.#windowMs ? words[slot + USED] as number : 0
      words[slot + START] = now >>> 0
      words[slot + USED] = 0
    }
    const { words } = segment
    const used = words[slot + USED] as number
    if (used + (carries ? words[slot + CARRIED] as number : 0) >= allowance) return undefined
    words[slot + USED] = used + 1
    return { allowed: true, used: used + 1, resetAt: now - ageAt(segment.words, slot, now) + this.#windowMs }
  }

  /** Returns what is counted for a client; undefined if the client was silent for as long as a window. */
  find (key: string, now: number): ClientWindow | undefined {
    const { words } = this.#locate(key)
    const slot = this.#find({ words })
    return slot === NO_SLOT ? undefined : windowAt(words, slot, ageAt(words, slot, now), this.#windowMs, now)
  }

  /**
   * Yields the counts of the clients of the last two windows, for another process: for each segment its parts
   * by number, with the words of each client, in which an age stands for START.
   *
   * @param partCount the number of parts: a multiple of SEGMENTS, so that each has clients of one segment. If
   *   they are equal, there are also parts without clients
   * @param now the time of which the ages are
   */
  *pack (partCount: number, now: number): Generator<Map<number, number[]>> {
    for (const [index, { words }] of this.#segments.entries()) {
      const parts = new Map<number, number[]>(partCount === SEGMENTS ? [[index, []]] : [])
      for (let slot = 0; slot < words.length; slot += SLOT_WORDS) {
        const age = ageAt(words, slot, now)
        if (words[slot + HASH_LOW] === UNUSED || words[slot + USED] === 0 || age >= 2 * this.#windowMs) {
          continue
        }
        const number = (words[slot + HASH_HIGH] as number) % partCount
        const part = parts.get(number) ?? []
        const first = part.push(...words.subarray(slot, slot + SLOT_WORDS)) - SLOT_WORDS
        part[first + START] = Math.max(0, age)
        parts.set(number, part)
      }
      yield parts
    }
  }

  /**
   * Adds the clients of a packed part of a table with the same seeds. A part may be loaded more than once.
   *
   * @param packedAt the time of which the ages are, in milliseconds of the process clock
   */
  load (part: Uint32Array, packedAt: number, now: number): void {
    for (let at = 0; at < part.length; at += SLOT_WORDS) {
      const start = packedAt - (part[at + START] as number)
      located.low = part[at + HASH_LOW] as number
      located.high = part[at + HASH_HIGH] as number
      const segment = this.#segments[located.high % SEGMENTS] as Segment
      if (now - start >= 2 * this.#windowMs || this.#find(segment) !== NO_SLOT) continue
      const slot = this.#insert(segment, now)
      segment.words[slot + START] = start >>> 0
      segment.words[slot + USED] = part[at + USED] as number
      segment.words[slot + CARRIED] = part[at + CARRIED] as number
    }
  }

  /** Forgets the reads of a client, because they are counted elsewhere from now on. */
  clear (key: string): void {
    const segment = this.#locate(key)
    const slot = this.#find(segment)
    if (slot !== NO_SLOT) segment.words[slot + USED] = segment.words[slot + CARRIED] = 0
  }

  /** The number of clients in the table. Windows that have ended count until their room is needed. */
  get size (): number {
    return this.#segments.reduce((sum, { filled }) => sum + filled, 0)
  }

  /** Memory of the table in bytes. */
  get bytes (): number {
    return this.#segments.reduce((sum, { words }) => sum + words.byteLength, 0)
  }

  /** Hashes a key and returns its segment. */
  #locate (key: string): Segment {
    hashKey(key, this.seeds)
    return this.#segments[located.high % SEGMENTS] as Segment
  }

  /** Returns the slot of the located key, or NO_SLOT. */
  #find ({ words }: Pick<Segment, 'words'>): number {
    const mask = words.length / SLOT_WORDS - 1
    for (let index = located.low & mask;; index = (index + 1) & mask) {
      const slot = index * SLOT_WORDS
      const low = words[slot + HASH_LOW]
      if (low === UNUSED) return NO_SLOT
      if (low === located.low && words[slot + HASH_HIGH] === located.high) return slot
    }
  }

  #insert (segment: Segment, now: number): number {
    if (segment.filled >= segment.words.length / SLOT_WORDS * MAX_FULL) this.#makeRoom(segment, now)
    return put(segment, located.low, located.high)
  }

  /** Copies a segment without the windows that no longer matter, into twice the slots if it is still full. */
  #makeRoom (segment: Segment, now: number): void {
    const old = segment.words
    const ages: number[] = []
    for (let slot = 0; slot < old.length; slot += SLOT_WORDS) {
      if (old[slot + HASH_LOW] === UNUSED) continue
      const age = ageAt(old, slot, now)
      if (age < 2 * this.#windowMs) ages.push(age)
    }
    const slots = slotsFor(ages.length)
    const oldest = ages.length > slots * MAX_COPIED ? median(ages) : 2 * this.#windowMs
    const { words } = Object.assign(segment, segmentOf(slots))
    for (let slot = 0; slot < old.length; slot += SLOT_WORDS) {
      const low = old[slot + HASH_LOW] as number
      if (low === UNUSED || ageAt(old, slot, now) >= oldest) continue
      const copy = put(segment, low, old[slot + HASH_HIGH] as number)
      for (let word = START; word < SLOT_WORDS; word++) words[copy + word] = old[slot + word] as number
    }
  }
}

/** The hash of the key that was looked up last. */
const located = { low: 0, high: 0 }

/** Hashes a key into `located` (cyrb53 by bryc, public domain, 64 bits). */
function hashKey (key: string, seeds: Uint32Array): void {
  let low = seeds[0] as number
  let high = seeds[1] as number
  for (let index = 0; index < key.length; index++) {
    const code = key.charCodeAt(index)
    low = Math.imul(low ^ code, 2654435761)
    high = Math.imul(high ^ code, 1597334677)
  }
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909)
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909)
  located.low = low >>> 0 || UNUSED + 1 // no hash may look like an unused slot
  located.high = high >>> 0
}

/** Returns the number of the part of a packed table that has a client. */
export function packedPartOf (key: string, seeds: Uint32Array, partCount: number): number {
  hashKey(key, seeds)
  return located.high % partCount
}

/**
 * Returns what a packed table has for a client, as `find()` does.
 *
 * @param part the words of the part with the number that `packedPartOf()` returns
 * @param elapsedMs time since the table was packed
 */
export function findPacked (
  key: string,
  seeds: Uint32Array,
  part: Uint32Array,
  { elapsedMs, windowMs, now }: { elapsedMs: number, windowMs: number, now: number }
): ClientWindow | undefined {
  hashKey(key, seeds)
  for (let slot = 0; slot < part.length; slot += SLOT_WORDS) {
    if (part[slot + HASH_LOW] !== located.low || part[slot + HASH_HIGH] !== located.high) continue
    return windowAt(part, slot, part[slot + START] as number + elapsedMs, windowMs, now)
  }
  return undefined
}

/** Describes the window in a slot whose start is `age` milliseconds ago. */
function windowAt (
  words: Uint32Array,
  slot: number,
  age: number,
  windowMs: number,
  now: number
): ClientWindow | undefined {
  if (age >= 2 * windowMs) return undefined
  const used = words[slot + USED] as number
  const startedAt = now - age
  const resetAt = startedAt + windowMs
  if (age >= windowMs) return used === 0 ? undefined : { used: 0, resetAt, previousEnd: resetAt }
  return { used, resetAt, previousEnd: words[slot + CARRIED] === 0 ? undefined : startedAt }
}

const ageAt = (words: Uint32Array, slot: number, now: number): number =>
  // In 32 bits with a sign: right for 24 days, and a clock that is set back gives a negative age.
  ((now >>> 0) - (words[slot + START] as number)) | 0

/** Takes the first unused slot for a hash that is not in the segment. */
function put (segment: Segment, low: number, high: number): number {
  const { words } = segment
  const mask = words.length / SLOT_WORDS - 1
  let index = low & mask
  while (words[index * SLOT_WORDS + HASH_LOW] !== UNUSED) index = (index + 1) & mask
  segment.filled++
  const slot = index * SLOT_WORDS
  words[slot + HASH_LOW] = low
  words[slot + HASH_HIGH] = high
  return slot
}

/** Returns a power of two that is at least twice as large, up to the maximum. */
function slotsFor (clients: number): number {
  let slots = MIN_SLOTS
  while (slots < MAX_SLOTS && slots < 2 * clients) slots *= 2
  return slots
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1] as number
