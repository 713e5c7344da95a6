import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sync } from '../../infra/system/fs-utils.ts'
import { openRegularFile } from '../../modules/assets/storage/disk-files.ts'
import type { OpenFile } from '../../modules/assets/storage/file-store.ts'
import { compareFile, computeChecksum, type Problem } from './compare.ts'
import { listFiles } from './files.ts'
import { BackupError, startStep, UPLOADS, type WorkOptions } from './common.ts'

// backup.json describes a backup. It is written last, so a folder without this file is not a complete backup.

interface FileDescription {
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
}

export interface Manifest {
  readonly format: 1
  readonly kind: 'embedded' | 'postgresql'
  /** The PostgreSQL schema that was backed up. */
  readonly schema: string
  /** When the backup was completed, ISO 8601. */
  readonly createdAt: string
  /** The number of assets, without those in `deleted`. */
  readonly assets: number
  /** Storage keys of assets that are in the copy of the database, but were deleted during the backup. */
  readonly deleted: readonly string[]
  /** All files of the backup by path, except backup.json and the uploads (the database lists those). */
  readonly files: Readonly<Record<string, FileDescription>>
}

const MANIFEST = 'backup.json'

/** Writes the manifest and syncs it to the disk. */
export async function writeManifest (folder: string, manifest: Manifest): Promise<void> {
  await writeFile(join(folder, MANIFEST), `${JSON.stringify(manifest, undefined, 2)}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true
  })
  await sync(folder)
}

/** @throws {BackupError} the folder is not a complete backup, or its format is unknown */
export async function readManifest (folder: string): Promise<Manifest> {
  let manifest: Manifest
  try {
    manifest = JSON.parse(await readFile(join(folder, MANIFEST), 'utf8')) as Manifest
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? `it has no ${MANIFEST}`
      : error instanceof SyntaxError ? `its ${MANIFEST} is damaged` : (error as Error).message
    throw new BackupError(`${folder} is not a complete backup: ${reason}`, { cause: error })
  }
  if (manifest?.format !== 1) {
    throw new BackupError(`${folder} was made by another version of Landfall: use that version to read it`)
  }
  return manifest
}

/** Describes the files of a complete backup for `Manifest.files`. */
export async function describeFiles (folder: string, signal?: AbortSignal): Promise<Manifest['files']> {
  const files: Record<string, FileDescription> = {}
  for await (const path of listFiles(folder)) {
    signal?.throwIfAborted()
    if (path.startsWith(`${UPLOADS}/`)) continue
    const file = await openRegularFile(join(folder, path)) as OpenFile
    files[path] = { bytes: file.byteSize, sha256: await computeChecksum(file) }
  }
  return files
}

/** Compares the copy of the database with its description in the manifest, byte by byte. */
export async function findDamage (
  folder: string,
  { files }: Manifest,
  options: WorkOptions
): Promise<Problem[]> {
  const entries = Object.entries(files)
  const done = startStep(options, 'checking the copy of the database', entries.length)
  const problems: Problem[] = []
  for (const [path, { bytes, sha256 }] of entries) {
    const expected = { byteSize: BigInt(bytes), checksum: sha256 }
    const problem = await compareFile(path, async () => await openRegularFile(join(folder, path)), expected)
    if (problem !== undefined) problems.push(problem)
    done(bytes)
  }
  return problems
}
