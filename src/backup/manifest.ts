import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeFile, findTrouble, type Problem } from './asset-rows.ts'
import { UPLOADS, type LiveDatabase } from './databases.ts'
import { filesIn, sync } from './files.ts'
import { BackupError, begin, type WorkOptions } from './progress.ts'

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
  /** Every file of the backup but this one and the uploads, which the database describes; by path. */
  readonly files: Readonly<Record<string, { readonly bytes: number, readonly sha256: string }>>
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
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? `it has no ${NAME}` : error instanceof SyntaxError ? `its ${NAME} is damaged` : (error as Error).message
    throw new BackupError(`${folder} is not a whole backup: ${reason}`, { cause: error })
  }
  if (manifest?.format !== 1 || !Array.isArray(manifest.deleted) || typeof manifest.files !== 'object') throw new BackupError(`${folder} was made by another version of the service, which has to read it`)
  return manifest
}

/** What `Manifest.files` is to say of a backup that is complete. */
export async function describeFiles (folder: string, signal?: AbortSignal): Promise<Manifest['files']> {
  const files: Record<string, { bytes: number, sha256: string }> = {}
  for await (const path of filesIn(folder)) {
    signal?.throwIfAborted()
    if (path.startsWith(`${UPLOADS}/`) || path === NAME) continue
    const { byteSize, checksum } = await describeFile(join(folder, path))
    files[path] = { bytes: Number(byteSize), sha256: checksum }
  }
  return files
}

/** Compares the copy of the database, byte by byte, with what the backup says of it. */
export async function damageOf (folder: string, { files }: Manifest, options: WorkOptions): Promise<Problem[]> {
  const entries = Object.entries(files)
  const done = begin(options, 'checking the copy of the database', entries.length)
  const problems: Problem[] = []
  for (const [path, { bytes, sha256 }] of entries) {
    const trouble = await findTrouble(join(folder, path), { byteSize: BigInt(bytes), checksum: sha256 })
    if (trouble !== undefined) problems.push({ key: path, ...trouble })
    done(bytes)
  }
  return problems
}
