import { exifOrientation } from '../shared/picture-metadata.ts'
import { box, jpegSegment, pngChunk, pngHeader, pngOf, u16, u16le, u32, u32le,
  webpChunk } from '../shared/picture-parts.ts'

// Builds minimal images of each format, from which type and dimensions can be read.

const startOfFrame = (width: number, height: number) =>
  jpegSegment(
    0xc0,
    Buffer.from([8]),
    u16(height),
    u16(width),
    Buffer.from([3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
  )

/** Returns a JPEG with `filler` bytes of other segments before the segment with the dimensions. */
export function jpeg (
  width: number,
  height: number,
  { orientation, filler = 0 }: { orientation?: number, filler?: number } = {}
): Buffer {
  const exif = orientation === undefined ? []
    : [jpegSegment(0xe1, Buffer.from('Exif\0\0'), exifOrientation(orientation))]
  const fillers = []
  for (let left = filler; left > 0; left -= 65_000) {
    fillers.push(jpegSegment(0xe2, Buffer.alloc(Math.min(left, 65_000), 0x55)))
  }
  const jfif = jpegSegment(0xe0, Buffer.from('JFIF\0\x01\x01\0\0\x01\0\x01\0\0', 'latin1'))
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    jfif,
    ...exif,
    ...fillers,
    startOfFrame(width, height),
    Buffer.from([0xff, 0xd9])
  ])
}

/** Returns a TIFF whose directory is at the end, after `filler` bytes, as most programs write it. */
export function tiff (width: number, height: number, filler = 100): Buffer {
  const entry = (tag: number, value: number) => Buffer.concat([u16le(tag), u16le(4), u32le(1), u32le(value)])
  return Buffer.concat([
    Buffer.from('II*\0'),
    u32le(8 + filler),
    Buffer.alloc(filler),
    u16le(2),
    entry(256, width),
    entry(257, height),
    u32le(0)
  ])
}

/** Returns an AVIF without pixels, with `filler` bytes before its properties. */
export function avif (width: number, height: number, filler = 0): Buffer {
  const size = box('ispe', u32(0), u32(width), u32(height))
  return Buffer.concat([
    box('ftyp', Buffer.from('avif'), u32(0), Buffer.from('avifmif1')),
    box(
      'meta',
      u32(0),
      box('free', Buffer.alloc(filler)),
      box('pitm', u32(0), u16(1)),
      box('iprp', box('ipco', size), box('ipma', u32(0), u32(1), u16(1), Buffer.from([1, 1])))
    )
  ])
}

export function webp (width: number, height: number): Buffer {
  const u24le = (value: number) => u32le(value).subarray(0, 3)
  const chunk = webpChunk('VP8X', u32le(0), u24le(width - 1), u24le(height - 1))
  return Buffer.concat([Buffer.from('RIFF'), u32le(chunk.length + 4), Buffer.from('WEBP'), chunk])
}

export const png = (width: number, height: number, ...chunks: Buffer[]): Buffer =>
  pngOf(pngHeader({ width, height, colour: 6 }), ...chunks, pngChunk('IDAT', Buffer.alloc(4)))

export const pngText = (size: number): Buffer => pngChunk('tEXt', Buffer.alloc(size, 0x41))

/** Returns files that may make a parser loop: many tiny boxes and segments, and extreme lengths. */
export function hostileImages (): [name: string, content: Buffer][] {
  const mebibyte = 1024 * 1024
  const repeat = (unit: Buffer, size = mebibyte) => Buffer.alloc(size, unit)
  const heads: [string, Buffer][] = [
    ['png', png(1, 1).subarray(0, 33)],
    ['jpeg', jpeg(1, 1).subarray(0, 24)],
    ['gif', Buffer.from('GIF89a')],
    ['webp', webp(1, 1).subarray(0, 16)],
    ['tiff', Buffer.from('II*\0\x08\0\0\0', 'latin1')],
    ['tiff be', Buffer.from('MM\0*\0\0\0\x08', 'latin1')],
    ['bigtiff', Buffer.from('II+\0\x08\0\0\0', 'latin1')],
    ['ico', Buffer.from([0, 0, 1, 0, 0xff, 0xff])],
    ['icns', Buffer.from('icns\x00\x10\x00\x00', 'latin1')],
    ['bmp', Buffer.from('BM')],
    ['psd', Buffer.from('8BPS')],
    ['avif', avif(1, 1).subarray(0, 24)],
    ['heic', box('ftyp', Buffer.from('heic\0\0\0\0heicmif1'))],
    [
      'jxl',
      Buffer.concat([
        box('JXL ', Buffer.from('\r\n\x87\n', 'latin1')),
        box('ftyp', Buffer.from('jxl \0\0\0\0jxl '))
      ])
    ],
    [
      'jp2',
      Buffer.concat([
        box('jP  ', Buffer.from('\r\n\x87\n', 'latin1')),
        box('ftyp', Buffer.from('jp2 \0\0\0\0jp2 '))
      ])
    ],
    ['svg', Buffer.from('<svg ')],
    ['xml', Buffer.from('<?xml ')],
    ['zip', Buffer.from('PK\x03\x04')],
    ['asf', Buffer.from('3026b2758e66cf11a6d9', 'hex')],
    ['ogg', Buffer.from('OggS')],
    ['ebml', Buffer.from('1a45dfa3', 'hex')],
    ['id3', Buffer.from('ID3\x03\0\0\x7f\x7f\x7f\x7f')],
    ['gzip', Buffer.from('1f8b0800', 'hex')]
  ]
  const tails: [string, Buffer][] = [
    ['zeros', repeat(Buffer.from([0]))],
    ['ff', repeat(Buffer.from([0xff]))],
    ['ff00', repeat(Buffer.from([0xff, 0]))],
    ['0002ff', repeat(Buffer.from([0, 2, 0xff, 0xe1]))],
    ['size 8 boxes', repeat(box('free'))],
    ['size 0 boxes', repeat(Buffer.from('\0\0\0\0ispe'))],
    ['quotes', repeat(Buffer.from('a=\'"'))],
    ['<!--', repeat(Buffer.from('<!--><?'))],
    ['exif', repeat(Buffer.concat([u16(40), Buffer.from('Exif\0\0MM\0*'), u32(8), u16(0xffff)]))]
  ]
  const ispes = repeat(box('ispe', u32(0), u32(1), u32(1)))
  return [
    ...heads.flatMap(([head, start]) =>
      tails.map(([tail, rest]): [string, Buffer] => [`${head} then ${tail}`, Buffer.concat([start, rest])])
    ),
    [
      'a flood of ispe boxes',
      Buffer.concat([
        box('ftyp', Buffer.from('avif'), u32(0), Buffer.from('avif')),
        box('meta', u32(0), box('iprp', box('ipco', ispes)))
      ])
    ],
    [
      'a flood of jxlp boxes',
      Buffer.concat([
        box('JXL ', Buffer.from('\r\n\x87\n', 'latin1')),
        box('ftyp', Buffer.from('jxl \0\0\0\0jxl ')),
        repeat(box('jxlp', u32(0)))
      ])
    ],
    [
      'a flood of jpeg segments',
      Buffer.concat([Buffer.from([0xff, 0xd8]), repeat(jpegSegment(0xe1, Buffer.from('Exif\0\0II')))])
    ],
    [
      'a flood of zip entries',
      repeat(Buffer.concat([
        Buffer.from('PK\x03\x04'),
        Buffer.alloc(22),
        u16le(1),
        u16le(0),
        Buffer.from('a')
      ]))
    ]
  ]
}
