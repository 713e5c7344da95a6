import { crc32, deflateSync } from 'node:zlib'

// Takes pictures apart and builds them: segments of JPEG, chunks of PNG and WebP, boxes of AVIF.

export const u16 = (value: number): Buffer => {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}
export const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
export const u16le = (value: number): Buffer => u16(value).swap16()
export const u32le = (value: number): Buffer => u32(value).swap32()

/** A named part of a picture. `at` is its position, `length` its size with its header. */
export interface PicturePart {
  readonly name: string
  readonly at: number
  readonly length: number
  readonly content: Buffer
}

/** Returns a segment of JPEG. */
export const jpegSegment = (marker: number, ...content: Buffer[]): Buffer => {
  const inner = Buffer.concat(content)
  return Buffer.concat([Buffer.from([0xff, marker]), u16(inner.length + 2), inner])
}

/** Returns a chunk of PNG with its checksum. */
export const pngChunk = (name: string, ...content: Buffer[]): Buffer => {
  const inner = Buffer.concat([Buffer.from(name, 'latin1'), ...content])
  return Buffer.concat([u32(inner.length - 4), inner, u32(crc32(inner))])
}

/** Returns a chunk of WebP. */
export const webpChunk = (name: string, ...content: Buffer[]): Buffer => {
  const inner = Buffer.concat(content)
  return Buffer.concat([
    Buffer.from(name, 'latin1'),
    u32le(inner.length),
    inner,
    Buffer.alloc(inner.length % 2)
  ])
}

const PNG_SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

/** Returns a PNG of these chunks. */
export const pngOf = (...chunks: Buffer[]): Buffer => Buffer.concat([PNG_SIGNATURE, ...chunks])

export interface PngHeader {
  readonly width: number
  readonly height: number
  readonly depth?: number
  /** 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGBA. */
  readonly colour?: number
}

export const pngHeader = ({ width, height, depth = 8, colour = 2 }: PngHeader): Buffer =>
  pngChunk('IHDR', u32(width), u32(height), Buffer.from([depth, colour, 0, 0, 0]))

/** Returns a whole PNG. `rows` are the samples of the picture, each row after its filter byte. */
export const pngOfRows = (header: PngHeader, rows: Buffer, ...chunks: Buffer[]): Buffer =>
  pngOf(pngHeader(header), ...chunks, pngChunk('IDAT', deflateSync(rows)), pngChunk('IEND'))

/** Inserts chunks after the first one. */
export const withPngChunks = (png: Buffer, ...chunks: Buffer[]): Buffer =>
  Buffer.concat([png.subarray(0, 33), ...chunks, png.subarray(33)])

/** Inserts segments after the start of a JPEG. */
export const withJpegSegments = (jpeg: Buffer, ...segments: Buffer[]): Buffer =>
  Buffer.concat([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)])

/** Returns the segments of a JPEG, named by their markers (`e1`), and what follows the end as `rest`. */
export function jpegParts (jpeg: Buffer): PicturePart[] {
  const parts: PicturePart[] = []
  let at = 2
  while (at + 4 <= jpeg.length) {
    const marker = jpeg.readUInt16BE(at) & 0xff
    if (marker === 0xd9) break
    let length = 2 + jpeg.readUInt16BE(at + 2)
    const content = jpeg.subarray(at + 4, at + length)
    if (marker === 0xda) length = endOfScan(jpeg, at + length) - at
    parts.push({ name: marker.toString(16), at, length, content })
    at += length
  }
  if (at + 2 < jpeg.length) {
    parts.push({ name: 'rest', at: at + 2, length: jpeg.length - at - 2, content: jpeg.subarray(at + 2) })
  }
  return parts
}

function endOfScan (jpeg: Buffer, start: number): number {
  for (let at = jpeg.indexOf(0xff, start); at >= 0; at = jpeg.indexOf(0xff, at + 2)) {
    const next = jpeg[at + 1] ?? 0
    if (next !== 0 && !(next >= 0xd0 && next <= 0xd7)) return at
  }
  return jpeg.length
}

/** Returns the chunks of a PNG, and what follows the end as `rest`. */
export function pngParts (png: Buffer): PicturePart[] {
  const parts: PicturePart[] = []
  let at = 8
  while (at + 12 <= png.length && parts.at(-1)?.name !== 'IEND') {
    const size = png.readUInt32BE(at)
    const content = png.subarray(at + 8, at + 8 + size)
    parts.push({ name: png.toString('latin1', at + 4, at + 8), at, length: size + 12, content })
    at += size + 12
  }
  if (at < png.length) parts.push({ name: 'rest', at, length: png.length - at, content: png.subarray(at) })
  return parts
}

/** Returns the chunks of a WebP, and what follows the end as `rest`. */
export function webpParts (webp: Buffer): PicturePart[] {
  const parts: PicturePart[] = []
  const end = 8 + webp.readUInt32LE(4)
  let at = 12
  while (at + 8 <= end) {
    const size = webp.readUInt32LE(at + 4)
    const content = webp.subarray(at + 8, at + 8 + size)
    parts.push({ name: webp.toString('latin1', at, at + 4), at, length: size + 8, content })
    at += 8 + size + size % 2
  }
  if (end < webp.length) {
    parts.push({ name: 'rest', at: end, length: webp.length - end, content: webp.subarray(end) })
  }
  return parts
}

/** Returns a box of an ISO media file. */
export const box = (name: string, ...content: Buffer[]): Buffer => {
  const inner = Buffer.concat(content)
  return Buffer.concat([u32(inner.length + 8), Buffer.from(name), inner])
}

/** Returns the boxes of an ISO media file, such as AVIF. */
export function boxes (file: Buffer): PicturePart[] {
  const parts: PicturePart[] = []
  for (let at = 0; at + 8 <= file.length;) {
    const length = file.readUInt32BE(at) || file.length - at
    const name = file.toString('latin1', at + 4, at + 8)
    parts.push({ name, at, length, content: file.subarray(at + 8, at + length) })
    at += length
  }
  return parts
}
