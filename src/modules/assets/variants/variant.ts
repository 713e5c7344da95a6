import type { Asset } from '../../../infra/postgres/generated/prisma/client.ts'
import { stemOf, type VariantName } from '../storage/storage-key.ts'
import type { Dimensions } from '../upload/orientation.ts'

/** A picture with fewer pixels than the original. */
export interface Variant extends VariantName {
  readonly height: number
  readonly contentType: string
}

/** What decides which variants a file has. */
export type Original = Pick<Asset, 'storageKey' | 'contentType' | 'width' | 'height' | 'noVariantsReason'>

export interface VariantSettings {
  /** In pixels; empty if variants are turned off. */
  readonly IMAGE_WIDTHS: readonly number[]
  /** Larger originals have no variants. The limit of AVIF is lower. */
  readonly IMAGE_MAX_PIXELS: number
}

type Extension = VariantName['extension']

const CONTENT_TYPES: Readonly<Record<Extension, string>> = {
  jpg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp'
}
const EXTENSIONS: Readonly<Record<string, readonly Extension[]>> = {
  'image/jpeg': ['webp', 'jpg'],
  'image/png': ['webp', 'png'],
  'image/webp': ['webp'],
  'image/gif': ['webp'],
  'image/avif': ['webp']
}
/** An AVIF of a kilobyte may take a second of processor time for each four million pixels. */
const MAX_AVIF_PIXELS = 8_000_000
/** WebP stores dimensions in 14 bits. */
const MAX_WEBP_PIXELS = 16383

/** The most pixels that an original may have, if it is to have variants. */
export const maxPixelsOf = (contentType: string, { IMAGE_MAX_PIXELS }: VariantSettings): number =>
  contentType === 'image/avif' ? Math.min(MAX_AVIF_PIXELS, IMAGE_MAX_PIXELS) : IMAGE_MAX_PIXELS

/** Returns the height of a picture that keeps its proportions. All sizes are in pixels. */
const heightFor = (width: number, original: Dimensions): number =>
  Math.max(1, Math.round(original.height * width / original.width))

/** Returns the variants of a file, the narrowest first; none if it is not a picture that can have some. */
export function variantsOf (original: Original, settings: VariantSettings): Variant[] {
  const { storageKey, contentType, width, height, noVariantsReason } = original
  const extensions = EXTENSIONS[contentType]
  if (extensions === undefined || width === null || height === null || noVariantsReason !== null) return []
  if (width * height > maxPixelsOf(contentType, settings)) return []
  const stem = stemOf(storageKey)
  return settings.IMAGE_WIDTHS.filter((narrower) => narrower < width).toSorted((one, other) => one - other)
    .flatMap((narrower) =>
      extensions.map((extension) => ({
        stem,
        width: narrower,
        extension,
        height: heightFor(narrower, { width, height }),
        contentType: CONTENT_TYPES[extension]
      }))
    ).filter(({ extension, height }) => extension !== 'webp' || height <= MAX_WEBP_PIXELS)
}

// The messages between the service and the child process that makes variants.

/** The bytes of the original are its input. */
export interface PictureTask {
  /** The type that was detected when the file was uploaded. */
  readonly contentType: string
  /** Dimensions of the original with its orientation applied, in pixels, as the service knows them. */
  readonly original: Dimensions
  readonly maxPixels: number
  /** Dimensions of the variant. */
  readonly width: number
  readonly height: number
  readonly extension: Extension
}

export type PictureResult =
  /** The bytes of the variant are the output. */
  | { readonly outcome: 'made' }
  /** The original has other dimensions. */
  | { readonly outcome: 'mismatch', readonly original: Dimensions }
  /** The original can't have variants. */
  | { readonly outcome: 'too_large' | 'unreadable', readonly reason: string }
  /** sharp ran out of memory. */
  | { readonly outcome: 'too_costly', readonly reason: string }
