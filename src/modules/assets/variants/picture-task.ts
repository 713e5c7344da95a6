import type { Dimensions } from '../upload/upright.ts'

// The messages between the service and the child process that makes variants.

/** The parent sends the bytes of the original, after the task, to the standard input. */
export interface PictureTask {
  /** Size of the original. */
  readonly byteSize: number
  /** The type that was detected when the file was uploaded. */
  readonly contentType: string
  /** Upright dimensions of the original, in pixels, as the service knows them. */
  readonly original: Dimensions
  readonly maxPixels: number
  /** Dimensions of the variant. */
  readonly width: number
  readonly height: number
  readonly extension: 'jpg' | 'png' | 'webp'
}

export type PictureResult =
  /** The bytes of the variant follow on the standard output. */
  | { readonly outcome: 'made', readonly byteSize: number }
  /** The original has other dimensions. */
  | { readonly outcome: 'mismatch', readonly original: Dimensions }
  /** The original can't have variants. */
  | { readonly outcome: 'too_large' | 'unreadable', readonly reason: string }
  /** sharp ran out of memory. */
  | { readonly outcome: 'too_costly', readonly reason: string }
