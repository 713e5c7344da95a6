// Whether a picture is stored on its side. `image-size` doesn't read that of a PNG or WebP.

export interface Dimensions {
  readonly width: number
  readonly height: number
}

/** Returns the dimensions of a picture that may be turned by 90 degrees before it is shown. */
export const orient = ({ width, height }: Dimensions, isRotated: boolean): Dimensions =>
  isRotated ? { width: height, height: width } : { width, height }

/** A hostile file has 5,000 in its first 64 KiB. */
const MAX_CHUNKS = 1000

/** @param png the start of the file */
export function isRotatedPng (png: Buffer): boolean {
  for (let at = 8, chunks = 0; at + 8 <= png.length && chunks < MAX_CHUNKS; chunks++) {
    const name = png.toString('latin1', at + 4, at + 8)
    const end = at + 8 + png.readUInt32BE(at)
    if (name === 'eXIf') return isRotatedByExif(png.subarray(at + 8, end))
    if (name === 'IDAT') return false
    at = end + 4
  }
  return false
}

/** Flag of a WebP's header. */
const HAS_EXIF = 0x08

/**
 * Returns where the chunk with the Exif data of a WebP can be, which follows its pixels; undefined if it has
 * none.
 *
 * @param webp the start of the file
 */
export function webpExifPosition (webp: Buffer): number | undefined {
  if (webp.length < 30 || webp.toString('latin1', 12, 16) !== 'VP8X') return undefined
  if (((webp[20] ?? 0) & HAS_EXIF) === 0) return undefined
  let at = 12
  for (let chunks = 0; at + 8 <= webp.length && chunks < MAX_CHUNKS; chunks++) {
    if (webp.toString('latin1', at, at + 4) === 'EXIF') return at
    const size = webp.readUInt32LE(at + 4)
    at += 8 + size + size % 2
  }
  return at
}

/** @param chunk what is at `webpExifPosition` */
export const isRotatedWebp = (chunk: Buffer): boolean =>
  chunk.toString('latin1', 0, 4) === 'EXIF' && isRotatedByExif(chunk.subarray(8))

/** Begins the Exif data of a JPEG. Some programs write it in WebP and PNG, too. */
export const EXIF_PREFIX = 'Exif\0\0'
const ORIENTATION = 0x112
const ENTRY_BYTES = 12

/** Tells whether Exif data asks for a turn by 90 degrees: orientations 5 to 8. */
export function isRotatedByExif (exif: Buffer): boolean {
  const tiff = exif.toString('latin1', 0, EXIF_PREFIX.length) === EXIF_PREFIX
    ? exif.subarray(EXIF_PREFIX.length) : exif
  if (tiff.length < 8) return false
  const isLittleEndian = tiff[0] === 0x49
  const u16 = (at: number) => isLittleEndian ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at)
  const directory = isLittleEndian ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
  if (directory + 2 > tiff.length) return false
  const end = Math.min(tiff.length, directory + 2 + ENTRY_BYTES * u16(directory))
  for (let entry = directory + 2; entry + ENTRY_BYTES <= end; entry += ENTRY_BYTES) {
    if (u16(entry) === ORIENTATION) return u16(entry + 8) >= 5 && u16(entry + 8) <= 8
  }
  return false
}
