import sharp, { type Sharp } from 'sharp'
import { DISPLAY_P3, iccProfile } from './icc-profiles.ts'
import { exifOrientation, jpegMetadata, phoneExif, pngMetadata, SECRET, xmp } from './picture-metadata.ts'
import { jpegSegment, pngChunk, withAvifTransforms, withJpegSegments, withPngChunks,
  withWebpMetadata } from './picture-parts.ts'

// Makes real pictures: test cards whose corners tell what became of orientation, alpha and colour.

export type Colour = readonly [red: number, green: number, blue: number]
/** Colours of a test card's corners; between them it is smooth, so that scaling hardly changes it. */
export interface Corners {
  readonly topLeft: Colour
  readonly topRight: Colour
  readonly bottomLeft: Colour
  readonly bottomRight: Colour
}
export const CORNERS: Corners = {
  topLeft: [200, 80, 70],
  topRight: [90, 190, 80],
  bottomLeft: [70, 100, 200],
  bottomRight: [220, 210, 110]
}

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
export function cardSamples ({ width, height }: Size, orientation = 1, corners: Corners = CORNERS): Buffer {
  const samples = Buffer.alloc(width * height * 3)
  const seen = uprightSize({ width, height }, orientation)
  const seenAt = SEEN_AT[orientation - 1] as (typeof SEEN_AT)[number]
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [left, top] = seenAt(x, y, width - 1, height - 1)
      const [across, down] = [left / (seen.width - 1), top / (seen.height - 1)]
      for (const sample of colourAt(across, down, corners)) samples[at++] = Math.round(sample)
    }
  }
  return samples
}

/** Returns the colour of an upright test card at a share of its width and of its height. */
export function colourAt (across: number, down: number, corners: Corners = CORNERS): Colour {
  const upper = mix(corners.topLeft, corners.topRight, across)
  return mix(upper, mix(corners.bottomLeft, corners.bottomRight, across), down)
}

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

/** The ways in which formats say an orientation, and pictures that are upright after it. */
export const ORIENTED: Readonly<Record<string, (orientation: number) => Promise<Buffer>>> = {
  jpg: async (orientation) => {
    const exif = jpegSegment(0xe1, Buffer.from('Exif\0\0'), exifOrientation(orientation))
    return withJpegSegments(await asJpeg(card(CARD, orientation)), exif)
  },
  png: async (orientation) =>
    withPngChunks(
      await card(CARD, orientation).png().toBuffer(),
      pngChunk('eXIf', exifOrientation(orientation))
    ),
  webp: async (orientation) =>
    withWebpMetadata(await card(CARD, orientation).webp({ quality: 95 }).toBuffer(), CARD, {
      exif: exifOrientation(orientation)
    }),
  avif: async (orientation) =>
    withAvifTransforms(
      await card(CARD, orientation).avif({ quality: 80, effort: 0 }).toBuffer(),
      ...AVIF_TRANSFORMS[orientation - 1] ?? []
    )
}

const transform = (name: string, value: number): Buffer =>
  Buffer.concat([Buffer.from([0, 0, 0, 9]), Buffer.from(name), Buffer.from([value])])
/** Quarter turns against the clock, then mirroring: 0 exchanges top and bottom, 1 left and right. */
const AVIF_TRANSFORMS: readonly (readonly Buffer[])[] = [
  [],
  [transform('imir', 1)],
  [transform('irot', 2)],
  [transform('imir', 0)],
  [transform('irot', 1), transform('imir', 0)],
  [transform('irot', 3)],
  [transform('irot', 3), transform('imir', 0)],
  [transform('irot', 1)]
]

/** 12 megapixels, as the sensor sees them. */
export const PHOTO: Size = { width: 4032, height: 3024 }

/**
 * Returns a photo as of a phone: 12 megapixels, to be turned by 90 degrees, with its place, a thumbnail, XMP,
 * IPTC and a Display P3 profile. All metadata contains `SECRET`.
 */
export async function phonePhoto (): Promise<Buffer> {
  const small = cardSamples({ width: 126, height: 96 }, 6)
  const pixels = sharp(small, { raw: { width: 126, height: 96, channels: 3 } })
    .resize({ ...PHOTO, fit: 'fill', kernel: 'linear' })
  const thumbnail = await withThumbnailSecret()
  return withJpegSegments(
    await asJpeg(pixels),
    ...jpegMetadata(phoneExif(6, thumbnail)),
    profileSegment(iccProfile(DISPLAY_P3, SECRET))
  )
}

async function withThumbnailSecret (): Promise<Buffer> {
  const thumbnail = await asJpeg(card({ width: 160, height: 120 }, 6))
  return withJpegSegments(thumbnail, jpegSegment(0xfe, Buffer.from(`${SECRET} thumbnail`)))
}

/** Returns the segment of a JPEG with a profile that fits into one. */
export const profileSegment = (profile: Buffer): Buffer =>
  jpegSegment(0xe2, Buffer.from('ICC_PROFILE\0\x01\x01', 'latin1'), profile)

/** Returns pictures of other formats that carry the metadata of a phone's photo. */
export async function picturesWithMetadata (): Promise<Record<string, Buffer>> {
  const exif = phoneExif(1, await withThumbnailSecret())
  const profile = iccProfile(DISPLAY_P3, SECRET)
  const tagged = async (picture: Sharp) => await picture.toBuffer()
  return {
    'a.png': withPngChunks(await tagged(card().png()), ...pngMetadata(exif)),
    'a.webp': withWebpMetadata(await tagged(card().webp()), CARD, { exif, xmp: xmp() }),
    'a.avif': await tagged(card().withExif({
      IFD0: { Make: SECRET, Artist: SECRET },
      IFD3: { GPSLatitude: '47/1 33/1 123457/10007' }
    })
      .withXmp(xmp().toString()).avif({ effort: 0 })),
    'a.gif': Buffer.concat([
      (await tagged(card().gif({ effort: 1 }))).subarray(0, -1),
      Buffer.from(`\x21\xfe${String.fromCharCode(SECRET.length)}${SECRET}\0;`, 'latin1')
    ]),
    'a.jpg': withJpegSegments(await asJpeg(card()), ...jpegMetadata(exif), profileSegment(profile))
  }
}
