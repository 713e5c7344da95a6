import { isTurnedByExif } from './exif.ts'
import { upright, type Dimensions } from './upright.ts'

const EXIF = 0xe1
const EXIF_PREFIX = 'Exif\0\0'
/** Baseline, extended and progressive. Browsers don't decode other kinds. */
const FRAMES: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2])
/** Enough for any camera. A hostile file has 250,000 in its first MiB. */
const MAX_SEGMENTS = 1000

/**
 * Returns the dimensions of an upright JPEG; undefined if they can't be read.
 *
 * @param jpeg the start of the file
 */
export function jpegDimensions (jpeg: Buffer): Dimensions | undefined {
  let isTurned: boolean | undefined
  for (let at = 2, segments = 0; at + 4 <= jpeg.length && segments < MAX_SEGMENTS; segments++) {
    if (jpeg[at] !== 0xff) return undefined
    const marker = jpeg[at + 1] ?? 0
    if (marker === 0xff) {
      at++ // a fill byte
      continue
    }
    const end = at + 2 + jpeg.readUInt16BE(at + 2)
    // XMP has the same marker as Exif.
    if (marker === EXIF && jpeg.toString('latin1', at + 4, at + 10) === EXIF_PREFIX) {
      isTurned ??= isTurnedByExif(jpeg.subarray(at + 4, end))
    }
    if (FRAMES.has(marker) && at + 9 <= jpeg.length) {
      const [height, width] = [jpeg.readUInt16BE(at + 5), jpeg.readUInt16BE(at + 7)]
      return upright({ width, height }, isTurned === true)
    }
    at = end
  }
  return undefined
}
