import { EXIF_PREFIX, isTurnedByExif } from './exif.ts'
import { upright, type Dimensions } from './upright.ts'

const EXIF = 0xe1
/** Baseline, extended and progressive. Browsers don't decode other kinds. */
const FRAMES: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2])
/** Precision, height and width. */
const FRAME_BYTES = 5
/** Enough for any camera, and for 60 MB before the frame. A hostile file has millions. */
const MAX_SEGMENTS = 1000

/** The part of a file that a parser needs next: `take` bytes after those that it skips. */
interface Need {
  readonly skip: number
  readonly take: number
}

/**
 * Finds the dimensions of an upright JPEG while the file arrives, because some phones write megabytes of
 * depth maps before them. Holds one segment in memory, at most 64 KiB.
 */
export class JpegDimensionsReader {
  /** Undefined until they are found. Stays undefined if the file is not a valid JPEG. */
  dimensions: Dimensions | undefined
  readonly #parser = parse()
  #skip = 0
  #taken: Buffer = Buffer.alloc(0)
  #filled = 0
  #isDone = false

  constructor () {
    this.#continue(this.#parser.next())
  }

  /** Reads chunks of a file, and passes them on. */
  async *observe (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      this.read(chunk)
      yield chunk
    }
  }

  read (chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length && !this.#isDone;) {
      const skipped = Math.min(this.#skip, chunk.length - at)
      this.#skip -= skipped
      at += skipped
      const part = chunk.subarray(at, at + this.#taken.length - this.#filled)
      this.#taken.set(part, this.#filled)
      this.#filled += part.length
      at += part.length
      if (this.#filled === this.#taken.length) this.#continue(this.#parser.next(this.#taken))
    }
  }

  #continue ({ done, value }: IteratorResult<Need, Dimensions | undefined>): void {
    if (done === true) {
      this.#isDone = true
      this.dimensions = value
    } else {
      this.#skip = value.skip
      this.#taken = Buffer.alloc(value.take)
      this.#filled = 0
    }
  }
}

/** Parses a JPEG. Yields what it needs, and gets the bytes. */
function* parse (): Generator<Need, Dimensions | undefined, Buffer> {
  let isTurned: boolean | undefined
  const [start, image] = yield { skip: 0, take: 2 }
  if (start !== 0xff || image !== 0xd8) return undefined
  for (let segments = 0, skip = 0; segments < MAX_SEGMENTS; segments++) {
    const [first, second = 0] = yield { skip, take: 2 }
    if (first !== 0xff) return undefined
    let marker = second
    for (; marker === 0xff && segments < MAX_SEGMENTS; segments++) { // fill bytes
      marker = (yield { skip: 0, take: 1 }).readUInt8()
    }
    const length = (yield { skip: 0, take: 2 }).readUInt16BE() - 2
    if (length < 0) return undefined
    const wanted = marker === EXIF ? length : FRAMES.has(marker) ? FRAME_BYTES : 0
    const content = wanted === 0 ? undefined : yield { skip: 0, take: wanted }
    skip = length - wanted
    if (content === undefined) continue
    if (marker !== EXIF) {
      const [height, width] = [content.readUInt16BE(1), content.readUInt16BE(3)]
      return width > 0 && height > 0 ? upright({ width, height }, isTurned === true) : undefined
    }
    // XMP has the same marker as Exif.
    if (content.toString('latin1', 0, EXIF_PREFIX.length) === EXIF_PREFIX) {
      isTurned ??= isTurnedByExif(content)
    }
  }
  return undefined
}
