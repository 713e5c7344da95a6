import type { FileHandle } from 'node:fs/promises'
import { imageSize } from 'image-size'

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
const TIFF_HEADER_BYTES = 8
const MAX_DIMENSION = 2 ** 31 - 1

/**
 * Width and height of an image in pixels, as it is shown (Exif orientation applied).
 *
 * @returns undefined where the file is no image, or its size can't be read
 */
export async function dimensionsOf (file: FileHandle, contentType: string): Promise<Dimensions | undefined> {
  const prefixBytes = PREFIX_BYTES[contentType]
  const input = contentType === 'image/tiff'
    ? await tiffDirectory(file)
    : prefixBytes === undefined ? undefined : await readAt(file, 0, prefixBytes)
  if (input === undefined) return undefined
  try {
    const { width, height, orientation = 1 } = imageSize(input)
    if (!isDimension(width) || !isDimension(height)) return undefined
    // Orientations 5 to 8 lie on their side.
    return orientation >= 5 && orientation <= 8 ? { width: height, height: width } : { width, height }
  } catch {
    return undefined // a broken image is still a file
  }
}

const isDimension = (value: number): boolean => Number.isInteger(value) && value > 0 && value <= MAX_DIMENSION

/** A small TIFF with the directory of a large one right behind its header. */
async function tiffDirectory (file: FileHandle): Promise<Uint8Array | undefined> {
  const header = Buffer.from(await readAt(file, 0, TIFF_HEADER_BYTES))
  if (header.length < TIFF_HEADER_BYTES) return undefined
  const littleEndian = header[0] === 0x49
  const offset = littleEndian ? header.readUInt32LE(4) : header.readUInt32BE(4)
  if (littleEndian) header.writeUInt32LE(TIFF_HEADER_BYTES, 4)
  else header.writeUInt32BE(TIFF_HEADER_BYTES, 4)
  return new Uint8Array(Buffer.concat([header, await readAt(file, offset, TIFF_DIRECTORY_BYTES)]))
}

/** Up to `length` bytes in a buffer of their own: `image-size` looks at the memory behind a view as well. */
export async function readAt (file: FileHandle, position: number, length: number): Promise<Uint8Array> {
  const { size } = await file.stat()
  const bytes = new Uint8Array(Math.max(0, Math.min(length, size - position)))
  let filled = 0
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, position + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return bytes.subarray(0, filled)
}
