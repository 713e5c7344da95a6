import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareDataDir } from '../../infra/pglite/data-dir.ts'
import { DataDirBusyError, lockDataDir } from '../../infra/pglite/data-dir-lock.ts'
import { createInterruptedError, RESTORING } from '../../infra/pglite/embedded.ts'
import { renewDatabaseId } from '../../infra/postgres/identity-repository.ts'
import { sync, syncTree } from '../../infra/system/fs-utils.ts'
import { withConnection } from '../../infra/postgres/pool.ts'
import { removeDeletedRows } from './asset-rows.ts'
import { compareUploads, type Restored } from './compare.ts'
import { withEmbedded } from './databases.ts'
import { createFolderCopy } from './files.ts'
import { type BackupConfig, BackupError, DATA, SECRET, startStep, type WorkOptions } from './common.ts'
import type { Manifest } from './manifest.ts'
import { readPastSchedules } from './past-schedules.ts'
import { restoreUploads, withEmptyUploads, type Uploads } from './uploads.ts'

/**
 * Restores an embedded database and its uploads. The database is built in a subfolder and renamed last, so
 * that no service starts on an interrupted restore.
 */
export async function restoreEmbedded (
  config: BackupConfig,
  directory: string,
  manifest: Manifest,
  options: WorkOptions
): Promise<Restored> {
  const { DATA_DIR: dataDir } = config
  return await withLockedDataDir(dataDir, options, async (lockedOptions) => {
    await requireEmpty(dataDir)
    return await withEmptyUploads(config, async (uploads) => {
      try {
        return await restoreInto(dataDir, uploads, directory, manifest, lockedOptions)
      } catch (error) {
        for (const name of [RESTORING, SECRET]) {
          await rm(join(dataDir, name), { recursive: true, force: true })
        }
        throw error
      }
    })
  })
}

/** Holds the lock of DATA_DIR during `action`. Aborts `action` when the lock is lost. */
async function withLockedDataDir<T> (
  dataDir: string,
  options: WorkOptions,
  action: (options: WorkOptions & { signal: AbortSignal }) => Promise<T>
): Promise<T> {
  const existed = existsSync(dataDir)
  await prepareDataDir(dataDir)
  const lost = new AbortController()
  const lock = await lockDataDir(dataDir, { info () {} }, (error) => lost.abort(error))
    .catch((error: Error) => {
      if (!(error instanceof DataDirBusyError)) throw error
      throw new BackupError(
        `${error.message.split(':', 1)[0]}: stop it, then name a new folder or move its content elsewhere`,
        { cause: error }
      )
    })
  const signal = options.signal === undefined ? lost.signal : AbortSignal.any([options.signal, lost.signal])
  try {
    return await action({ ...options, signal })
  } finally {
    await lock.release()
    if (!existed) await rmdir(dataDir).catch(() => {}) // fails when the restore has filled it
  }
}

async function requireEmpty (dataDir: string): Promise<void> {
  const names = (await readdir(dataDir)).filter((name) => name !== 'lock' && name !== 'lock-owner.json')
  if (names.includes(RESTORING)) throw createInterruptedError(dataDir)
  if (names.length > 0) {
    throw new BackupError(`DATA_DIR ${dataDir} is not empty (${
      names.join(', ')
    }): name a new folder, or move its content elsewhere`)
  }
}

async function restoreInto (
  dataDir: string,
  uploads: Uploads,
  directory: string,
  manifest: Manifest,
  options: WorkOptions & { signal: AbortSignal }
): Promise<Restored> {
  const { signal } = options
  const restoring = join(dataDir, RESTORING)
  await mkdir(restoring, { mode: 0o700 })
  startStep(options, 'copying the database')
  await createFolderCopy(join(directory, DATA, 'postgres'), join(restoring, 'postgres'))(signal)
  await restoreUploads(directory, uploads, manifest.assets, options)
  startStep(options, 'opening the database')
  const { rows, pastSchedules } = await withEmbedded(restoring, async (connection) => {
    await withConnection(connection, renewDatabaseId)
    return {
      rows: await removeDeletedRows(connection, manifest.deleted),
      pastSchedules: await readPastSchedules(connection)
    }
  })
  const problems = await compareUploads(rows, uploads, options)
  await syncTree(join(restoring, 'postgres'))

  const secret = join(directory, DATA, SECRET)
  if (existsSync(secret)) {
    await copyFile(secret, join(dataDir, SECRET))
    await chmod(join(dataDir, SECRET), 0o600)
    await sync(join(dataDir, SECRET))
  }
  signal.throwIfAborted()
  await rename(join(restoring, 'postgres'), join(dataDir, 'postgres'))
  await rmdir(restoring)
  await sync(dataDir)
  return { rows, problems, pastSchedules }
}
