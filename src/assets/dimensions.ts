import { imageSize } from 'image-size'
import type { Span } from './file-store.ts'

export interface Dimensions {
  readonly width: number
  readonly height: number
}

/**
 * Types whose size `image-size` can read, with the most bytes it is given of one. It searches JPEG bytewise and the boxes
 * of HEIF in quadratic time, so that these numbers bound what a hostile file costs. SVG has no size in pixels.
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
/** A TIFF's directory may stand anywhere in the file; this many of its bytes hold every tag that counts. */
const TIFF_DIRECTORY_BYTES = 4096
/** Of the head of a file, what has to be kept until its dimensions are read. */
export const HEADER_BYTES = 8
const MAX_DIMENSION = 2 ** 31 - 1

/**
 * Where in a file of this type its dimensions stand.
 *
 * @param head at least its first `HEADER_BYTES`
 * @returns undefined where the file is no image
 */
export function spanOfDimensions (head: Uint8Array, contentType: string): Span | undefined {
  if (contentType === 'image/tiff') return tiffDirectory(head)
  const length = PREFIX_BYTES[contentType]
  return length === undefined ? undefined : { position: 0, length }
}

/**
 * Width and height of an image in pixels, as it is shown (Exif orientation applied).
 *
 * @param bytes those that `spanOfDimensions` wanted, as many as there are; in memory of their own, as `image-size` looks at
 * the memory behind a view as well
 * @param head the first `HEADER_BYTES` of the file
 * @returns undefined where the file is no image, or its size can't be read
 */
export function dimensionsIn (bytes: Uint8Array, head: Uint8Array, contentType: string): Dimensions | undefined {
  if (spanOfDimensions(head, contentType) === undefined) return undefined
  try {
    const { width, height, orientation = 1 } = imageSize(contentType === 'image/tiff' ? smallTiff(head, bytes) : bytes)
    if (!isDimension(width) || !isDimension(height)) return undefined
    // Orientations 5 to 8 lie on their side.
    return orientation >= 5 && orientation <= 8 ? { width: height, height: width } : { width, height }
  } catch {
    return undefined // a broken image is still a file
  }
}

const isDimension = (value: number): boolean => Number.isInteger(value) && value > 0 && value <= MAX_DIMENSION

function tiffDirectory (head: Uint8Array): Span | undefined {
  if (head.length < HEADER_BYTES) return undefined
  const header = Buffer.from(head.subarray(0, HEADER_BYTES))
  return { position: isLittleEndian(header) ? header.readUInt32LE(4) : header.readUInt32BE(4), length: TIFF_DIRECTORY_BYTES }
}

/** One with the directory of a large one right behind its header. */
function smallTiff (head: Uint8Array, directory: Uint8Array): Uint8Array {
  const header = Buffer.from(head.subarray(0, HEADER_BYTES))
  if (isLittleEndian(header)) header.writeUInt32LE(HEADER_BYTES, 4)
  else header.writeUInt32BE(HEADER_BYTES, 4)
  return new Uint8Array(Buffer.concat([header, directory]))
}

const isLittleEndian = (header: Uint8Array): boolean => header[0] === 0x49
