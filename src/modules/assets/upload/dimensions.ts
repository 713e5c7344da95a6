import { imageSize } from 'image-size'
import type { Span } from '../storage/file-store.ts'
import { heifDimensions } from './heif-dimensions.ts'
import { EXIF_BYTES, isRotatedPng, isRotatedWebp, orient, webpExifPosition,
  type Dimensions } from './orientation.ts'

/** The number of bytes that are searched, by type. This limits the cost of a hostile file. */
const PREFIX_BYTES: Readonly<Record<string, number>> = {
  'image/png': 64 * 1024,
  'image/apng': 64,
  'image/gif': 64,
  'image/bmp': 64,
  'image/vnd.adobe.photoshop': 64,
  'image/jxl': 16 * 1024,
  'image/jp2': 16 * 1024,
  'image/avif': 256 * 1024,
  'image/heic': 256 * 1024,
  'image/heif': 256 * 1024,
  'image/heic-sequence': 256 * 1024,
  'image/heif-sequence': 256 * 1024,
  'image/x-icon': 64 * 1024,
  'image/icns': 64 * 1024
}
/** A TIFF's directory can be anywhere in the file. Its first bytes contain the tags for the dimensions. */
const TIFF_DIRECTORY_BYTES = 4096
const TIFF_HEADER_BYTES = 8
/** Size of the file header that `readDimensions` needs: WebP has its dimensions there. */
export const HEADER_BYTES = 30
const MAX_DIMENSION = 2 ** 31 - 1

/**
 * Returns the part of a file that contains its dimensions; undefined if it is not an image, or is a JPEG,
 * which `JpegDimensionsReader` reads.
 *
 * @param head at least the first `HEADER_BYTES` of the file
 */
export function dimensionsSpan (head: Uint8Array, contentType: string): Span | undefined {
  if (contentType === 'image/tiff') return tiffDirectory(head)
  if (contentType === 'image/webp') return webpExif(head)
  const length = PREFIX_BYTES[contentType]
  return length === undefined ? undefined : { position: 0, length }
}

/**
 * Returns width and height in pixels of the picture with its orientation applied; undefined if they can't be
 * read.
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
    const { width = 0, height = 0 } = dimensionsOf(viewOf(bytes), head, contentType) ?? {}
    return isDimension(width) && isDimension(height) ? { width, height } : undefined
  } catch {
    return undefined // a broken image is still a file
  }
}

const isDimension = (value: number): boolean => Number.isInteger(value) && value > 0 && value <= MAX_DIMENSION

const viewOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

function dimensionsOf (bytes: Buffer, head: Uint8Array, contentType: string): Dimensions | undefined {
  switch (contentType) {
    case 'image/avif':
    case 'image/heic':
    case 'image/heif':
      return heifDimensions(bytes)
    case 'image/png':
      return orient(imageSize(bytes), isRotatedPng(bytes))
    case 'image/webp':
      return orient(imageSize(head.slice(0, HEADER_BYTES)), isRotatedWebp(bytes))
    case 'image/tiff':
      return imageSize(smallTiff(head, bytes))
    default:
      return imageSize(bytes)
  }
}

/** Returns the chunk that may have the Exif data; without one the header is enough. */
function webpExif (head: Uint8Array): Span {
  return { position: webpExifPosition(viewOf(head)) ?? 0, length: EXIF_BYTES }
}

function tiffDirectory (head: Uint8Array): Span | undefined {
  if (head.length < TIFF_HEADER_BYTES) return undefined
  const header = Buffer.from(head.subarray(0, TIFF_HEADER_BYTES))
  return {
    position: isLittleEndian(header) ? header.readUInt32LE(4) : header.readUInt32BE(4),
    length: TIFF_DIRECTORY_BYTES
  }
}

/** Builds a TIFF in which the directory follows the header. */
function smallTiff (head: Uint8Array, directory: Uint8Array): Uint8Array {
  const header = Buffer.from(head.subarray(0, TIFF_HEADER_BYTES))
  if (isLittleEndian(header)) header.writeUInt32LE(TIFF_HEADER_BYTES, 4)
  else header.writeUInt32BE(TIFF_HEADER_BYTES, 4)
  return new Uint8Array(Buffer.concat([header, directory]))
}

const isLittleEndian = (header: Uint8Array): boolean => header[0] === 0x49
