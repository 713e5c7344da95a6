import { EXIF_PREFIX, isRotatedByExif, orient, type Dimensions } from './orientation.ts'

const START_OF_IMAGE = 0xffd8
const EXIF = 0xe1
/** Baseline, extended and progressive. Browsers don't decode other kinds. */
const FRAMES: ReadonlySet<number> = new Set([0xc0, 0xc1, 0xc2])
/** Precision, height and width. */
const FRAME_BYTES = 5
/** A marker, and a length and content in at most 64 KiB. */
const MAX_SEGMENT_BYTES = 2 + 0xffff
/** Some phones write megabytes of depth maps before the dimensions. */
const MAX_SEARCHED_BYTES = 32 * 1024 * 1024
/** Small, because the segments of a part are read without a pause, and a hostile file has many. */
const PART_BYTES = 256 * 1024

/**
 * Finds the dimensions of a JPEG, with its orientation applied; undefined if it is not valid. Any
 * number of segments is read, because the smallest ones take less than 0.1 microseconds each.
 *
 * @param head the start of the file
 * @param isWhole whether that is all of it
 * @param readPart reads another part of the file, which may be shorter or empty
 * @throws the error of `readPart`
 */
export async function jpegDimensions (
  head: Buffer,
  isWhole: boolean,
  readPart: (position: number, length: number) => Promise<Buffer>
): Promise<Dimensions | undefined> {
  let part = head
  let isLast = isWhole
  let isRotated: boolean | undefined
  if (head.readUInt16BE(0) !== START_OF_IMAGE) return undefined
  for (let position = 0, at = 2; position + at < MAX_SEARCHED_BYTES;) {
    if (at + MAX_SEGMENT_BYTES > part.length && !isLast) {
      position += at
      at = 0
      part = await readPart(position, PART_BYTES)
      isLast = part.length < PART_BYTES
    }
    if (at + 4 > part.length || part[at] !== 0xff) return undefined
    const marker = part[at + 1] as number
    if (marker === 0xff) { // a fill byte
      at++
      continue
    }
    const end = at + 2 + part.readUInt16BE(at + 2)
    const content = part.subarray(at + 4, end)
    if (end < at + 4) return undefined
    if (FRAMES.has(marker)) {
      if (content.length < FRAME_BYTES) return undefined
      const [height, width] = [content.readUInt16BE(1), content.readUInt16BE(3)]
      return orient({ width, height }, isRotated === true)
    }
    // XMP has the same marker.
    if (marker === EXIF && content.toString('latin1', 0, EXIF_PREFIX.length) === EXIF_PREFIX) {
      isRotated ??= isRotatedByExif(content)
    }
    at = end
  }
  return undefined
}
