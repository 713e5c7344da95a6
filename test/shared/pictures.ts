import sharp, { type Sharp } from 'sharp'
import { EXIF, jpegMetadata, pngMetadata, SECRET, XMP } from './picture-metadata.ts'
import { withJpegSegments, withPngChunks } from './picture-parts.ts'

// Makes real pictures: test cards whose corners tell what became of orientation, alpha and colour.

export type Colour = readonly [red: number, green: number, blue: number]
/** Colours of a test card's corners; between them it is smooth, so that scaling hardly changes it. */
const TOP: readonly [left: Colour, right: Colour] = [[200, 80, 70], [90, 190, 80]]
const BOTTOM: readonly [left: Colour, right: Colour] = [[70, 100, 200], [220, 210, 110]]

export interface Size {
  readonly width: number
  readonly height: number
}
export const CARD: Size = { width: 480, height: 360 }

/** Where a stored pixel is seen, for each orientation of Exif; `right` and `bottom` are the last indices. */
const SEEN_AT: readonly ((x: number, y: number, right: number, bottom: number) => [number, number])[] = [
  (x, y) => [x, y],
  (x, y, right) => [right - x, y],
  (x, y, right, bottom) => [right - x, bottom - y],
  (x, y, _right, bottom) => [x, bottom - y],
  (x, y) => [y, x],
  (x, y, _right, bottom) => [bottom - y, x],
  (x, y, right, bottom) => [bottom - y, right - x],
  (x, y, right) => [y, right - x]
]
export const ORIENTATIONS = [1, 2, 3, 4, 5, 6, 7, 8] as const

/** Returns the size of a picture after it was turned upright. */
export const uprightSize = ({ width, height }: Size, orientation: number): Size =>
  orientation >= 5 ? { width: height, height: width } : { width, height }

/** Returns the samples of a test card that is upright after the transformation of an orientation. */
function cardSamples ({ width, height }: Size, orientation: number): Buffer {
  const samples = Buffer.alloc(width * height * 3)
  const seen = uprightSize({ width, height }, orientation)
  const seenAt = SEEN_AT[orientation - 1] as (typeof SEEN_AT)[number]
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [left, top] = seenAt(x, y, width - 1, height - 1)
      const [across, down] = [left / (seen.width - 1), top / (seen.height - 1)]
      for (const sample of colourAt(across, down)) samples[at++] = Math.round(sample)
    }
  }
  return samples
}

/** Returns the colour of an upright test card at a share of its width and of its height. */
export const colourAt = (across: number, down: number): Colour =>
  mix(mix(...TOP, across), mix(...BOTTOM, across), down)

const mix = (from: Colour, to: Colour, share: number): Colour => [
  from[0] * (1 - share) + to[0] * share,
  from[1] * (1 - share) + to[1] * share,
  from[2] * (1 - share) + to[2] * share
]

/** Returns a test card to be encoded. */
export const card = (size: Size = CARD, orientation = 1): Sharp =>
  sharp(cardSamples(size, orientation), { raw: { ...size, channels: 3 } })

export const asJpeg = async (picture: Sharp): Promise<Buffer> =>
  await picture.jpeg({ quality: 95, chromaSubsampling: '4:4:4' }).toBuffer()

/** Formats whose pictures can say an orientation. */
export const ORIENTED = ['jpeg', 'png', 'webp', 'avif'] as const

/** Returns a test card that is upright after an orientation. */
export const oriented = async (format: typeof ORIENTED[number], orientation: number): Promise<Buffer> =>
  await card(CARD, orientation).withMetadata({ orientation })
    .toFormat(format, { quality: 95, chromaSubsampling: '4:4:4', effort: 1 }).toBuffer()

/** 12 megapixels, as the sensor sees them. */
export const PHOTO: Size = { width: 4032, height: 3024 }

/** Adds what a phone writes into a photo. All of it contains `SECRET` or a place. */
const withPhoneMetadata = (picture: Sharp, orientation = 1): Sharp =>
  picture.withMetadata({ orientation }).withExif(EXIF).withXmp(XMP).withIccProfile('p3')

/**
 * Returns a photo as of a phone: 12 megapixels, to be turned by 90 degrees, with its place, a thumbnail, XMP,
 * IPTC and a Display P3 profile.
 */
export async function phonePhoto (): Promise<Buffer> {
  const pixels = sharp(await card({ width: 126, height: 96 }, 6).png().toBuffer())
    .resize({ ...PHOTO, fit: 'fill', kernel: 'linear' })
  const thumbnail = await asJpeg(card({ width: 160, height: 120 }, 6))
  return withJpegSegments(await asJpeg(withPhoneMetadata(pixels, 6)), ...jpegMetadata(thumbnail))
}

/** Returns pictures of other formats that carry the metadata of a phone's photo. */
export async function picturesWithMetadata (): Promise<Record<string, Buffer>> {
  const gif = await card().gif({ effort: 1 }).toBuffer()
  return {
    'a.png': withPngChunks(await withPhoneMetadata(card()).png().toBuffer(), ...pngMetadata()),
    'a.webp': await withPhoneMetadata(card()).webp().toBuffer(),
    'a.avif': await withPhoneMetadata(card()).avif({ effort: 0 }).toBuffer(),
    'a.gif': Buffer.concat([
      gif.subarray(0, -1),
      Buffer.from(`\x21\xfe${String.fromCharCode(SECRET.length)}${SECRET}\0;`, 'latin1')
    ])
  }
}
