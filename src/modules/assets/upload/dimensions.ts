import { imageSize } from 'image-size'
import { SNIFF_BYTES } from '../storage/file-store.ts'
import { heifDimensions } from './heif-dimensions.ts'
import { jpegDimensions } from './jpeg-dimensions.ts'
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
/** WebP has its dimensions in the header of the file. */
const WEBP_HEADER_BYTES = 30
const MAX_DIMENSION = 2 ** 31 - 1

/** A part of a file, in bytes. */
export interface Span {
  readonly position: number
  readonly length: number
}

/**
 * Returns width and height in pixels of the picture with its orientation applied; undefined if they can't be
 * read.
 *
 * @param head the first SNIFF_BYTES of the file, or all of a smaller file
 * @param readPart reads another part of the file, which may be shorter or empty
 * @throws the error of `readPart`
 */
export async function readDimensions (
  head: Uint8Array,
  contentType: string,
  readPart: (span: Span) => Promise<Uint8Array>
): Promise<Dimensions | undefined> {
  if (contentType === 'image/jpeg') {
    const readAt = async (position: number, length: number) => viewOf(await readPart({ position, length }))
    return unlessImpossible(await jpegDimensions(viewOf(head), head.length < SNIFF_BYTES, readAt))
  }
  const span = spanBehindHead(head, contentType)
  const part = span === undefined ? new Uint8Array() : await readPart(span)
  try {
    return unlessImpossible(dimensionsOf(head, viewOf(part), contentType))
  } catch {
    return undefined // a broken image is still a file
  }
}

const unlessImpossible = ({ width = 0, height = 0 }: Partial<Dimensions> = {}): Dimensions | undefined =>
  isDimension(width) && isDimension(height) ? { width, height } : undefined

const isDimension = (value: number): boolean => Number.isInteger(value) && value > 0 && value <= MAX_DIMENSION

const viewOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Returns a part that may not be in the head: the directory of a TIFF, or the Exif data of a WebP. */
function spanBehindHead (head: Uint8Array, contentType: string): Span | undefined {
  if (contentType === 'image/tiff') return tiffDirectory(head)
  const position = contentType === 'image/webp' ? webpExifPosition(viewOf(head)) : undefined
  return position === undefined ? undefined : { position, length: EXIF_BYTES }
}

function dimensionsOf (head: Uint8Array, part: Buffer, contentType: string): Dimensions | undefined {
  if (contentType === 'image/tiff') return imageSize(smallTiff(head, part))
  if (contentType === 'image/webp') {
    return orient(imageSize(head.slice(0, WEBP_HEADER_BYTES)), isRotatedWebp(part))
  }
  const length = PREFIX_BYTES[contentType]
  if (length === undefined) return undefined
  // A copy, because `image-size` reads past the end of a view.
  const bytes = viewOf(new Uint8Array(head.subarray(0, length)))
  switch (contentType) {
    case 'image/avif':
    case 'image/heic':
    case 'image/heif':
      return heifDimensions(bytes)
    case 'image/png':
      return orient(imageSize(bytes), isRotatedPng(bytes))
    default:
      return imageSize(bytes)
  }
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
