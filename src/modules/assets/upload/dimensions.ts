import { imageSize } from 'image-size'
import type { Span } from '../storage/file-store.ts'

export interface Dimensions {
  readonly width: number
  readonly height: number
}

/**
 * The number of bytes that are passed to `image-size`, by type. This limits the cost of a hostile file,
 * because `image-size` scans JPEG byte by byte, and HEIF boxes in quadratic time.
 */
const PREFIX_BYTES: Readonly<Record<string, number>> = {
  'image/png': 64,
  'image/apng': 64,
  'image/gif': 64,
  'image/webp': 64,
  'image/bmp': 64,
  'image/vnd.adobe.photoshop': 64,
  'image/jxl': 16 * 1024,
  'image/jp2': 16 * 1024,
  'image/avif': 16 * 1024,
  'image/heic': 16 * 1024,
  'image/heif': 16 * 1024,
  'image/heic-sequence': 16 * 1024,
  'image/heif-sequence': 16 * 1024,
  'image/x-icon': 64 * 1024,
  'image/icns': 64 * 1024,
  'image/jpeg': 1024 * 1024
}
/** A TIFF's directory can be anywhere in the file. Its first bytes contain the tags for the dimensions. */
const TIFF_DIRECTORY_BYTES = 4096
/** Size of the file header that `readDimensions` needs. */
export const HEADER_BYTES = 8
const JPEG_EXIF = 0xffe1
const JPEG_FRAMES: ReadonlySet<number> = new Set([0xffc0, 0xffc1, 0xffc2])
/** With an empty segment, because `image-size` skips the first marker. */
const JPEG_START = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 2])
const JPEG_END = Buffer.from([0xff, 0xd9, 0, 0])
const NOTHING = new Uint8Array()
/** Enough for any camera. A hostile file has 250,000 in its first MiB. */
const MAX_JPEG_SEGMENTS = 1000
const MAX_DIMENSION = 2 ** 31 - 1

/**
 * Returns the part of a file that contains its dimensions; undefined if it is not an image.
 *
 * @param head at least the first `HEADER_BYTES` of the file
 */
export function dimensionsSpan (head: Uint8Array, contentType: string): Span | undefined {
  if (contentType === 'image/tiff') return tiffDirectory(head)
  const length = PREFIX_BYTES[contentType]
  return length === undefined ? undefined : { position: 0, length }
}

/**
 * Returns width and height in pixels with the Exif orientation applied; undefined if they can't be read.
 *
 * @param bytes the part that `dimensionsSpan` returned. Its ArrayBuffer must contain nothing else, because
 *   `image-size` reads past the end of a view
 * @param head the first `HEADER_BYTES` of the file
 */
export function readDimensions (
  bytes: Uint8Array,
  head: Uint8Array,
  contentType: string
): Dimensions | undefined {
  if (dimensionsSpan(head, contentType) === undefined) return undefined
  try {
    const { width, height, orientation = 1 } = imageSize(relevantBytes(contentType, bytes, head))
    if (!isDimension(width) || !isDimension(height)) return undefined
    // Orientations 5 to 8 are rotated by 90 degrees.
    return orientation >= 5 && orientation <= 8 ? { width: height, height: width } : { width, height }
  } catch {
    return undefined // a broken image is still a file
  }
}

const isDimension = (value: number): boolean => Number.isInteger(value) && value > 0 && value <= MAX_DIMENSION

function relevantBytes (contentType: string, bytes: Uint8Array, head: Uint8Array): Uint8Array {
  if (contentType === 'image/tiff') return smallTiff(head, bytes)
  return contentType === 'image/jpeg' ? smallJpeg(bytes) : bytes
}

/** Builds a JPEG that has only what `image-size` reads: the first Exif segment and the frame header. */
function smallJpeg (bytes: Uint8Array): Uint8Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let exif: Uint8Array | undefined
  for (let at = 2, segments = 0; at + 4 <= bytes.length && segments < MAX_JPEG_SEGMENTS; segments++) {
    const marker = view.getUint16(at)
    if (marker < 0xff00) break
    const end = at + 2 + view.getUint16(at + 2)
    if (marker === JPEG_EXIF) exif ??= bytes.subarray(at, end)
    if (JPEG_FRAMES.has(marker)) {
      return Uint8Array.from(Buffer.concat([JPEG_START, exif ?? NOTHING, bytes.subarray(at, end), JPEG_END]))
    }
    at = end
  }
  return NOTHING
}

function tiffDirectory (head: Uint8Array): Span | undefined {
  if (head.length < HEADER_BYTES) return undefined
  const header = Buffer.from(head.subarray(0, HEADER_BYTES))
  return {
    position: isLittleEndian(header) ? header.readUInt32LE(4) : header.readUInt32BE(4),
    length: TIFF_DIRECTORY_BYTES
  }
}

/** Builds a TIFF in which the directory follows the header. */
function smallTiff (head: Uint8Array, directory: Uint8Array): Uint8Array {
  const header = Buffer.from(head.subarray(0, HEADER_BYTES))
  if (isLittleEndian(header)) header.writeUInt32LE(HEADER_BYTES, 4)
  else header.writeUInt32BE(HEADER_BYTES, 4)
  return new Uint8Array(Buffer.concat([header, directory]))
}

const isLittleEndian = (header: Uint8Array): boolean => header[0] === 0x49
