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

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

const AVIF = box('ftyp', Buffer.from('avif'), u32(0), Buffer.from('avifmif1'))
const JXL = Buffer.concat([box('JXL ', latin1('\r\n\x87\n')), box('ftyp', latin1('jxl \0\0\0\0jxl '))])
const JP2 = Buffer.concat([box('jP  ', latin1('\r\n\x87\n')), box('ftyp', latin1('jp2 \0\0\0\0jp2 '))])

/** Returns files that may make a parser loop: many tiny boxes and segments, and extreme lengths. */
export function hostileImages (): [name: string, content: Buffer][] {
  const mebibyte = 1024 * 1024
  const repeat = (unit: Buffer, size = mebibyte) => Buffer.alloc(size, unit)
  const heads: [string, Buffer | string][] = [
    ['png', pngOf(pngHeader({ width: 1, height: 1 }))],
    ['jpeg', Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex')],
    ['gif', 'GIF89a'],
    ['webp', 'RIFF\xff\xff\xff\x7fWEBPVP8X'],
    ['tiff', 'II*\0\x08\0\0\0'],
    ['tiff be', 'MM\0*\0\0\0\x08'],
    ['bigtiff', 'II+\0\x08\0\0\0'],
    ['ico', '\0\0\x01\0\xff\xff'],
    ['icns', 'icns\0\x10\0\0'],
    ['bmp', 'BM'],
    ['psd', '8BPS'],
    ['avif', AVIF],
    ['heic', box('ftyp', latin1('heic\0\0\0\0heicmif1'))],
    ['jxl', JXL],
    ['jp2', JP2],
    ['svg', '<svg '],
    ['xml', '<?xml '],
    ['zip', 'PK\x03\x04'],
    ['asf', Buffer.from('3026b2758e66cf11a6d9', 'hex')],
    ['ogg', 'OggS'],
    ['ebml', '\x1a\x45\xdf\xa3'],
    ['id3', 'ID3\x03\0\0\x7f\x7f\x7f\x7f'],
    ['gzip', '\x1f\x8b\x08\0']
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
  const bytesOf = (head: Buffer | string) => typeof head === 'string' ? latin1(head) : head
  const zipEntry = Buffer.concat([latin1('PK\x03\x04'), Buffer.alloc(22), latin1('\x01\0\0\0a')])
  return [
    ...heads.flatMap(([head, start]) =>
      tails.map(([tail, rest]): [string, Buffer] => [
        `${head} then ${tail}`,
        Buffer.concat([bytesOf(start), rest])
      ])
    ),
    ['a flood of ispe boxes', Buffer.concat([AVIF, box('meta', u32(0), box('iprp', box('ipco', ispes)))])],
    ['a flood of jxlp boxes', Buffer.concat([JXL, repeat(box('jxlp', u32(0)))])],
    [
      'a flood of jpeg segments',
      Buffer.concat([latin1('\xff\xd8'), repeat(jpegSegment(0xe1, Buffer.from('Exif\0\0II')))])
    ],
    ['a flood of zip entries', repeat(zipEntry)]
  ]
}
