import { box, jpegSegment, pngHeader, pngOf, u16, u16le, u32, u32le } from '../shared/picture-parts.ts'

// Images that sharp can't write: a TIFF whose directory is at a chosen place, and hostile ones.

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

const AVIF = box('ftyp', Buffer.from('avif'), u32(0), Buffer.from('avifmif1'))

/** Returns files that may make a parser loop: many tiny boxes and segments, and extreme lengths. */
export function hostileImages (): [name: string, content: Buffer][] {
  const mebibyte = 1024 * 1024
  const repeat = (unit: Buffer, size = mebibyte) => Buffer.alloc(size, unit)
  const heads: [string, Buffer][] = [
    ['png', pngOf(pngHeader({ width: 1, height: 1 }))],
    ['jpeg', Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex')],
    ['gif', Buffer.from('GIF89a')],
    ['webp', Buffer.from('RIFF\xff\xff\xff\x7fWEBPVP8X', 'latin1')],
    ['tiff', Buffer.from('II*\0\x08\0\0\0', 'latin1')],
    ['tiff be', Buffer.from('MM\0*\0\0\0\x08', 'latin1')],
    ['bigtiff', Buffer.from('II+\0\x08\0\0\0', 'latin1')],
    ['ico', Buffer.from([0, 0, 1, 0, 0xff, 0xff])],
    ['icns', Buffer.from('icns\x00\x10\x00\x00', 'latin1')],
    ['bmp', Buffer.from('BM')],
    ['psd', Buffer.from('8BPS')],
    ['avif', AVIF],
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
      Buffer.concat([AVIF, box('meta', u32(0), box('iprp', box('ipco', ispes)))])
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
