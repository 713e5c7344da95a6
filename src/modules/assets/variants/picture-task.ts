import type { Dimensions } from '../upload/orientation.ts'

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
  readonly extension: 'jpg' | 'png' | 'webp'
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
