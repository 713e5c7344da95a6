import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareDataDir } from '../../infra/pglite/data-dir.ts'
import { DataDirBusyError, lockDataDir } from '../../infra/pglite/data-dir-lock.ts'
import { withEmbedded } from '../../infra/pglite/beside-service.ts'
import { createInterruptedError, RESTORING } from '../../infra/pglite/embedded.ts'
import { messageOf, printableAddress } from '../../infra/postgres/connection.ts'
import { renewDatabaseId } from '../../infra/postgres/identity-repository.ts'
import { RESTORE_MARK } from '../../infra/postgres/migration-repository.ts'
import { withConnection, type BoundedPool } from '../../infra/postgres/pool.ts'
import { sync, syncTree } from '../../infra/system/fs-utils.ts'
import { readRestoredRows, type RestoredRows } from './rows.ts'
import { compareUploads, type Problem } from './compare.ts'
import { describeDatabase } from './databases.ts'
import { copySecret, createFolderCopy } from './files.ts'
import { type BackupConfig, BackupError, DATA, DUMP, SECRET, SILENT, startStep,
  type WorkOptions } from './common.ts'
import { findDamage, readManifest, type Manifest } from './manifest.ts'
import { loadDump } from './pg-tools.ts'
import { restoreUploads, withEmptyUploads, withUploads, type Uploads } from './uploads.ts'

/** What a restore has brought back. Files that the backup lacks are among the problems. */
interface Restored extends RestoredRows {
  readonly problems: readonly Problem[]
}

/**
 * Restores a backup into the database and the folders of the settings, which must be empty. The backup is not
 * changed.
 *
 * @throws {BackupError|DataDirError|Error} with one line for the user; restored data is removed again
 */
export async function restoreBackup (
  config: BackupConfig,
  directory: string,
  options: WorkOptions = {}
): Promise<Restored> {
  const manifest = await readManifest(directory)
  const { kind } = describeDatabase(config)
  if (manifest.kind !== kind) {
    throw new BackupError(manifest.kind === 'embedded'
      ? `${directory} holds an embedded database, which can't be restored into PostgreSQL: unset DATABASE_URL`
      : `${directory} comes from PostgreSQL: set DATABASE_URL to an empty database`)
  }
  const damage = await findDamage(directory, manifest, options)
  if (damage.length > 0) {
    throw new BackupError(`${directory} is damaged (${damage.length} of the files of its database, such as ` +
      `${damage[0]?.key}): restore another backup`)
  }
  const restore = kind === 'embedded' ? restoreEmbedded : restorePostgresql
  return await restore(config, directory, manifest, options)
}

/**
 * Restores an embedded database and its uploads. The database is built in a subfolder and renamed last, so
 * that no service starts on an interrupted restore.
 */
async function restoreEmbedded (
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
  const lock = await lockDataDir(dataDir, SILENT, (error) => lost.abort(error))
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
    throw new BackupError(`DATA_DIR ${dataDir} is not empty (${names.join(', ')}): name a new folder, or ` +
      'move its content elsewhere')
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
  const restored = await withEmbedded(restoring, SILENT, async (connection) => {
    await withConnection(connection, renewDatabaseId)
    return await readRestoredRows(connection, manifest.deleted)
  })
  const problems = await compareUploads(restored.rows, uploads, options)
  await syncTree(join(restoring, 'postgres'))

  await copySecret(join(directory, DATA), dataDir)
  signal.throwIfAborted()
  await rename(join(restoring, 'postgres'), join(dataDir, 'postgres'))
  await rmdir(restoring)
  await sync(dataDir)
  return { ...restored, problems }
}

/**
 * Restores a PostgreSQL database and its uploads. Until the restore is complete, an empty table marks the
 * database, and the service refuses to start on a marked database.
 */
async function restorePostgresql (
  config: BackupConfig,
  directory: string,
  manifest: Manifest,
  options: WorkOptions
): Promise<Restored> {
  const url = config.DATABASE_URL as string
  const { schema } = describeDatabase(config)
  if (manifest.schema !== schema) {
    throw new BackupError(`${directory} holds the schema ${manifest.schema}, but DATABASE_URL names ` +
      `${schema}: they must be the same`)
  }
  await markEmptyDatabase(url, schema)
  try {
    await withEmptyUploads(config, async (uploads) => {
      await restoreUploads(directory, uploads, manifest.assets, options)
      startStep(options, 'restoring the database')
      await loadDump(url, join(directory, DUMP), options.signal)
    })
  } catch (error) {
    // If this fails, the mark stays, and the error of the next start or restore says what to do.
    await unmarkIfEmpty(url, schema).catch(() => {})
    throw error
  }
  // pg_restore has committed. A failure from here on leaves the data in the database.
  const restored = await readRestoredRows(url, manifest.deleted)
  await withConnection(url, async (database) => await database.query(dropMark(schema)))
  const problems = await withUploads(
    config,
    async (uploads) => await compareUploads(restored.rows, uploads, options)
  )
  return { ...restored, problems }
}

async function markEmptyDatabase (url: string, schema: string): Promise<void> {
  try {
    await withConnection(url, async (database) => {
      const found = await inspectSchema(database, schema)
      if (found?.isMarked === true) {
        throw new BackupError(`${printableAddress(url)} contains an interrupted restore: name a new ` +
          'database, or empty it')
      }
      if (found?.hasTables === true) {
        throw new BackupError(`${printableAddress(url)} is not empty: name a new database`)
      }
      // pg_restore --schema restores the content of the schema, but does not create the schema.
      if (found === undefined) await database.query(`CREATE SCHEMA "${schema}"`)
      await database.query(`CREATE TABLE "${schema}"."${RESTORE_MARK}" ()`)
    })
  } catch (error) {
    if (error instanceof BackupError) throw error
    throw new BackupError(`${printableAddress(url)} can't be used: ${messageOf(error)}`, { cause: error })
  }
}

/** Removes the mark after a restore that has failed, unless it has created tables. */
async function unmarkIfEmpty (url: string, schema: string): Promise<void> {
  await withConnection(url, async (database) => {
    if ((await inspectSchema(database, schema))?.hasTables !== true) await database.query(dropMark(schema))
  })
}

const dropMark = (schema: string): string => `DROP TABLE "${schema}"."${RESTORE_MARK}"`

/** Tells whether a schema contains the mark and other tables; undefined if there is no such schema. */
async function inspectSchema (
  database: BoundedPool,
  schema: string
): Promise<{ isMarked: boolean, hasTables: boolean } | undefined> {
  const { rows } = await database.query({
    text: `
    SELECT coalesce(bool_or(relname = $2), false) AS "isMarked", coalesce(bool_or(relname <> $2), false) AS
      "hasTables"
    FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
    WHERE nspname = $1 GROUP BY nspname`,
    values: [schema, RESTORE_MARK]
  })
  return rows[0]
}
