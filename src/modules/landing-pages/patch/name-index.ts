import { randomBytes } from 'node:crypto'

// Finds members of an object by their names. A Map would do, but for a large object it needs one large piece
// of the heap, and when the heap of a worker thread has no room for such a piece, Node ends the process.

const BACKSLASH = 0x5c

/** The position of a name that an object has more than once. */
export const DUPLICATE = -2
/** The position of a name that an object doesn't have. */
export const MISSING = -1

/** A secret, so that nobody can prepare names with the same hash. */
const SEED = randomBytes(4).readInt32LE()

/** Where the names of an object stand in a text, without their quotes. */
export interface Names {
  readonly bytes: Buffer
  readonly count: number
  nameStart(position: number): number
  nameEnd(position: number): number
}

/** A hash table with open addressing. */
export class NameIndex {
  readonly #names: Names
  /** A position plus 1, or 0 for an empty slot. */
  readonly #slots: Int32Array
  readonly #mask: number
  /** The hash of the name at each position. */
  readonly #hashes: Int32Array
  /** 1 for the first of several equal names. */
  readonly #isDuplicate: Uint8Array
  /** The first name that occurs more than once; undefined if there is none. */
  readonly firstDuplicate: string | undefined

  constructor (names: Names) {
    const { count } = names
    const size = 2 ** Math.ceil(Math.log2(2 * count + 2))
    this.#names = names
    this.#slots = new Int32Array(size)
    this.#mask = size - 1
    this.#hashes = new Int32Array(count)
    this.#isDuplicate = new Uint8Array(count)
    let duplicate: number | undefined
    for (let position = 0; position < count; position++) {
      const first = this.#insert(position)
      if (first === position) continue
      this.#isDuplicate[first] = 1
      duplicate ??= position
    }
    this.firstDuplicate = duplicate === undefined ? undefined : this.#decode(duplicate)
  }

  /** @returns a position, MISSING or DUPLICATE */
  positionOf (name: string): number {
    const bytes = Buffer.from(name)
    const hash = hashOf(bytes, 0, bytes.length)
    for (let slot = hash & this.#mask;; slot = (slot + 1) & this.#mask) {
      const position = this.#slots[slot] as number - 1
      if (position === -1) return MISSING
      if (this.#hashes[position] === hash && this.#decode(position) === name) {
        return this.#isDuplicate[position] === 1 ? DUPLICATE : position
      }
    }
  }

  /** @returns the first position with the same name */
  #insert (position: number): number {
    const hash = this.#hash(position)
    this.#hashes[position] = hash
    for (let slot = hash & this.#mask;; slot = (slot + 1) & this.#mask) {
      const other = this.#slots[slot] as number - 1
      if (other === -1) {
        this.#slots[slot] = position + 1
        return position
      }
      if (this.#hashes[other] === hash && this.#decode(other) === this.#decode(position)) return other
    }
  }

  /** Equal names have the same hash, however they are written. */
  #hash (position: number): number {
    const { bytes } = this.#names
    const start = this.#names.nameStart(position)
    const end = this.#names.nameEnd(position)
    for (let at = start; at < end; at++) {
      if (bytes[at] !== BACKSLASH) continue
      const decoded = Buffer.from(this.#decode(position))
      return hashOf(decoded, 0, decoded.length)
    }
    return hashOf(bytes, start, end)
  }

  #decode (position: number): string {
    return decodeString(this.#names.bytes, this.#names.nameStart(position), this.#names.nameEnd(position))
  }
}

/** Decodes a JSON string, which is given without its quotes. */
export function decodeString (bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start, end)
  return text.includes('\\') ? JSON.parse(`"${text}"`) : text
}

/** FNV-1a, with a seed. */
function hashOf (bytes: Buffer, start: number, end: number): number {
  let hash = SEED
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at] as number, 0x01000193)
  return hash ^ (hash >>> 15)
}
