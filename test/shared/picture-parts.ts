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
  readonly interlace?: number
}

export const pngHeader = ({ width, height, depth = 8, colour = 2, interlace = 0 }: PngHeader): Buffer =>
  pngChunk('IHDR', u32(width), u32(height), Buffer.from([depth, colour, 0, 0, interlace]))

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

/** Adds Exif and XMP to a WebP, which makes it an extended one. */
export function withWebpMetadata (
  webp: Buffer,
  size: { readonly width: number, readonly height: number },
  { exif, xmp }: { readonly exif?: Buffer, readonly xmp?: Buffer }
): Buffer {
  const chunks = webpParts(webp)
  const old = chunks.find(({ name }) => name === 'VP8X')?.content[0] ?? (hasAlpha(chunks) ? 0x10 : 0)
  const flags = old | (exif === undefined ? 0 : 0x08) | (xmp === undefined ? 0 : 0x04)
  const u24le = (value: number) => u32le(value).subarray(0, 3)
  const body = Buffer.concat([
    Buffer.from('WEBP'),
    webpChunk('VP8X', Buffer.from([flags, 0, 0, 0]), u24le(size.width - 1), u24le(size.height - 1)),
    ...chunks.filter(({ name }) => name !== 'VP8X').map(({ name, content }) => webpChunk(name, content)),
    ...(exif === undefined ? [] : [webpChunk('EXIF', exif)]),
    ...(xmp === undefined ? [] : [webpChunk('XMP ', xmp)])
  ])
  return Buffer.concat([Buffer.from('RIFF'), u32le(body.length), body])
}

/** A lossless picture says in its first bytes whether it uses alpha. */
const hasAlpha = (chunks: readonly PicturePart[]): boolean =>
  chunks.some(({ name, content }) => name === 'ALPH' || (name === 'VP8L' && ((content[4] ?? 0) & 0x10) > 0))

/** Returns a box of an ISO media file. */
export const box = (name: string, ...content: Buffer[]): Buffer => {
  const inner = Buffer.concat(content)
  return Buffer.concat([u32(inner.length + 8), Buffer.from(name), inner])
}

/** Returns the boxes between two positions of an ISO media file, such as AVIF. */
export function boxes (file: Buffer, from = 0, to = file.length): PicturePart[] {
  const parts: PicturePart[] = []
  for (let at = from; at + 8 <= to;) {
    const length = file.readUInt32BE(at) || to - at
    const name = file.toString('latin1', at + 4, at + 8)
    parts.push({ name, at, length, content: file.subarray(at + 8, at + length) })
    at += length
  }
  return parts
}

/** Adds properties to the first item of an AVIF. They are how this format says its orientation. */
export function withAvifTransforms (avif: Buffer, ...properties: Buffer[]): Buffer {
  const meta = boxes(avif).find(({ name }) => name === 'meta') as PicturePart
  const grown = properties.reduce((sum, property) => sum + property.length, 0) + properties.length
  const inner = boxes(avif, meta.at + 12, meta.at + meta.length).map(({ name, content }) => {
    if (name === 'iloc') return box(name, movedLocations(content, grown))
    if (name !== 'iprp') return box(name, content)
    return box(
      name,
      ...boxes(content).map((part) =>
        part.name === 'ipco' ? box('ipco', part.content, ...properties)
          : box(part.name, associated(part.content, boxes(propertiesOf(content)).length, properties.length))
      )
    )
  })
  return Buffer.concat([
    avif.subarray(0, meta.at),
    box('meta', meta.content.subarray(0, 4), ...inner),
    avif.subarray(meta.at + meta.length)
  ])
}

const propertiesOf = (iprp: Buffer): Buffer => (boxes(iprp)[0] as PicturePart).content

/** Adds the properties after the existing ones to the first item of an `ipma` box. */
function associated (ipma: Buffer, existing: number, added: number): Buffer {
  const copy = Buffer.from(ipma)
  const count = copy[10] ?? 0
  copy[10] = count + added
  const indices = Array.from({ length: added }, (_, index) => 0x80 | (existing + index + 1))
  return Buffer.concat([copy.subarray(0, 11 + count), Buffer.from(indices), copy.subarray(11 + count)])
}

/** Moves the items of an `iloc` box of version 0, in which each item has a base offset and one extent. */
function movedLocations (iloc: Buffer, by: number): Buffer {
  const copy = Buffer.from(iloc)
  for (let at = 12; at < copy.length; at += 18) copy.writeUInt32BE(copy.readUInt32BE(at) + by, at)
  return copy
}
