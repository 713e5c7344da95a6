import { EXIF_PREFIX, isRotatedByExif, orient, type Dimensions } from './orientation.ts'

const START_OF_IMAGE = 0xffd8
const EXIF = 0xe1
/** Baseline, extended and progressive. Browsers don't decode other kinds. */
const FRAMES: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2])
/** Marker and length of a segment. */
const HEADER_BYTES = 4
/** Precision, height and width. */
const FRAME_BYTES = 5
const NOTHING = Buffer.alloc(0)

/**
 * Finds the dimensions of a JPEG that has no orientation while the file arrives, because some phones write
 * megabytes of depth maps before them. Holds the Exif segment in memory until it is complete, at most 64 KiB.
 * The number of segments isn't limited, because the smallest ones take less than 0.1 microseconds each.
 */
export class JpegDimensionsReader {
  /** Undefined until they are found. Stays undefined if the file is not a valid JPEG. */
  dimensions: Dimensions | undefined
  /** What has arrived of a segment that is needed as a whole. */
  #rest: Buffer = NOTHING
  /** Bytes to skip before the next segment. */
  #skip = 0
  #hasStart = false
  /** Undefined until there was Exif data. */
  #isRotated: boolean | undefined
  #isDone = false

  /** Reads chunks of a file, and passes them on. */
  async *observe (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      this.read(chunk)
      yield chunk
    }
  }

  read (chunk: Uint8Array): void {
    if (this.#isDone) return
    const bytes = Buffer.concat([this.#rest, chunk])
    let at = this.#skip
    for (let end: number | undefined = at; end !== undefined && !this.#isDone;) {
      at = end
      end = this.#readSegment(bytes, at)
    }
    this.#rest = Buffer.from(bytes.subarray(at))
    this.#skip = Math.max(0, at - bytes.length)
  }

  /** @returns where it ends; undefined if more bytes are needed */
  #readSegment (bytes: Buffer, at: number): number | undefined {
    if (at + HEADER_BYTES > bytes.length) return undefined
    if (!this.#hasStart) {
      this.#hasStart = true
      this.#isDone = bytes.readUInt16BE(at) !== START_OF_IMAGE
      return at + 2
    }
    const marker = bytes[at + 1] as number
    if (bytes[at] === 0xff && marker === 0xff) return at + 1 // a fill byte
    const content = at + HEADER_BYTES
    const end = at + 2 + bytes.readUInt16BE(at + 2)
    this.#isDone = bytes[at] !== 0xff || end < content
    if (FRAMES.has(marker)) {
      if (content + FRAME_BYTES > bytes.length) return undefined
      this.#readFrame(bytes.subarray(content))
    } else if (marker === EXIF && this.#isRotated === undefined) {
      // XMP has the same marker.
      const prefix = bytes.toString('latin1', content, Math.min(end, content + EXIF_PREFIX.length))
      if (EXIF_PREFIX.startsWith(prefix) && end > bytes.length) return undefined
      if (prefix === EXIF_PREFIX) this.#isRotated = isRotatedByExif(bytes.subarray(content, end))
    }
    return end
  }

  #readFrame (content: Buffer): void {
    const [height, width] = [content.readUInt16BE(1), content.readUInt16BE(3)]
    if (!this.#isDone && width > 0 && height > 0) {
      this.dimensions = orient({ width, height }, this.#isRotated === true)
    }
    this.#isDone = true
  }
}
