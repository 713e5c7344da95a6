import { deflateSync } from 'node:zlib'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { buildTestApp, signUp, testSettings } from '../../helpers/app.ts'
import { draw } from './browser-pixels.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { pictures } from '../../helpers/hostile-pictures.ts'
import { ADOBE_RGB, DISPLAY_P3, iccProfile } from '../../shared/icc-profiles.ts'
import { pngChunk, withJpegSegments, withPngChunks } from '../../shared/picture-parts.ts'
import { asJpeg, CARD, card, cardSamples, ORIENTATIONS, ORIENTED,
  profileSegment } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { ask, store } from '../../helpers/variants.ts'

// Compares what Chromium shows of originals and of their variants.

const app = await buildTestApp(t, { settings: { ...await testSettings(t), IMAGE_WIDTHS: '320' } })
const account = await signUp(app)
const browser = await startBrowser(t, provide('chromium'))
const page = await browser.newPage()

/**
 * Differences of samples, from 0 to 255. The mean comes from rounding and lossy formats, the worst from the
 * edges, where the browser and sharp mix pixels in different ways.
 */
const TOLERANCE = { mean: 1.5, worst: 20 }
/** Chromium converts colours for printing by a shorter table of its own. */
const PRINT_TOLERANCE = { mean: 7, worst: 30 }

/** Compares a picture with its variants, over white and over black, because it may be transparent. */
async function differences (
  original: Buffer,
  type: string
): Promise<{ name: string, mean: number, worst: number }[]> {
  const { variants } = await store(app, account, original)
  const found = []
  for (const { url, width, height, content_type: variantType } of variants) {
    const { statusCode, rawPayload } = await ask(app, url)
    if (statusCode !== 200) throw new Error(`${statusCode} for ${url}`)
    for (const background of ['white', 'black']) {
      const options = { size: { width, height }, background }
      const [expected, actual] = [
        await draw(page, original, type, options),
        await draw(page, rawPayload, variantType, options)
      ]
      let [sum, worst] = [0, 0]
      for (const [index, sample] of expected.samples.entries()) {
        const difference = Math.abs(sample - (actual.samples[index] ?? 999))
        sum += difference
        worst = Math.max(worst, difference)
      }
      found.push({ name: `${variantType} over ${background}`, mean: sum / expected.samples.length, worst })
    }
  }
  return found
}

/** A test card that becomes opaque from left to right. */
function glass () {
  const samples = cardSamples(CARD)
  const pixels = Buffer.alloc(CARD.width * CARD.height * 4)
  for (let pixel = 0; pixel < CARD.width * CARD.height; pixel++) {
    samples.copy(pixels, pixel * 4, pixel * 3, pixel * 3 + 3)
    pixels[pixel * 4 + 3] = 40 + Math.round(215 * (pixel % CARD.width) / (CARD.width - 1))
  }
  return sharp(pixels, { raw: { ...CARD, channels: 4 } })
}

const withProfile = (png: Buffer, profile: Buffer) =>
  withPngChunks(png, pngChunk('iCCP', Buffer.from('a\0\0'), deflateSync(profile)))

async function check (
  t: Test,
  cases: readonly (readonly [title: string, type: string, picture: Buffer])[],
  tolerance = TOLERANCE
): Promise<void> {
  for (const [title, type, picture] of cases) {
    const found = await differences(picture, type)
    t.ok(found.length > 0, title)
    for (const { name, mean, worst } of found) {
      t.ok(
        mean <= tolerance.mean && worst <= tolerance.worst,
        `${title}: ${name} differs by ${mean}, ${worst}`
      )
    }
  }
}

t.test('variants are as upright as Chromium shows the original', async (t) => {
  // Not WebP, whose Exif data Chromium ignores.
  for (
    const [format, type] of [['jpg', 'image/jpeg'], ['png', 'image/png'], ['avif', 'image/avif']] as const
  ) {
    const encode = ORIENTED[format] as (orientation: number) => Promise<Buffer>
    for (const orientation of ORIENTATIONS) {
      await check(t, [[`${format}, orientation ${orientation}`, type, await encode(orientation)]])
    }
  }
})

t.test('variants have the colours that Chromium shows of the original', async (t) => {
  const [jpeg, png] = [await asJpeg(card()), await card().png().toBuffer()]
  for (const space of [DISPLAY_P3, ADOBE_RGB]) {
    const profile = iccProfile(space)
    await check(t, [
      [`JPEG in ${space.name}`, 'image/jpeg', withJpegSegments(jpeg, profileSegment(profile))],
      [`PNG in ${space.name}`, 'image/png', withProfile(png, profile)]
    ])
  }
  const { 'animated.gif': gif, 'animated.webp': webp } = await pictures()
  await check(t, [
    ['16 bits', 'image/png', await card().toColourspace('rgb16').png().toBuffer()],
    ['grey', 'image/png', await card().greyscale().png().toBuffer()],
    ['an animated GIF', 'image/gif', gif as Buffer],
    ['an animated WebP', 'image/webp', webp as Buffer]
  ])
})

t.test('variants are as transparent as Chromium shows the original', async (t) => {
  // Not AVIF, whose alpha Chromium takes for one of a smaller range.
  await check(t, [
    ['RGB with alpha', 'image/png', await glass().png().toBuffer()],
    ['RGB with alpha of 16 bits', 'image/png', await glass().toColourspace('rgb16').png().toBuffer()],
    ['a palette with alpha', 'image/png', await glass().png({ palette: true }).toBuffer()],
    ['grey with alpha', 'image/png', await glass().greyscale().png().toBuffer()],
    ['WebP with alpha', 'image/webp', await glass().webp({ quality: 95 }).toBuffer()]
  ])
})

t.test('variants of a picture for printing are similar to what Chromium shows', async (t) => {
  const picture = await card().toColourspace('cmyk').withIccProfile('cmyk').jpeg({ quality: 95 }).toBuffer()
  await check(t, [['CMYK with a profile', 'image/jpeg', picture]], PRINT_TOLERANCE)
})
