import { constants } from 'node:fs'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sync } from '../folders.ts'
import { checksumOf, type Problem } from './asset-rows.ts'
import { UPLOADS, type LiveDatabase } from './databases.ts'
import { filesIn } from './files.ts'
import { BackupError, begin, type WorkOptions } from './progress.ts'

// What a backup says of itself. It is written last: without it a folder is no backup.

interface Description {
  readonly bytes: number
  /** Hex. */
  readonly sha256: string
}

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
  readonly files: Readonly<Record<string, Description>>
}

const NAME = 'backup.json'
const CHUNK_BYTES = 1024 * 1024

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
  const files: Record<string, Description> = {}
  for await (const path of filesIn(folder)) {
    signal?.throwIfAborted()
    if (!path.startsWith(`${UPLOADS}/`) && path !== NAME) files[path] = await describe(join(folder, path))
  }
  return files
}

/** Compares the copy of the database, byte by byte, with what the backup says of it. */
export async function damageOf (folder: string, { files }: Manifest, options: WorkOptions): Promise<Problem[]> {
  const entries = Object.entries(files)
  const done = begin(options, 'checking the copy of the database', entries.length)
  const problems: Problem[] = []
  for (const [path, { bytes, sha256 }] of entries) {
    try {
      const actual = await describe(join(folder, path))
      if (actual.bytes !== bytes) problems.push({ key: path, kind: 'wrong size', text: `has ${actual.bytes} bytes instead of ${bytes}` })
      else if (actual.sha256 !== sha256) problems.push({ key: path, kind: 'wrong checksum', text: `has the checksum ${actual.sha256} instead of ${sha256}` })
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      problems.push(code === 'ENOENT' ? { key: path, kind: 'no file', text: 'is missing' } : { key: path, kind: 'unreadable', text: `can't be read (${code ?? String(error)})` })
    }
    done(bytes)
  }
  return problems
}

async function describe (path: string): Promise<Description> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    return { bytes: (await file.stat()).size, sha256: await checksumOf(file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false })) }
  } finally {
    await file.close()
  }
}
