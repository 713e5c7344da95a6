import { deflateSync } from 'node:zlib'
import { jpegParts, jpegSegment, pngChunk, pngParts, u16, u32, webpParts,
  type PicturePart } from './picture-parts.ts'

// Metadata that pictures carry, written by hand with secrets in it, and the search for it in variants.

/** Stands in every kind of metadata and in what follows a picture. */
export const SECRET = 'Landfall-Secret'
/** Camera and place of a photo, for sharp's `withExif`. The seconds of the place are found in bytes. */
export const EXIF = {
  IFD0: { Make: SECRET, Model: `${SECRET} camera`, Artist: `${SECRET} author` },
  IFD3: {
    GPSLatitudeRef: 'N',
    GPSLatitude: '47/1 33/1 123457/10007',
    GPSLongitudeRef: 'E',
    GPSLongitude: '7/1 35/1 98765/10009'
  }
}
const SECONDS = [[123_457, 10_007], [98_765, 10_009]]
const DECIMAL_PLACES = ['47.553427', '7.586074']

/** An XMP packet, for sharp's `withXmp`. */
export const XMP = `<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" xmlns:exif="http://ns.adobe.com/exif/1.0/"
  tiff:Make="${SECRET}" tiff:Orientation="6"
  exif:GPSLatitude="${DECIMAL_PLACES[0]}" exif:GPSLongitude="${DECIMAL_PLACES[1]}"/>
</rdf:RDF></x:xmpmeta><?xpacket end="w"?>`

/** Returns Photoshop's resource with IPTC data: a by-line and a caption. */
function iptc (): Buffer {
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

/** Segments of a JPEG that sharp can't write: IPTC data, a comment and a thumbnail. */
export const jpegMetadata = (thumbnail: Buffer): Buffer[] => [
  jpegSegment(0xe0, Buffer.from('JFXX\0\x10', 'latin1'), thumbnail, Buffer.from(SECRET)),
  jpegSegment(0xed, iptc()),
  jpegSegment(0xfe, Buffer.from(`${SECRET} comment`))
]

/** Chunks of a PNG that sharp can't write: texts and a time. */
export const pngMetadata = (): Buffer[] => [
  pngChunk('tEXt', Buffer.from(`Author\0${SECRET}`)),
  pngChunk('zTXt', Buffer.from('Comment\0\0'), deflateSync(SECRET)),
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
  ...SECONDS.flatMap((fraction) => {
    const bytes = Buffer.concat(fraction.map(u32))
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
