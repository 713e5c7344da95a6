import sharp from 'sharp'
import t from 'tap'
import { readDimensions } from '../../../src/modules/assets/upload/dimensions.ts'
import type { Dimensions } from '../../../src/modules/assets/upload/orientation.ts'
import { SNIFF_BYTES } from '../../../src/modules/assets/storage/file-store.ts'
import { contentTypeOf } from '../../../src/modules/assets/upload/sniff.ts'
import { GIF, noise, PDF, PNG } from '../../helpers/assets.ts'
import { hostileImages, tiff } from '../../helpers/images.ts'
import { XMP } from '../../shared/picture-metadata.ts'
import { box, jpegSegment, pngChunk, pngHeader, pngOf, u16, u32, withJpegSegments,
  withPngChunks } from '../../shared/picture-parts.ts'
import { asJpeg, CARD, card, ORIENTATIONS, ORIENTED, oriented, uprightSize } from '../../shared/pictures.ts'

interface Inspected {
  type: string
  sniffed: boolean
  size: Dimensions | undefined
}

async function inspect (content: Buffer, claimed?: string): Promise<Inspected> {
  const head = content.subarray(0, SNIFF_BYTES)
  const { name: type, sniffed } = await contentTypeOf(head, claimed)
  const readPart = async (at: number, length: number) => content.subarray(at, at + length)
  return { type, sniffed, size: await readDimensions(head, type, readPart) }
}

t.test('the type and the dimensions of an image come from its bytes', async (t) => {
  const picture = (width: number, height: number) =>
    sharp({ create: { width, height, channels: 3, background: '#456' } })
  const png = await picture(300, 200).png().toBuffer()
  const text = (size: number) => pngChunk('tEXt', Buffer.alloc(size, 0x41))
  const onSide = await picture(640, 480).withMetadata({ orientation: 6 }).jpeg().toBuffer()
  const behind = (count: number, size: number) =>
    withJpegSegments(onSide, Buffer.concat(Array<Buffer>(count).fill(jpegSegment(0xe2, Buffer.alloc(size)))))
  const avif = await picture(320, 240).avif({ effort: 0 }).toBuffer()
  const brand = avif.readUInt32BE(0)
  const farAvif = Buffer.concat([
    avif.subarray(0, brand),
    box('free', Buffer.alloc(200_000)),
    avif.subarray(brand)
  ])
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>'
  const cases: [name: string, content: Buffer, type: string, size: [number, number] | undefined][] = [
    ['png', png, 'image/png', [300, 200]],
    ['png with 100 KB before its pixels', withPngChunks(png, text(100_000)), 'image/png', [300, 200]],
    ['png with 1 MB before its pixels', withPngChunks(png, text(1_000_000)), 'image/png', [300, 200]],
    ['gif', GIF, 'image/gif', [3, 2]],
    ['jpeg', await picture(640, 480).jpeg().toBuffer(), 'image/jpeg', [640, 480]],
    ['jpeg behind a large colour profile', behind(10, 60_000), 'image/jpeg', [480, 640]],
    ['jpeg behind 5 MB of depth maps', behind(80, 65_000), 'image/jpeg', [480, 640]],
    ['jpeg behind 5,000 segments', behind(5000, 0), 'image/jpeg', [480, 640]],
    ['jpeg behind 500,000 segments', behind(500_000, 0), 'image/jpeg', [480, 640]],
    ['webp', await picture(100, 200).webp().toBuffer(), 'image/webp', [100, 200]],
    ['avif', avif, 'image/avif', [320, 240]],
    ['avif behind 200 KB', farAvif, 'image/avif', [320, 240]],
    ['tiff with its directory near', tiff(123, 456), 'image/tiff', [123, 456]],
    ['tiff with its directory at the end of 3 MB', tiff(123, 456, 3_000_000), 'image/tiff', [123, 456]],
    ['jpeg without a size', Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0]), 'image/jpeg', undefined],
    ['a truncated png', PNG.subarray(0, 20), 'image/png', undefined],
    ['png with a width of 0', pngOf(pngHeader({ width: 0, height: 5 }), text(9)), 'image/png', undefined],
    ['svg', Buffer.from(svg), 'image/svg+xml', undefined],
    ['pdf', PDF, 'application/pdf', undefined]
  ]
  for (const [name, content, type, size] of cases) {
    const expected = {
      type,
      sniffed: true,
      size: size === undefined ? undefined : { width: size[0], height: size[1] }
    }
    t.strictSame(await inspect(content, 'text/html'), expected, name)
  }
})

t.test('the dimensions are those of the upright picture', async (t) => {
  for (const format of ORIENTED) {
    for (const orientation of ORIENTATIONS) {
      const { size } = await inspect(await oriented(format, orientation))
      t.strictSame(size, uprightSize(CARD, orientation), `${format}, orientation ${orientation}`)
    }
  }
})

t.test('XMP, a broken Exif segment and fill bytes do not hide the dimensions of a JPEG', async (t) => {
  const [upright, onSide] = [await asJpeg(card()), await oriented('jpeg', 6)]
  const xmp = jpegSegment(0xe1, Buffer.from(`http://ns.adobe.com/xap/1.0/\0${XMP}`))
  const cases: [name: string, picture: Buffer, orientation: number][] = [
    ['XMP before Exif', withJpegSegments(onSide, xmp), 6],
    ['Exif that is cut off', withJpegSegments(upright, jpegSegment(0xe1, Buffer.from('Exif\0\0MM'))), 1],
    ['fill bytes', withJpegSegments(onSide, Buffer.from([0xff, 0xff, 0xff])), 6]
  ]
  for (const [name, picture, orientation] of cases) {
    t.strictSame((await inspect(picture)).size, uprightSize(CARD, orientation), name)
  }
})

t.test('an AVIF is as large as its primary picture after cropping and turning', async (t) => {
  const properties = [
    box('ispe', u32(0), u32(480), u32(360)),
    box('clap', ...[100, 1, 30, 1, 0, 1, 0, 1].map(u32)),
    box('irot', Buffer.from([1]))
  ]
  const associations = box('ipma', u32(0), u32(1), u16(1), Buffer.from([3, 1, 2, 3]))
  const cropped = Buffer.concat([
    box('ftyp', Buffer.from('avif'), u32(0), Buffer.from('avifmif1')),
    box('meta', u32(0), box('pitm', u32(0), u16(1)), box('iprp', box('ipco', ...properties), associations))
  ])
  t.strictSame((await inspect(cropped)).size, { width: 30, height: 100 })
})

t.test("the client's content type is used only when the bytes show no type", async (t) => {
  const text = Buffer.from('hello, world\n')
  const cases: [content: Buffer, claimed: string | undefined, type: string][] = [
    [text, undefined, 'application/octet-stream'],
    [text, 'text/plain', 'text/plain'],
    [text, 'Text/CSV; charset=utf-8', 'text/csv'],
    [text, 'application/vnd.example+json', 'application/vnd.example+json'],
    [text, 'text', 'application/octet-stream'],
    [text, 'text/pl ain', 'application/octet-stream'],
    [text, 'text/plain\r\nx: y', 'application/octet-stream'],
    [text, 'text/*', 'application/octet-stream'],
    [text, 'te\0xt/plain', 'application/octet-stream'],
    [text, `text/${'x'.repeat(200)}`, 'application/octet-stream'],
    [text, 'image/png', 'application/octet-stream'],
    [text, 'image/svg+xml', 'application/octet-stream'],
    [Buffer.from('<!DOCTYPE html><script>alert(1)</script>'), 'image/jpeg', 'application/octet-stream'],
    [Buffer.from('<!DOCTYPE html><script>alert(1)</script>'), 'text/html', 'text/html'],
    [Buffer.concat([text, Buffer.alloc(4)]), 'text/plain', 'application/octet-stream'],
    [Buffer.from('\ufeffhi', 'utf16le'), 'text/plain', 'text/plain'],
    [noise(5000), 'application/x-custom', 'application/x-custom']
  ]
  for (const [content, claimed, type] of cases) {
    t.strictSame(
      await inspect(content, claimed),
      { type, sniffed: false, size: undefined },
      `${claimed?.slice(0, 30)} of ${content.length} bytes`
    )
  }
})

t.test('an SVG is recognized by its root element', async (t) => {
  const svgs = [
    '<svg/>',
    '\ufeff<svg >',
    ' \n<svg\n>',
    '<?xml version="1.0"?><svg>',
    '<!-- a > b --><svg>',
    '<!DOCTYPE svg PUBLIC "a" "b"><svg>',
    '<?xml version="1.0"?>\n<!DOCTYPE svg [<!ENTITY a "b">]>\n<!-- x --><svg>',
    '<svg:svg >'
  ]
  for (const svg of svgs) {
    t.match(await inspect(Buffer.from(svg), 'text/plain'), { type: 'image/svg+xml', sniffed: true }, svg)
  }
  const others = ['<svgx>', 'x<svg>', '<html><svg>', '<!-- <svg>', '<?xml <svg>', '<!DOCTYPE', '<', '']
  for (const other of others) {
    t.not((await inspect(Buffer.from(other), 'text/plain')).type, 'image/svg+xml', other)
  }
})

t.test('no hostile image takes five seconds or has invalid dimensions', async (t) => {
  for (const [name, content] of hostileImages()) {
    const start = process.cpuUsage()
    const { size } = await inspect(content, 'image/png')
    t.ok(process.cpuUsage(start).user < 5_000_000, `${name} is fast enough`)
    t.ok(size === undefined || (size.width > 0 && size.height > 0), name)
  }
})
