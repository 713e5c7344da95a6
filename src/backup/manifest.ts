import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { LiveDatabase } from './databases.ts'
import { sync } from '../folders.ts'
import { BackupError } from './progress.ts'

// What a backup says of itself. It is written last: without it a folder is no backup.

export interface Manifest {
  readonly format: 1
  readonly kind: LiveDatabase['kind']
  /** Of PostgreSQL. */
  readonly schema: string
  /** When the copy was complete, ISO 8601. */
  readonly createdAt: string
  /** Rows, less those in `deleted`. */
  readonly assets: number
  /** Storage keys of rows in the copy whose assets were deleted before their files were copied. A restore removes them. */
  readonly deleted: readonly string[]
}

const NAME = 'backup.json'

/** Returns when it is on the disk. */
export async function writeManifest (folder: string, manifest: Manifest): Promise<void> {
  await writeFile(join(folder, NAME), `${JSON.stringify(manifest, undefined, 2)}\n`, { mode: 0o600, flag: 'wx', flush: true })
  await sync(folder)
}

/** @throws {BackupError} the folder is not a whole backup, or of a version that is not known here */
export async function readManifest (folder: string): Promise<Manifest> {
  let manifest: Manifest
  try {
    manifest = JSON.parse(await readFile(join(folder, NAME), 'utf8')) as Manifest
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? `it has no ${NAME}` : (error as Error).message
    throw new BackupError(`${folder} is not a whole backup: ${reason}`, { cause: error })
  }
  if (manifest?.format !== 1 || !Array.isArray(manifest.deleted)) throw new BackupError(`${folder} was made by another version of the service, which has to read it`)
  return manifest
}
