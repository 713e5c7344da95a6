import { constants } from 'node:fs'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sync } from '../../infra/system/fs-utils.ts'
import type { Problem } from './compare.ts'
import { computeChecksum, listFiles } from './files.ts'
import { BackupError, type DatabaseKind, startStep, UPLOADS, type WorkOptions } from './common.ts'

// backup.json describes a backup. It is written last, so a folder without this file is not a complete backup.

interface FileDescription {
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
}

export interface Manifest {
  readonly format: 1
  readonly kind: DatabaseKind
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
const CHUNK_BYTES = 1024 * 1024

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
    if (!path.startsWith(`${UPLOADS}/`)) files[path] = await describeFile(join(folder, path))
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
  for (const [key, expected] of entries) {
    const problem = await compareWithDescription(join(folder, key), expected)
    if (problem !== undefined) problems.push({ key, ...problem })
    done(expected.bytes)
  }
  return problems
}

async function compareWithDescription (
  path: string,
  { bytes, sha256 }: FileDescription
): Promise<Omit<Problem, 'key'> | undefined> {
  try {
    const actual = await describeFile(path)
    if (actual.bytes !== bytes) {
      return { kind: 'wrong size', text: `has ${actual.bytes} bytes instead of ${bytes}` }
    }
    if (actual.sha256 !== sha256) {
      return { kind: 'wrong checksum', text: `has the checksum ${actual.sha256} instead of ${sha256}` }
    }
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? { kind: 'no file', text: 'is missing' }
      : { kind: 'unreadable', text: `can't be read (${code ?? String(error)})` }
  }
}

async function describeFile (path: string): Promise<FileDescription> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    return {
      bytes: (await file.stat()).size,
      sha256: await computeChecksum(file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false }))
    }
  } finally {
    await file.close()
  }
}
