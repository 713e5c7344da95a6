import type { Config } from '../../config.ts'
import type { StorePlace } from '../../modules/assets/storage/plugin.ts'

// What all parts of a backup share: the names of its files, the settings, progress and errors.

/** A file written by pg_dump, in a backup of PostgreSQL. */
export const DUMP = 'database.dump'
/** A copy of DATA_DIR, in a backup of an embedded database. */
export const DATA = 'data'
/** The generated JWT secret, in DATA_DIR and in its copy. Missing if JWT_SECRET is set. */
export const SECRET = 'jwt-secret'
export const UPLOADS = 'uploads'

/** The settings that say where the database and the uploads are. */
export type BackupConfig = Pick<Config, 'DATABASE_URL' | 'DATA_DIR'> & StorePlace

/** For the embedded database, whose messages would stand between those of the progress. */
export const SILENT = { info () {}, warn () {} }

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
