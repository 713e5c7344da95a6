/** Begins the Exif data of a JPEG. Some programs write it in WebP and PNG, too. */
export const EXIF_PREFIX = 'Exif\0\0'
const ORIENTATION = 0x112
const ENTRY_BYTES = 12

/** Tells whether Exif data asks for a turn by 90 degrees: orientations 5 to 8. */
export function isTurnedByExif (exif: Buffer): boolean {
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
