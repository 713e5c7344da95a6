import { existsSync, realpathSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import type { FileStore } from '../../modules/assets/storage/file-store.ts'
import { isStorageKey } from '../../modules/assets/storage/storage-key.ts'
import { forEachConcurrently } from '../../infra/system/semaphore.ts'
import { makeFolder, sync, syncTree } from '../../infra/system/fs-utils.ts'
import { readAssetRows, requiresFile, type AssetRows } from './rows.ts'
import { compareUploads, type Problem } from './compare.ts'
import { copyDatabase, describeDatabase, readCopiedRows, withLiveDatabase } from './databases.ts'
import { type BackupConfig, BackupError, startStep, UPLOADS, type WorkOptions } from './common.ts'
import { describeFiles, writeManifest } from './manifest.ts'
import { openBackupUploads, withUploads } from './uploads.ts'

// Creates a backup while the service runs. docs/backup.md explains why the files are copied before the
// database, and why files that are still missing are copied after it.

/** What a backup contains. Damaged files of the service are copied as they are. */
interface Content {
  readonly rows: AssetRows
  /** The keys of assets that were deleted during the backup. A restore leaves them out. */
  readonly deleted: readonly string[]
  readonly problems: readonly Problem[]
}

/**
 * Copies the database, the uploads and the generated secret into a new folder. The folder gets its name when
 * it is complete and synced to the disk.
 *
 * @throws {BackupError|DataDirError|Error} with one line for the user; nothing is left behind
 */
export async function createBackup (
  config: BackupConfig,
  directory: string,
  options: WorkOptions = {}
): Promise<Content> {
  const { signal } = options
  const database = describeDatabase(config)
  checkTarget(config, directory)
  const partial = `${directory}.partial`
  await makeFolder(dirname(directory))
  await mkdir(partial, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
    throw new BackupError(`${partial} exists: another backup is running, or one was interrupted; if none ` +
      'is running, remove it')
  })
  try {
    const content = await withUploads(
      config,
      async ({ store }) => await fillBackup(config, store, partial, options)
    )
    startStep(options, 'writing to the disk')
    await syncTree(partial, signal)
    await writeManifest(partial, {
      format: 1,
      ...database,
      createdAt: new Date().toISOString(),
      assets: content.rows.size,
      deleted: content.deleted,
      files: await describeFiles(partial, signal)
    })
    await rename(partial, directory)
    await sync(dirname(directory))
    return content
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

/** A backup contains password hashes, so it must not be in UPLOADS_DIR, which the service publishes. */
function checkTarget (config: BackupConfig, directory: string): void {
  if (existsSync(directory)) throw new BackupError(`${directory} exists: name a new folder`)
  const folders = config.DATABASE_URL === undefined ? ['UPLOADS_DIR', 'DATA_DIR'] as const
    : ['UPLOADS_DIR'] as const
  for (const name of folders) {
    if (isWithin(directory, config[name])) {
      throw new BackupError(`${directory} is inside ${name}: name a folder outside of it`)
    }
  }
}

async function fillBackup (
  config: BackupConfig,
  store: FileStore,
  backup: string,
  options: WorkOptions
): Promise<Content> {
  const { signal } = options
  const uploads = join(backup, UPLOADS)
  await mkdir(uploads, { mode: 0o700 })

  await copyUploads(store.keys(), store, uploads, startStep(options, 'copying the uploads'))
  startStep(options, 'copying the database')
  await copyDatabase(config, backup, signal)
  startStep(options, 'reading the copy of the database')
  const rows = await readCopiedRows(backup, describeDatabase(config), signal)
  const done = startStep(options, 'copying the latest uploads')
  const missing = await copyUploads(rows.keys(), store, uploads, done)

  const deleted: string[] = []
  if (missing.length > 0) {
    startStep(options, 'checking which assets were deleted during the backup')
    const rowsNow = await withLiveDatabase(config, readAssetRows)
    deleted.push(...missing.filter((key) => !requiresFile(rowsNow, key)))
  }
  for (const key of deleted) rows.delete(key)
  const copied = openBackupUploads(uploads)
  for await (const key of copied.store.keys()) if (!rows.has(key)) await rm(join(uploads, key))

  return { rows, deleted, problems: await compareUploads(rows, copied, options) }
}

/** Copies the files that the folder lacks. @returns the keys of those that the store lacks, too */
async function copyUploads (
  keys: Iterable<string> | AsyncIterable<string>,
  store: FileStore,
  folder: string,
  done: (bytes: number) => void
): Promise<string[]> {
  const missing: string[] = []
  await forEachConcurrently(keys, store.filesAtOnce, async (key) => {
    if (!isStorageKey(key) || existsSync(join(folder, key))) return
    const size = await store.copyOut(key, join(folder, key))
    if (size === undefined) missing.push(key)
    else done(size)
  })
  return missing
}

/** Whether a path is inside a folder or is the folder. The path need not exist. */
function isWithin (path: string, folder: string): boolean {
  return existsSync(folder) && !/^\.\.(?:[/\\]|$)/.test(relative(realpathSync(folder), realPath(path)))
}

const realPath = (path: string): string =>
  existsSync(path) || dirname(path) === path ? realpathSync(path)
    : join(realPath(dirname(path)), basename(path))
