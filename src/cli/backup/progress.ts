// The progress of a long command, and how to stop it.

export interface Progress {
  /** Such as "copying the uploads". A new step begins when the previous one is complete. */
  readonly step: string
  readonly files: number
  readonly bytes: number
  /** The number of files that the step will handle, if it is known. */
  readonly of: number | undefined
}

export interface WorkOptions {
  /** Called at the start of each step and after each file. */
  readonly onProgress?: (progress: Progress) => void
  /** Stops the command between two files. The command then removes everything that it has written. */
  readonly signal?: AbortSignal
}

/** A backup, restore or verify has failed. `message` is one line for the user. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** Reports the start of a step. Call the returned function after each file, with the size of the file. */
export function startStep (
  { onProgress, signal }: WorkOptions,
  step: string,
  of?: number
): (bytes: number) => void {
  let files = 0
  let bytes = 0
  const report = () => {
    signal?.throwIfAborted()
    onProgress?.({ step, files, bytes, of })
  }
  report()
  return (size) => {
    files++
    bytes += size
    report()
  }
}
