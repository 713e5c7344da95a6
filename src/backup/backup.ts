import { existsSync, realpathSync } from 'node:fs'
import { lstat, mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { FileStore } from '../assets/file-store.ts'
import { isStorageKey } from '../assets/storage-key.ts'
import { makeFolder, sync, syncTree } from '../folders.ts'
import { compare, type AssetRows, type Problem } from './asset-rows.ts'
import { liveDatabase, schemaIn, UPLOADS, type LiveDatabase, type Place } from './databases.ts'
import { copyStored } from './files.ts'
import { describeFiles, writeManifest, type Manifest } from './manifest.ts'
import { BackupError, begin, type WorkOptions } from './progress.ts'
import { folderUploads, withUploads } from './uploads.ts'
import { sizeOf } from './verify.ts'

// A copy of everything, taken while the service runs.
//
// At every moment each row has its file: an upload names the file before it writes the row, and a deletion removes the
// row before the file; files are never changed, nor their names used again. So: first the files, which takes long; then
// the database, at one moment; then the files of the rows that came in between, which takes little. What is still
// missing was deleted after that moment, and the database of the service tells whether that is so.

export interface BackupReport {
  readonly directory: string
  readonly kind: LiveDatabase['kind']
  readonly assets: number
  readonly bytes: bigint
  /** Assets that were deleted while the copy was made, and that a restore leaves out. */
  readonly deleted: number
  /** What is wrong with the service's own data; the copy has it as it is. */
  readonly problems: readonly Problem[]
}

/**
 * Copies database, uploads and the generated secret into a new folder, which appears when it is complete and on the disk.
 *
 * @throws {BackupError|DataDirError|Error} one line for whoever runs it; nothing is left behind then
 */
export async function createBackup (place: Place, directory: string, options: WorkOptions = {}): Promise<BackupReport> {
  const { signal } = options
  if (existsSync(directory)) throw new BackupError(`${directory} is there already: name a new folder`)
  const folders = place.DATABASE_URL === undefined ? ['UPLOADS_DIR', 'DATA_DIR'] as const : ['UPLOADS_DIR'] as const
  for (const name of folders) {
    // Files that are shared or published are no place for everybody's password hashes.
    if (isWithin(directory, place[name])) throw new BackupError(`${directory} lies in ${name}: name a folder outside of it`)
  }
  const partial = `${directory}.partial`
  await makeFolder(dirname(directory))
  await mkdir(partial, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    throw new BackupError(`${partial} is there: another backup is under way, or one was interrupted; remove it then`)
  })
  try {
    const { report, manifest } = await withUploads(place, async ({ store }) => await fill(place, store, partial, directory, options))
    begin(options, 'writing to the disk')
    await syncTree(partial, signal)
    await writeManifest(partial, { ...manifest, files: await describeFiles(partial, signal) })
    await rename(partial, directory)
    await sync(dirname(directory))
    return report
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

async function fill (place: Place, store: FileStore, partial: string, directory: string, options: WorkOptions): Promise<{ report: BackupReport, manifest: Omit<Manifest, 'files'> }> {
  const { signal } = options
  const database = liveDatabase(place)
  const uploads = join(partial, UPLOADS)
  await mkdir(uploads, { mode: 0o700 })

  await copyStored(store, uploads, options, 'copying the uploads')
  begin(options, 'copying the database')
  await database.copyTo(partial, signal)
  begin(options, 'reading the copy of the database')
  const rows = await database.assetsIn(partial, signal)
  const missing = await copyMissing(rows, store, uploads, options)

  const deleted: string[] = []
  if (missing.length > 0) {
    begin(options, 'asking which assets were deleted meanwhile')
    const now = await database.assets(signal)
    for (const key of missing) if (!now.has(key)) deleted.push(key)
  }
  for (const key of deleted) rows.delete(key)
  const copied = folderUploads(uploads)
  for await (const key of copied.store.keys()) if (!rows.has(key)) await rm(join(uploads, key))

  const problems = await compare(rows, copied, options)
  return {
    report: { directory, kind: database.kind, assets: rows.size, bytes: sizeOf(rows), deleted: deleted.length, problems },
    manifest: { format: 1, kind: database.kind, schema: schemaIn(place), createdAt: new Date().toISOString(), assets: rows.size, deleted }
  }
}

/** @returns the keys of the rows whose files are in neither folder */
async function copyMissing (rows: AssetRows, from: FileStore, to: string, options: WorkOptions): Promise<string[]> {
  const missing: string[] = []
  const done = begin(options, 'copying the latest uploads')
  for (const key of rows.keys()) {
    if (!isStorageKey(key) || await isThere(join(to, key))) continue
    const size = await from.copyOut(key, join(to, key))
    if (size === undefined) missing.push(key)
    else done(size)
  }
  return missing
}

async function isThere (path: string): Promise<boolean> {
  return await lstat(path).then(() => true, () => false)
}

/** Whether a path, which need not be there, lies in a folder or is it. */
function isWithin (path: string, folder: string): boolean {
  return existsSync(folder) && !/^\.\.(?:[/\\]|$)/.test(relative(realpathSync(folder), realPath(path)))
}

const realPath = (path: string): string => existsSync(path) || dirname(path) === path ? realpathSync(path) : join(realPath(dirname(path)), basename(path))
