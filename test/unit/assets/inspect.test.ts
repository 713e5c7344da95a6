import t from 'tap'
import { readDimensions, type Span } from '../../../src/modules/assets/upload/dimensions.ts'
import type { Dimensions } from '../../../src/modules/assets/upload/orientation.ts'
import { SNIFF_BYTES } from '../../../src/modules/assets/storage/file-store.ts'
import { contentTypeOf, isAllowed } from '../../../src/modules/assets/upload/sniff.ts'
import { GIF, noise, PDF, PNG } from '../../helpers/assets.ts'
import { avif, hostileImages, jpeg, png, pngText, tiff, webp } from '../../helpers/images.ts'
import { exifOrientation, xmp } from '../../shared/picture-metadata.ts'
import { box, jpegSegment, u32, withAvifTransforms, withJpegSegments } from '../../shared/picture-parts.ts'
import { asJpeg, CARD, card, ORIENTATIONS, ORIENTED, uprightSize } from '../../shared/pictures.ts'

interface Inspected {
  type: string
  sniffed: boolean
  size: Dimensions | undefined
}

async function inspect (content: Buffer, claimed?: string): Promise<Inspected> {
  const head = content.subarray(0, SNIFF_BYTES)
  const type = await contentTypeOf(head, claimed)
  const readPart = async ({ position, length }: Span) => content.subarray(position, position + length)
  return { ...type, size: await readDimensions(head, type.type, readPart) }
}

t.test('the type and the dimensions of an image come from its bytes', async (t) => {
  const cases: [name: string, content: Buffer, type: string, size: [number, number] | undefined][] = [
    ['png', PNG, 'image/png', [1, 1]],
    ['png with 100 KB before its pixels', png(300, 200, pngText(100_000)), 'image/png', [300, 200]],
    ['png with 1 MB before its pixels', png(300, 200, pngText(1_000_000)), 'image/png', [300, 200]],
    ['gif', GIF, 'image/gif', [3, 2]],
    ['jpeg', jpeg(640, 480), 'image/jpeg', [640, 480]],
    ['jpeg upright', jpeg(640, 480, { orientation: 1 }), 'image/jpeg', [640, 480]],
    ['jpeg upside down', jpeg(640, 480, { orientation: 3 }), 'image/jpeg', [640, 480]],
    ['jpeg on its side', jpeg(640, 480, { orientation: 6 }), 'image/jpeg', [480, 640]],
    ['jpeg behind a large colour profile', jpeg(640, 480, { filler: 600_000 }), 'image/jpeg', [640, 480]],
    ['jpeg behind 5 MB of depth maps', jpeg(640, 480, { orientation: 6, filler: 5_000_000 }), 'image/jpeg', [
      480,
      640
    ]],
    [
      'jpeg behind 5,000 segments',
      withJpegSegments(jpeg(640, 480, { orientation: 6 }), ...Array<Buffer>(5000).fill(jpegSegment(0xe2))),
      'image/jpeg',
      [480, 640]
    ],
    [
      'jpeg behind 500,000 segments',
      withJpegSegments(
        jpeg(640, 480, { orientation: 6 }),
        Buffer.concat(Array<Buffer>(500_000).fill(jpegSegment(0xe2)))
      ),
      'image/jpeg',
      [480, 640]
    ],
    ['webp', webp(1000, 2000), 'image/webp', [1000, 2000]],
    ['avif', avif(320, 240), 'image/avif', [320, 240]],
    ['avif behind 200 KB', avif(320, 240, 200_000), 'image/avif', [320, 240]],
    ['tiff with its directory near', tiff(123, 456), 'image/tiff', [123, 456]],
    ['tiff with its directory at the end of 3 MB', tiff(123, 456, 3_000_000), 'image/tiff', [123, 456]],
    ['jpeg without a size', Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0]), 'image/jpeg', undefined],
    ['a truncated png', PNG.subarray(0, 20), 'image/png', undefined],
    ['png with a width of 0', png(0, 5), 'image/png', undefined],
    [
      'svg',
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>'),
      'image/svg+xml',
      undefined
    ],
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
  for (const [format, encode] of Object.entries(ORIENTED)) {
    for (const orientation of ORIENTATIONS) {
      const { size } = await inspect(await encode(orientation))
      t.strictSame(size, uprightSize(CARD, orientation), `${format}, orientation ${orientation}`)
    }
  }
})

t.test('XMP, a broken Exif segment and fill bytes do not hide the dimensions of a JPEG', async (t) => {
  const picture = await asJpeg(card())
  const exif = jpegSegment(0xe1, Buffer.from('Exif\0\0'), exifOrientation(6))
  const beforeExif = jpegSegment(0xe1, Buffer.from('http://ns.adobe.com/xap/1.0/\0'), xmp())
  const cases: [name: string, segments: Buffer[], orientation: number][] = [
    ['XMP before Exif', [beforeExif, exif], 6],
    ['Exif that is cut off', [jpegSegment(0xe1, Buffer.from('Exif\0\0MM'))], 1],
    ['fill bytes', [Buffer.from([0xff, 0xff, 0xff]), exif], 6]
  ]
  for (const [name, segments, orientation] of cases) {
    const { size } = await inspect(withJpegSegments(picture, ...segments))
    t.strictSame(size, uprightSize(CARD, orientation), name)
  }
})

t.test('an AVIF is as large as its primary picture after cropping and turning', async (t) => {
  const crop = box('clap', ...[100, 1, 30, 1, 0, 1, 0, 1].map(u32))
  const turn = box('irot', Buffer.from([1]))
  const picture = await card().avif({ effort: 0 }).toBuffer()
  t.strictSame((await inspect(withAvifTransforms(picture, crop, turn))).size, { width: 30, height: 100 })
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

t.test('a type passes when the list contains it, and a wildcard needs a detected type', async (t) => {
  const cases: [type: string, sniffed: boolean, allowed: string[], passes: boolean][] = [
    ['text/html', false, [], true],
    ['image/png', true, ['image/png'], true],
    ['image/png', true, ['image/*'], true],
    ['image/png', true, ['image/jpeg'], false],
    ['imagex/png', true, ['image/*'], false],
    ['application/pdf', true, ['image/*'], false],
    ['text/csv', false, ['text/csv'], true],
    ['text/csv', false, ['text/*'], false],
    ['application/octet-stream', false, ['image/*'], false],
    ['application/octet-stream', false, ['application/octet-stream'], true]
  ]
  for (const [type, sniffed, allowed, passes] of cases) {
    t.equal(
      isAllowed({ type, sniffed }, allowed),
      passes,
      `${type} ${sniffed ? 'detected' : 'claimed'} in ${allowed.join()}`
    )
  }
})

t.test('no hostile image takes five seconds or has invalid dimensions', async (t) => {
  let slowest: [string, number] = ['', 0]
  for (const [name, content] of hostileImages()) {
    const start = performance.now()
    const { size } = await inspect(content, 'image/png')
    const elapsed = performance.now() - start
    if (elapsed > slowest[1]) slowest = [name, elapsed]
    t.ok(size === undefined || (size.width > 0 && size.height > 0), name)
  }
  t.comment(`slowest: ${slowest[0]}, ${Math.round(slowest[1])} ms`)
  t.ok(slowest[1] < 5000, `${slowest[0]} is the slowest`)
})
