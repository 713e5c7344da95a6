import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { DataDirBusyError, lockDataDir, prepareDataDir } from '../database/data-dir.ts'
import { interrupted, RESTORING } from '../database/embedded.ts'
import { renewDatabaseId } from '../database/identity.ts'
import { RESTORE_MARK } from '../database/migrate.ts'
import { messageOf, printableAddress, type PoolSettings } from '../database/pool.ts'
import { sync, syncTree } from '../folders.ts'
import { compare, readAssetRows, withClient, type AssetRows, type Problem } from './asset-rows.ts'
import { DATA, DUMP, schemaIn, SECRET, UPLOADS, withEmbedded, type Place } from './databases.ts'
import { FolderCopy } from './files.ts'
import { damageOf, readManifest, type Manifest } from './manifest.ts'
import { load } from './pg-tools.ts'
import { BackupError, begin, type WorkOptions } from './progress.ts'
import { each, folderUploads, withUploads, type Uploads } from './uploads.ts'
import { sizeOf } from './verify.ts'

// A backup put where a service will start on it. The database comes last, whole: a restore that was interrupted is none.

export interface RestoreReport {
  readonly kind: Manifest['kind']
  readonly assets: number
  /** Assets whose files the backup doesn't have. */
  readonly lost: number
  readonly bytes: bigint
  /** What is wrong with the uploads in the backup. It has been restored nevertheless: better than nothing. */
  readonly problems: readonly Problem[]
}

/**
 * Restores a backup into the database and the folders of the settings, which have to be empty. The backup stays as it is.
 *
 * @throws {BackupError|DataDirError|Error} one line for whoever runs it; what was begun is removed then
 */
export async function restoreBackup (place: Place, directory: string, options: WorkOptions = {}): Promise<RestoreReport> {
  const manifest = await readManifest(directory)
  const kind = place.DATABASE_URL === undefined ? 'embedded' : 'postgresql'
  if (manifest.kind !== kind) {
    throw new BackupError(manifest.kind === 'embedded'
      ? `${directory} holds an embedded database, which can't be restored into PostgreSQL: unset DATABASE_URL`
      : `${directory} comes from PostgreSQL: set DATABASE_URL to an empty database`)
  }
  const damage = await damageOf(directory, manifest, options)
  if (damage.length > 0) {
    throw new BackupError(`${directory} is damaged (${damage.length} of the files of its database, such as ${damage[0]?.key}): restore another backup`)
  }
  return kind === 'embedded' ? await restoreEmbedded(place, directory, manifest, options) : await restorePostgresql(place, directory, manifest, options)
}

async function restoreEmbedded (place: Place, directory: string, manifest: Manifest, options: WorkOptions): Promise<RestoreReport> {
  const { DATA_DIR: dataDir } = place
  const wasThere = existsSync(dataDir)
  await prepareDataDir(dataDir)
  const lost = new AbortController()
  // Held all the time, so that no service starts on half of it; one that runs keeps us out.
  const lock = await lockDataDir(dataDir, { info () {} }, (error) => lost.abort(error)).catch((error: Error) => {
    if (!(error instanceof DataDirBusyError)) throw error
    throw new BackupError(`${error.message.split(':', 1)[0]}: stop it, and name a new folder or move away what is there`, { cause: error })
  })
  const signal = options.signal === undefined ? lost.signal : AbortSignal.any([options.signal, lost.signal])
  const restoring = join(dataDir, RESTORING)
  try {
    const others = (await readdir(dataDir)).filter((name) => name !== 'lock' && name !== 'lock-owner.json')
    if (others.includes(RESTORING)) throw interrupted(dataDir)
    if (others.length > 0) throw new BackupError(`DATA_DIR ${dataDir} is not empty (${others.join(', ')}): name a new folder, or move away what is there`)
    return await intoEmptyUploads(place, async (uploads) => {
      try {
        await mkdir(restoring, { mode: 0o700 })
        begin(options, 'copying the database')
        await new FolderCopy(join(directory, DATA, 'postgres'), join(restoring, 'postgres')).update(signal)
        await copyUploads(directory, uploads, manifest, { ...options, signal })
        begin(options, 'opening the database')
        const rows = await withEmbedded(restoring, async (connection) => {
          await withClient(connection, renewDatabaseId)
          return await rowsLessDeleted(connection, manifest)
        })
        const problems = await compare(rows, uploads, { ...options, signal })
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
        return { kind: 'embedded' as const, assets: rows.size, lost: lostIn(problems), bytes: sizeOf(rows), problems }
      } catch (error) {
        for (const name of [RESTORING, SECRET]) await rm(join(dataDir, name), { recursive: true, force: true })
        throw error
      }
    })
  } finally {
    await lock.release()
    if (!wasThere) await rmdir(dataDir).catch(() => {}) // only when nothing is in it
  }
}

async function restorePostgresql (place: Place, directory: string, manifest: Manifest, options: WorkOptions): Promise<RestoreReport> {
  const url = place.DATABASE_URL as string
  const schema = schemaIn(place)
  if (manifest.schema !== schema) throw new BackupError(`${directory} holds the schema ${manifest.schema}, DATABASE_URL names ${schema}: they have to be the same`)
  await prepareDatabase(url, schema)
  try {
    await intoEmptyUploads(place, async (uploads) => {
      await copyUploads(directory, uploads, manifest, options)
      begin(options, 'restoring the database')
      await load(url, join(directory, DUMP), options.signal)
    })
  } catch (error) {
    // Where that fails, or the database may be there all the same, the next start and restore say what is to be done.
    await removeMark(url, schema, 'if empty').catch(() => {})
    throw error
  }
  // From here on it is there, and nothing takes it away again.
  const rows = await rowsLessDeleted(url, manifest)
  await removeMark(url, schema)
  const problems = await withUploads(place, async (uploads) => await compare(rows, uploads, options))
  return { kind: 'postgresql', assets: rows.size, lost: lostIn(problems), bytes: sizeOf(rows), problems }
}

const lostIn = (problems: readonly Problem[]): number => problems.filter(({ kind }) => kind === 'no file').length

async function prepareDatabase (url: string, schema: string): Promise<void> {
  try {
    await withClient(url, async (client) => {
      const found = await contentsOf(client, schema)
      if (found?.isMarked === true) throw new BackupError(`${printableAddress(url)} holds a restore that was interrupted: name a new database, or empty it`)
      if (found?.hasOthers === true) throw new BackupError(`${printableAddress(url)} is not empty: name a new database`)
      // The program restores what is in a schema, not the schema.
      if (found === undefined) await client.query(`CREATE SCHEMA "${schema}"`)
      await client.query(`CREATE TABLE "${schema}"."${RESTORE_MARK}" ()`)
    })
  } catch (error) {
    if (error instanceof BackupError) throw error
    throw new BackupError(`${printableAddress(url)} can't be used: ${messageOf(error)}`, { cause: error })
  }
}

/** Whether the mark of a restore, or anything else, is in a schema; undefined when there is no such schema. */
async function contentsOf (client: pg.Client, schema: string): Promise<{ isMarked: boolean, hasOthers: boolean } | undefined> {
  const { rows } = await client.query<{ isMarked: boolean, hasOthers: boolean }>(`
    SELECT coalesce(bool_or(relname = $2), false) AS "isMarked", coalesce(bool_or(relname <> $2), false) AS "hasOthers"
    FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
    WHERE nspname = $1 GROUP BY nspname`, [schema, RESTORE_MARK])
  return rows[0]
}

/** From now on a service may start on the database. @param when `if empty`: only if there is nothing else in it */
async function removeMark (url: string, schema: string, when?: 'if empty'): Promise<void> {
  await withClient(url, async (client) => {
    if (when === 'if empty' && (await contentsOf(client, schema))?.hasOthers === true) return
    await client.query(`DROP TABLE "${schema}"."${RESTORE_MARK}"`)
  })
}

/** The assets whose files were deleted under the backup are removed: their rows were about to go. */
async function rowsLessDeleted (connection: PoolSettings['connection'], { deleted }: Manifest): Promise<AssetRows> {
  if (deleted.length > 0) await withClient(connection, async (client) => await client.query('DELETE FROM assets WHERE storage_key = ANY($1)', [deleted]))
  return await readAssetRows(connection)
}

async function copyUploads (directory: string, { store }: Uploads, manifest: Manifest, options: WorkOptions): Promise<void> {
  const folder = join(directory, UPLOADS)
  const done = begin(options, 'copying the uploads', manifest.assets)
  await each(folderUploads(folder).store.keys(), store.filesAtOnce, async (key) => {
    const size = await store.copyIn(join(folder, key), key)
    if (size !== undefined) done(size)
  })
  begin(options, 'writing the uploads to the disk')
  await store.sync(options.signal)
}

/** Runs `action`, which fills the store; when it fails, everything in it goes again. */
async function intoEmptyUploads<T> (place: Place, action: (uploads: Uploads) => Promise<T>): Promise<T> {
  return await withUploads(place, async (uploads) => {
    const { store } = uploads
    const clear = await store.reserve()
    if (clear === undefined) throw new BackupError(`${store.place} is not empty: name a new ${place.UPLOADS_URL === undefined ? 'folder' : 'bucket or prefix'}, or move away what is there`)
    try {
      return await action(uploads)
    } catch (error) {
      await clear()
      throw error
    }
  })
}
