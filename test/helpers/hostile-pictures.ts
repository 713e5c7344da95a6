import { constants, deflateRawSync } from 'node:zlib'
import sharp from 'sharp'
import { SECRET } from '../shared/picture-metadata.ts'
import { box, boxes, jpegParts, jpegSegment, pngChunk, pngHeader, pngOf, pngOfRows, u16, u16le, u32, u32le,
  webpChunk, webpParts, withJpegSegments, withPngChunks } from '../shared/picture-parts.ts'
import { asJpeg, card, CARD, type Size } from '../shared/pictures.ts'

// Makes pictures that attack their decoders: bombs, false sizes, cut and damaged files, files of two kinds.

const MIB = 1024 * 1024
const ADLER_MODULUS = 65_521

/** Returns what inflates to this number of zeros, at a thousandth of their size. */
function zlibBomb (zeros: number): Buffer {
  const block = deflateRawSync(Buffer.alloc(MIB), { finishFlush: constants.Z_FULL_FLUSH, level: 9 })
  const checksum = u32((zeros % ADLER_MODULUS) * 65_536 + 1)
  return Buffer.concat([
    Buffer.from([0x78, 0xda]),
    ...Array.from({ length: Math.floor(zeros / MIB) }, () => block),
    deflateRawSync(Buffer.alloc(zeros % MIB)),
    checksum
  ])
}

/** Returns a correct black PNG with 16 bits for each of red, green, blue and alpha. */
const blackPng = ({ width, height }: Size): Buffer =>
  pngOf(
    pngHeader({ width, height, depth: 16, colour: 6 }),
    pngChunk('IDAT', zlibBomb(height * (1 + 8 * width))),
    pngChunk('IEND')
  )

/** Returns a GIF with a number of frames of one pixel. */
function gifOfFrames ({ width, height }: Size, frames: number): Buffer {
  const palette = Buffer.from([200, 80, 70, 70, 100, 200])
  const frame = Buffer.from([0x21, 0xf9, 4, 0, 1, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0])
  return Buffer.concat([
    Buffer.from('GIF89a'),
    u16le(width),
    u16le(height),
    Buffer.from([0x80, 0, 0]),
    palette,
    ...Array.from({ length: frames }, () => frame),
    Buffer.from(';')
  ])
}

/** Returns a WebP whose header says one size, and whose frames, if there are several, have one pixel each. */
async function webpOfFrames (size: Size, frames: number): Promise<Buffer> {
  const pixel = await sharp({ create: { width: 1, height: 1, channels: 3, background: '#c85046' } })
    .webp({ lossless: true }).toBuffer()
  const chunks = webpParts(pixel).map(({ name, content }) => webpChunk(name, content))
  const u24le = (value: number) => u32le(value).subarray(0, 3)
  const place = Buffer.alloc(12) // at 0, 0, one by one
  const body = Buffer.concat([
    Buffer.from('WEBP'),
    webpChunk(
      'VP8X',
      Buffer.from([frames > 1 ? 2 : 0, 0, 0, 0]),
      u24le(size.width - 1),
      u24le(size.height - 1)
    ),
    ...(frames > 1 ? [webpChunk('ANIM', Buffer.alloc(6))] : []),
    ...Array.from(
      { length: frames },
      () =>
        frames > 1 ? webpChunk('ANMF', place, u24le(100), Buffer.from([0]), ...chunks) : Buffer.concat(chunks)
    )
  ])
  return Buffer.concat([Buffer.from('RIFF'), u32le(body.length), body])
}

/** Changes the size that a JPEG says. */
function jpegSaying (jpeg: Buffer, { width, height }: Size): Buffer {
  const copy = Buffer.from(jpeg)
  const frame = jpegParts(jpeg).find(({ name }) => /^c[012]$/.test(name))
  if (frame === undefined) throw new Error('a JPEG without a frame')
  copy.writeUInt16BE(height, frame.at + 5)
  copy.writeUInt16BE(width, frame.at + 7)
  return copy
}

/** Changes the size that an AVIF says; its coded picture says another one. */
export function avifSaying (avif: Buffer, { width, height }: Size): Buffer {
  const copy = Buffer.from(avif)
  const at = copy.indexOf('ispe')
  copy.writeUInt32BE(width, at + 8)
  copy.writeUInt32BE(height, at + 12)
  return copy
}

/** Returns a grey progressive JPEG of any size. Its scans are tiny, because they say that nothing follows. */
export function jpegOfScans ({ width, height }: Size, scans: number): Buffer {
  const blocks = Math.ceil(width / 8) * Math.ceil(height / 8)
  // Code 0 stands for a category or run of this value; code 1, two bits long, would be another one.
  const table = (kind: number, value: number) =>
    jpegSegment(0xc4, Buffer.from([kind, 1, ...Array<number>(15).fill(0), value]))
  const scan = (first: number, last: number) => jpegSegment(0xda, Buffer.from([1, 1, 0, first, last, 0]))
  const dc = Buffer.alloc(Math.ceil(blocks / 8))
  // A run of 2^14 blocks without coefficients: the code, then 14 bits of zeros.
  const runs = bits(Math.ceil(blocks / 16_384), '0'.repeat(15))
  const ac = Array.from(
    { length: scans },
    (_, index) => Buffer.concat([scan(1 + index % 63, 1 + index % 63), runs])
  )
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    jpegSegment(0xdb, Buffer.from([0, ...Array<number>(64).fill(1)])),
    jpegSegment(0xc2, Buffer.from([8]), u16(height), u16(width), Buffer.from([1, 1, 0x11, 0])),
    table(0, 0),
    table(0x10, 0xe0),
    scan(0, 0),
    dc,
    ...ac,
    Buffer.from([0xff, 0xd9])
  ])
}

function bits (count: number, word: string): Buffer {
  const text = word.repeat(count)
  const bytes = text.padEnd(Math.ceil(text.length / 8) * 8, '1').match(/.{8}/g) ?? []
  return Buffer.from(bytes.map((byte) => parseInt(byte, 2)))
}

/** Pictures of all formats that are in order. */
export async function pictures (): Promise<Record<string, Buffer>> {
  const { width, height } = CARD
  const frames = Buffer.concat([await card().raw().toBuffer(), await card().negate().raw().toBuffer()])
  const animation = sharp(frames, { raw: { width, height: height * 2, channels: 3, pageHeight: height } })
  return {
    'a.jpg': await asJpeg(card()),
    'progressive.jpg': await card().jpeg({ progressive: true }).toBuffer(),
    'a.png': await card().png().toBuffer(),
    'interlaced.png': await card().png({ progressive: true }).toBuffer(),
    'lossy.webp': await card().webp().toBuffer(),
    'lossless.webp': await card().webp({ lossless: true, effort: 1 }).toBuffer(),
    'animated.webp': await animation.clone().webp({ loop: 0 }).toBuffer(),
    'animated.gif': await animation.clone().gif({ effort: 1 }).toBuffer(),
    'a.avif': await card().avif({ effort: 0 }).toBuffer()
  }
}

/** Returns bombs and false sizes. */
export async function bombs (): Promise<Record<string, Buffer>> {
  const { 'a.jpg': jpeg, 'a.png': png, 'a.avif': avif } = await pictures() as Record<
    'a.jpg' | 'a.png' | 'a.avif',
    Buffer
  >
  const gigabyte = zlibBomb(1024 * MIB)
  const texts = Array.from({ length: 50_000 }, (_, index) => pngChunk('tEXt', Buffer.from(`k${index}\0v`)))
  const flat = sharp({ create: { width: 65_500, height: 1, channels: 3, background: '#c85046' } })
  return {
    'png whose header says 2^31': withPngSize(png, { width: 2 ** 31 - 1, height: 2 ** 31 - 1 }),
    'png of 392 MB': blackPng({ width: 7000, height: 7000 }),
    'png with a profile of 1 GB': withPngChunks(png, pngChunk('iCCP', Buffer.from('a\0\0'), gigabyte)),
    'png with a text of 1 GB': withPngChunks(png, pngChunk('zTXt', Buffer.from('Comment\0\0'), gigabyte)),
    'png with 50,000 texts': withPngChunks(png, ...texts),
    'png with more pixels than it says': withPngSize(png, { width: CARD.width, height: 100 }),
    'png with fewer pixels than it says': withPngSize(png, { width: CARD.width, height: 5000 }),
    'gif of 10,000 frames on a large screen': gifOfFrames({ width: 2000, height: 2000 }, 10_000),
    'gif whose screen is 65,535 by 65,535': gifOfFrames({ width: 65_535, height: 65_535 }, 1),
    'gif without a frame': gifOfFrames(CARD, 0),
    'webp of 10,000 frames': await webpOfFrames(CARD, 10_000),
    'webp whose header says 7,000 by 7,000': await webpOfFrames({ width: 7000, height: 7000 }, 1),
    'jpeg whose header says 7,000 by 7,000': jpegSaying(jpeg, { width: 7000, height: 7000 }),
    'jpeg of 65,500 by 1': await asJpeg(flat),
    'jpeg of 100 scans': jpegOfScans({ width: 4000, height: 4000 }, 100),
    'avif whose header says 2,800 by 2,800': avifSaying(avif, { width: 2800, height: 2800 })
  }
}

/** Changes the size that a PNG says. */
const withPngSize = (png: Buffer, size: Size): Buffer => pngOf(pngHeader(size), png.subarray(33))

const SHARES = [0.02, 0.1, 0.4, 0.8]

/** Returns pictures of all formats, cut off at many places. */
export async function truncated (): Promise<Record<string, Buffer>> {
  const cut = Object.entries(await pictures()).flatMap(([name, content]) =>
    [...SHARES.map((share) => Math.floor(content.length * share)), content.length - 1].map((length) =>
      [`${name} of ${length} bytes`, content.subarray(0, length)] as const
    )
  )
  return Object.fromEntries(cut)
}

/** Returns pictures of all formats in which a few bytes are others, always the same ones. */
export async function damaged (): Promise<Record<string, Buffer>> {
  const found: Record<string, Buffer> = {}
  for (const [name, content] of Object.entries(await pictures())) {
    for (let seed = 1; seed <= 4; seed++) {
      const copy = Buffer.from(content)
      let state = seed * 2_654_435_761 >>> 0
      for (let change = 0; change < 5; change++) {
        state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0
        // Half of the changes are in the headers, which decide the most.
        const range = change % 2 === 0 ? copy.length : Math.min(copy.length, 600)
        copy[12 + state % (range - 12)] = state >>> 24
      }
      found[`${name}, damage ${seed}`] = copy
    }
  }
  return found
}

const SCRIPT = `<script>alert('${SECRET}')</script>`

/** Returns files that are also something else, or nothing but something else. */
export async function polyglots (): Promise<Record<string, Buffer>> {
  const { 'a.jpg': jpeg, 'a.png': png, 'animated.gif': gif, 'lossy.webp': webp, 'a.avif': avif } =
    await pictures() as Record<'a.jpg' | 'a.png' | 'animated.gif' | 'lossy.webp' | 'a.avif', Buffer>
  const html = Buffer.from(`<!doctype html>${SCRIPT}`)
  const zip = Buffer.concat([Buffer.from('PK\x03\x04'), Buffer.alloc(26), Buffer.from(SECRET)])
  return {
    'page.html.jpg': withJpegSegments(jpeg, jpegSegment(0xfe, html)),
    'after.jpg': Buffer.concat([jpeg, html]),
    'two.jpg': Buffer.concat([jpeg, jpeg]),
    'archive.png': Buffer.concat([png, zip]),
    'chunk.png': withPngChunks(png, pngChunk('scRp', html)),
    'script.gif': Buffer.concat([
      gif.subarray(0, 13 + 768),
      Buffer.from([0x21, 0xfe, html.length]),
      html,
      Buffer.from([0]),
      gif.subarray(13 + 768),
      html
    ]),
    'after.webp': Buffer.concat([webp, zip]),
    'after.avif': Buffer.concat([avif, box('free', html), box('mdat', zip)]),
    'brand.png': Buffer.concat([(boxes(avif)[0] as { content: Buffer }).content, png]),
    'drawing.png': Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="900" height="900">
      <image href="file:///etc/passwd" width="900" height="900"/>${SCRIPT}</svg>`),
    'document.png': Buffer
      .from('%PDF-1.4\n1 0 obj <</Type /Catalog>> endobj\ntrailer <</Root 1 0 R>>\n%%EOF'),
    'sheet.png': await card().tiff().toBuffer(),
    'magick.jpg': Buffer.from('push graphic-context\nimage over 0,0 0,0 "https://example.com/x"\npop'),
    'postscript.jpg': Buffer.from('%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 900 900\nshowpage'),
    'rows.png': pngOfRows({ width: 400, height: 2, colour: 0 }, Buffer.alloc(2 * 401), pngChunk('tEXt', html))
  }
}
