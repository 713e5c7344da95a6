import { deflateSync } from 'node:zlib'
import { jpegParts, jpegSegment, pngChunk, pngParts, u16, u32, webpParts,
  type PicturePart } from './picture-parts.ts'

// Metadata that pictures carry, written by hand with secrets in it, and the search for it in variants.

/** Stands in every kind of metadata and in what follows a picture. */
export const SECRET = 'Landfall-Secret'
/** A place as Exif writes it: 47° 33' 12.34". Its seconds are found in bytes. */
const LATITUDE: readonly Fraction[] = [[47, 1], [33, 1], [123_457, 10_007]]
const LONGITUDE: readonly Fraction[] = [[7, 1], [35, 1], [98_765, 10_009]]
const DECIMAL_PLACES = ['47.553427', '7.586074']

type Fraction = readonly [numerator: number, denominator: number]
interface Entry {
  readonly tag: number
  readonly type: number
  readonly count: number
  readonly content: Buffer
}

const ascii = (tag: number, text: string): Entry => {
  const content = Buffer.from(`${text}\0`)
  return { tag, type: 2, count: content.length, content }
}
const short = (tag: number, value: number): Entry => ({ tag, type: 3, count: 1, content: u16(value) })
const long = (tag: number, value: number): Entry => ({ tag, type: 4, count: 1, content: u32(value) })
const fractions = (tag: number, values: readonly Fraction[]): Entry => ({
  tag,
  type: 5,
  count: values.length,
  content: Buffer.concat(values.flat().map(u32))
})

/** Writes a directory of Exif that begins at an offset; what doesn't fit into its entries follows it. */
function directory (offset: number, entries: readonly Entry[], next = 0): Buffer {
  const rows: Buffer[] = []
  const rest: Buffer[] = []
  let end = offset + 2 + 12 * entries.length + 4
  for (const { tag, type, count, content } of entries) {
    const isInline = content.length <= 4
    const value = isInline ? Buffer.concat([content, Buffer.alloc(4 - content.length)]) : u32(end)
    rows.push(u16(tag), u16(type), u32(count), value)
    if (isInline) continue
    const padded = Buffer.concat([content, Buffer.alloc(content.length % 2)])
    rest.push(padded)
    end += padded.length
  }
  return Buffer.concat([u16(entries.length), ...rows, u32(next), ...rest])
}

const START = Buffer.from('MM\0*\0\0\0\x08', 'latin1')

/** Returns Exif data with an orientation and nothing else. */
export const exifOrientation = (orientation: number): Buffer =>
  Buffer.concat([START, directory(8, [short(0x112, orientation)])])

/** Returns Exif data as of a phone: a camera, a place, and a thumbnail, which has secrets of its own. */
export function phoneExif (orientation: number, thumbnail: Buffer): Buffer {
  const place = [
    ascii(1, 'N'),
    fractions(2, LATITUDE),
    ascii(3, 'E'),
    fractions(4, LONGITUDE),
    ascii(29, SECRET)
  ]
  const camera = (
    gps: number
  ) => [
    ascii(0x10f, SECRET),
    ascii(0x110, `${SECRET} camera`),
    short(0x112, orientation),
    ascii(0x13b, `${SECRET} author`),
    long(0x8825, gps)
  ]
  const gpsAt = 8 + directory(8, camera(0)).length
  const thumbnailAt = gpsAt + directory(gpsAt, place).length
  const small = (at: number) => [short(0x103, 6), long(0x201, at), long(0x202, thumbnail.length)]
  const pixelsAt = thumbnailAt + directory(thumbnailAt, small(0)).length
  return Buffer.concat([
    START,
    directory(8, camera(gpsAt), thumbnailAt),
    directory(gpsAt, place),
    directory(thumbnailAt, small(pixelsAt)),
    thumbnail
  ])
}

/** Returns an XMP packet with secrets; orientation as some programs write it. */
export const xmp = (orientation = 1): Buffer =>
  Buffer.from(`<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" xmlns:exif="http://ns.adobe.com/exif/1.0/"
  tiff:Make="${SECRET}" tiff:Orientation="${orientation}"
  exif:GPSLatitude="${DECIMAL_PLACES[0]}" exif:GPSLongitude="${DECIMAL_PLACES[1]}"/>
</rdf:RDF></x:xmpmeta><?xpacket end="w"?>`)

/** Returns Photoshop's resource with IPTC data: a by-line and a caption. */
export function iptc (): Buffer {
  const record = (dataset: number, text: string) =>
    Buffer.concat([Buffer.from([0x1c, 2, dataset]), u16(text.length), Buffer.from(text)])
  const data = Buffer.concat([record(80, SECRET), record(120, `${SECRET} caption`)])
  const padding = Buffer.alloc(data.length % 2)
  return Buffer.concat([
    Buffer.from('Photoshop 3.0\x008BIM\x04\x04\0\0', 'latin1'),
    u32(data.length),
    data,
    padding
  ])
}

/** Returns the segments with which a JPEG carries Exif, XMP, IPTC and a comment. */
export const jpegMetadata = (exif: Buffer): Buffer[] => [
  jpegSegment(0xe1, Buffer.from('Exif\0\0'), exif),
  jpegSegment(0xe1, Buffer.from('http://ns.adobe.com/xap/1.0/\0'), xmp()),
  jpegSegment(0xed, iptc()),
  jpegSegment(0xfe, Buffer.from(`${SECRET} comment`))
]

/** Returns the chunks with which a PNG carries Exif, XMP, texts and a time. */
export const pngMetadata = (exif: Buffer): Buffer[] => [
  pngChunk('eXIf', exif),
  pngChunk('iTXt', Buffer.from('XML:com.adobe.xmp\0\0\0\0\0'), xmp()),
  pngChunk('tEXt', Buffer.from(`Author\0${SECRET}`)),
  pngChunk('zTXt', Buffer.from(`Comment\0\0`), deflateSync(SECRET)),
  pngChunk('tIME', Buffer.from([0x07, 0xea, 11, 23, 9, 30, 0]))
]

/** Parts that a picture needs. `APP0` and `APP14` say how JPEG's colours are encoded. */
const NEEDED: Readonly<Record<string, ReadonlySet<string>>> = {
  'image/jpeg': new Set(['e0', 'ee', 'db', 'c0', 'c1', 'c2', 'c4', 'da', 'dd']),
  'image/png': new Set(['IHDR', 'PLTE', 'tRNS', 'IDAT', 'IEND', 'pHYs', 'sRGB', 'gAMA', 'cHRM']),
  'image/webp': new Set(['VP8 ', 'VP8L', 'VP8X', 'ALPH'])
}
const PARTS: Readonly<Record<string, (bytes: Buffer) => PicturePart[]>> = {
  'image/jpeg': jpegParts,
  'image/png': pngParts,
  'image/webp': webpParts
}
const WORDS = [SECRET, ...DECIMAL_PLACES, 'Exif\0', 'xpacket', 'adobe:ns', '8BIM', '<script', 'PK\x03\x04']
const NEEDLES = [
  ...WORDS.flatMap((word) => [Buffer.from(word, 'latin1'), Buffer.from(word, 'utf16le')]),
  ...[LATITUDE, LONGITUDE].flatMap((place) => {
    const [numerator, denominator] = place[2] as Fraction
    const bytes = Buffer.concat([u32(numerator), u32(denominator)])
    return [bytes, Buffer.from(bytes).swap32()]
  })
]

/** Returns what a variant has beside its pixels: names of parts, and texts and places of the original. */
export function metadataOf (variant: Buffer, contentType: string): string[] {
  const foreign = (PARTS[contentType]?.(variant) ?? [])
    .map(({ name }) => name)
    .filter((name) => NEEDED[contentType]?.has(name) !== true)
  return [
    ...foreign,
    ...NEEDLES.filter((needle) => variant.includes(needle)).map((needle) => needle.toString('latin1'))
  ]
}
