// What long work tells of itself, and how it is broken off.

/** How far a step has come. */
export interface Progress {
  /** Such as "copying the uploads"; another one means that the one before is complete. */
  readonly step: string
  readonly files: number
  readonly bytes: number
  /** Files at the end of the step, where that is known. */
  readonly of: number | undefined
}

export interface WorkOptions {
  /** Called at the start of each step and after each file. */
  readonly onProgress?: (progress: Progress) => void
  /** Breaks off between two files; what was made until then is removed. */
  readonly signal?: AbortSignal
}

/** The work can't be done; `message` is for whoever runs it. */
export class BackupError extends Error {
  constructor (message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BackupError'
  }
}

/** Announces a step; the function that it gives is called after each file with its size. */
export function begin ({ onProgress, signal }: WorkOptions, step: string, of?: number): (bytes: number) => void {
  let files = 0
  let bytes = 0
  signal?.throwIfAborted()
  onProgress?.({ step, files, bytes, of })
  return (size) => {
    files++
    bytes += size
    signal?.throwIfAborted()
    onProgress?.({ step, files, bytes, of })
  }
}
