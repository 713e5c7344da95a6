import { imageSize } from 'image-size'
import { SNIFF_BYTES } from '../storage/file-store.ts'
import { heifDimensions } from './heif-dimensions.ts'
import { isRotatedPng, isRotatedWebp, orient, webpExifPosition, EXIF_PREFIX, isRotatedByExif,
  type Dimensions } from './orientation.ts'

/** The types that `image-size` reads, besides those that have code of their own below. */
const TYPES: ReadonlySet<string> = new Set([
  'apng',
  'bmp',
  'gif',
  'heic-sequence',
  'heif-sequence',
  'icns',
  'jp2',
  'jxl',
  'vnd.adobe.photoshop',
  'x-icon'
].map((subtype) => `image/${subtype}`))
/** How much of a PNG or a file of these types is searched. This limits the cost of a hostile file. */
const SEARCHED_BYTES = 64 * 1024
/** Enough for the tags with dimensions and orientation in a TIFF's directory or in Exif data. */
const DIRECTORY_BYTES = 4096
const TIFF_HEADER_BYTES = 8
/** WebP has its dimensions in the header of the file. */
const WEBP_HEADER_BYTES = 30
const MAX_DIMENSION = 2 ** 31 - 1

/** Reads a part of a file, in bytes. The part may be shorter or empty. */
type ReadPart = (position: number, length: number) => Promise<Uint8Array>

/**
 * Returns width and height in pixels of the picture with its orientation applied; undefined if they can't be
 * read.
 *
 * @param head the first SNIFF_BYTES of the file, or all of a smaller file
 * @throws the error of `readPart`
 */
export async function readDimensions (
  head: Uint8Array,
  contentType: string,
  readPart: ReadPart
): Promise<Dimensions | undefined> {
  if (contentType === 'image/jpeg') {
    return unlessImpossible(await jpegDimensions(viewOf(head), head.length < SNIFF_BYTES, readPart))
  }
  // The directory of a TIFF and the Exif data of a WebP may not be in the head.
  const position = contentType === 'image/tiff' ? tiffDirectoryPosition(head)
    : contentType === 'image/webp' ? webpExifPosition(viewOf(head)) : undefined
  const part = position === undefined ? new Uint8Array() : await readPart(position, DIRECTORY_BYTES)
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

function dimensionsOf (head: Uint8Array, part: Buffer, contentType: string): Dimensions | undefined {
  if (contentType === 'image/tiff') return imageSize(smallTiff(head, part))
  if (contentType === 'image/webp') {
    return orient(imageSize(head.slice(0, WEBP_HEADER_BYTES)), isRotatedWebp(part))
  }
  if (/^image\/(avif|hei[cf])$/.test(contentType)) return heifDimensions(viewOf(head))
  // A copy, because `image-size` reads past the end of a view.
  const bytes = viewOf(new Uint8Array(head.subarray(0, SEARCHED_BYTES)))
  if (contentType === 'image/png') return orient(imageSize(bytes), isRotatedPng(bytes))
  return TYPES.has(contentType) ? imageSize(bytes) : undefined
}

function tiffDirectoryPosition (head: Uint8Array): number | undefined {
  if (head.length < TIFF_HEADER_BYTES) return undefined
  const header = viewOf(head)
  return isLittleEndian(header) ? header.readUInt32LE(4) : header.readUInt32BE(4)
}

/** Builds a TIFF in which the directory follows the header. */
function smallTiff (head: Uint8Array, directory: Uint8Array): Uint8Array {
  const header = Buffer.from(head.subarray(0, TIFF_HEADER_BYTES))
  if (isLittleEndian(header)) header.writeUInt32LE(TIFF_HEADER_BYTES, 4)
  else header.writeUInt32BE(TIFF_HEADER_BYTES, 4)
  return new Uint8Array(Buffer.concat([header, directory]))
}

const isLittleEndian = (header: Uint8Array): boolean => header[0] === 0x49

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
 * @throws the error of `readPart`
 */
async function jpegDimensions (
  head: Buffer,
  isWhole: boolean,
  readPart: ReadPart
): Promise<Dimensions | undefined> {
  let part = head
  let isLast = isWhole
  let isRotated: boolean | undefined
  if (head.readUInt16BE(0) !== START_OF_IMAGE) return undefined
  for (let position = 0, at = 2; position + at < MAX_SEARCHED_BYTES;) {
    if (at + MAX_SEGMENT_BYTES > part.length && !isLast) {
      position += at
      at = 0
      part = viewOf(await readPart(position, PART_BYTES))
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
  return undefined // not in the first MAX_SEARCHED_BYTES
}
