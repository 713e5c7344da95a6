import sharp from 'sharp'
import t, { type Test } from 'tap'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { pictures } from '../../helpers/hostile-pictures.ts'
import { jpegSegment, withJpegSegments } from '../../shared/picture-parts.ts'
import { asJpeg, CARD, card, colourAt, oriented, ORIENTATIONS, ORIENTED, phonePhoto, picturesWithMetadata,
  uprightSize } from '../../shared/pictures.ts'
import { askPatiently, checkVariants, store } from '../../helpers/variants.ts'

const WIDTH = 320

const app = await buildTestApp(t, { IMAGE_WIDTHS: `${WIDTH}` })
const account = await signUp(app)

interface Decoded {
  readonly name: string
  readonly height: number
  /** The colour at a share of the width and of the height, and its alpha. */
  at(across: number, down: number): number[]
}

/** Returns the variants of a picture, decoded. */
async function variantsOf (picture: Buffer): Promise<Decoded[]> {
  const { variants } = await store(app, account, picture)
  return await Promise.all(variants.map(async ({ url, width, height }) => {
    const { statusCode, rawPayload } = await askPatiently(app, url)
    if (statusCode !== 200) throw new Error(`${statusCode} for ${url}`)
    const samples = await sharp(rawPayload).ensureAlpha().raw().toBuffer()
    const at = (across: number, down: number): number[] => {
      const pixel = Math.round(down * (height - 1)) * width + Math.round(across * (width - 1))
      return [...samples.subarray(pixel * 4, pixel * 4 + 4)]
    }
    return { name: url.slice(url.lastIndexOf('/') + 1), height, at }
  }))
}

/** The largest difference of a sample: WebP halves the resolution of colours, and loses 2% of the range. */
const TOLERANCE = 8

function isClose (actual: readonly number[], expected: readonly number[], tolerance = TOLERANCE): boolean {
  return expected.every((sample, index) => Math.abs(sample - (actual[index] ?? -1000)) <= tolerance)
}

/** Near the corners, where the lossy formats don't mix in what is outside of the picture. */
const PLACES = [[0.05, 0.05], [0.95, 0.05], [0.05, 0.95], [0.95, 0.95]] as const

/** Compares a variant with a test card. */
function checkCard (t: Test, { name, at }: Decoded, title: string): void {
  const seen = PLACES.map(([across, down]) => at(across, down))
  const expected = PLACES.map(([across, down]) => colourAt(across, down).map(Math.round))
  const areClose = seen.every((colour, index) => isClose(colour, expected[index] ?? []))
  t.ok(areClose, `${title}: ${name} has ${seen.join(' | ')}, not ${expected.join(' | ')}`)
}

t.test('variants are upright, however their format says the orientation', async (t) => {
  for (const format of ORIENTED) {
    for (const orientation of ORIENTATIONS) {
      const variants = await variantsOf(await oriented(format, orientation))
      const { width, height } = uprightSize(CARD, orientation)
      t.equal(variants.length, format === 'jpeg' || format === 'png' ? 2 : 1)
      for (const variant of variants) {
        t.equal(variant.height, Math.round(height * WIDTH / width))
        checkCard(t, variant, `${format}, orientation ${orientation}`)
      }
    }
  }
})

t.test('variants have none of the metadata of their original', async (t) => {
  const pictures = { 'phone.jpg': await phonePhoto(), ...await picturesWithMetadata() }
  for (const [name, picture] of Object.entries(pictures)) {
    t.equal(await checkVariants(t, app, account, picture, name), 'made', name)
  }
})

t.test('the colours of a profile are converted to sRGB', async (t) => {
  const p3 = card().withIccProfile('p3')
  const deep = p3.clone().toColourspace('rgb16')
  const pictures = {
    jpg: await asJpeg(p3),
    png: await p3.png().toBuffer(),
    'png of 16 bits': await deep.png().toBuffer(),
    'avif of 10 bits': await deep.avif({ bitdepth: 10 }).toBuffer(),
    'avif of 10 bits in sRGB': await deep.clone().withIccProfile('srgb').avif({ bitdepth: 10 }).toBuffer()
  }
  for (const [format, picture] of Object.entries(pictures)) {
    for (const variant of await variantsOf(picture)) checkCard(t, variant, format)
  }
})

t.test('a profile that is broken does not keep a picture from being shown', async (t) => {
  const { icc = Buffer.alloc(0) } = await sharp(await card().withIccProfile('p3').png().toBuffer()).metadata()
  for (const broken of [icc.subarray(0, 300), Buffer.alloc(0), Buffer.alloc(500, 'x')]) {
    const profile = jpegSegment(0xe2, Buffer.from('ICC_PROFILE\0\x01\x01', 'latin1'), broken)
    const variants = await variantsOf(withJpegSegments(await asJpeg(card()), profile))
    t.equal(variants.length, 2)
    for (const variant of variants) checkCard(t, variant, `a profile of ${broken.length} bytes`)
  }
})

t.test('transparency is kept, of palettes too', async (t) => {
  const [glass, clear, red] = [[64, 160, 96, 128], [64, 160, 96, 0], [192, 80, 48, 255]]
  const row = (left: number[]) =>
    Buffer.concat([Buffer.alloc(800, Buffer.from(left)), Buffer.alloc(800, Buffer.from(red))])
  const picture = (left: number[]) =>
    sharp(Buffer.alloc(200 * 1600, row(left)), { raw: { width: 400, height: 200, channels: 4 } })
  const cases: [title: string, content: Buffer, left: number[], right: number[]][] = [
    ['PNG', await picture(glass).png().toBuffer(), glass, red],
    ['a palette', await picture(clear).png({ palette: true }).toBuffer(), clear, red],
    ['lossy WebP', await picture(glass).webp().toBuffer(), glass, red],
    ['lossless WebP', await picture(glass).webp({ lossless: true, effort: 1 }).toBuffer(), glass, red],
    ['AVIF', await picture(glass).avif({ effort: 0 }).toBuffer(), glass, red],
    ['GIF', await picture(clear).gif({ effort: 1 }).toBuffer(), clear, red]
  ]
  for (const [title, content, left, right] of cases) {
    const variants = await variantsOf(content)
    t.ok(variants.length > 0, title)
    for (const { name, at } of variants) {
      const seen = [at(0.1, 0.5), at(0.9, 0.5)]
      // The colour of what nobody sees is of no importance.
      const isLeft = left[3] === 0 ? seen[0]?.[3] === 0 : isClose(seen[0] ?? [], left)
      t.ok(isLeft && isClose(seen[1] ?? [], right), `${title}: ${name} has ${seen.join(' | ')}`)
    }
  }
})

t.test('of an animation the first frame is shown', async (t) => {
  const { 'animated.gif': gif, 'animated.webp': webp } = await pictures()
  for (const [name, picture] of Object.entries({ gif, webp })) {
    const [variant] = await variantsOf(picture as Buffer)
    // A GIF has 256 colours.
    const seen = variant?.at(0.25, 0.25) ?? []
    t.ok(isClose(seen, colourAt(0.25, 0.25), 20), `${name} has ${seen.join()}`)
    t.equal(variant?.height, CARD.height * WIDTH / CARD.width)
  }
})

t.test('colours for printing become colours of a screen', async (t) => {
  for (const profile of [true, false]) {
    const cmyk = card().toColourspace('cmyk')
    const picture = await (profile ? cmyk.withIccProfile('cmyk') : cmyk).jpeg({ quality: 95 }).toBuffer()
    for (const variant of await variantsOf(picture)) {
      const seen = [variant.at(0, 0), variant.at(1, 0), variant.at(0, 1)]
      // Printing has fewer colours, so only which one is the strongest is certain.
      const strongest = seen.map((corner) => corner.indexOf(Math.max(...corner.slice(0, 3))))
      t.same(strongest, [0, 1, 2], `${profile ? 'with' : 'without'} a profile: ${seen.join(' | ')}`)
    }
  }
})
