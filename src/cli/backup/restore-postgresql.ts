import { join } from 'node:path'
import { withConnection, type BoundedPool } from '../../infra/postgres/pool.ts'
import { RESTORE_MARK } from '../../infra/postgres/migration-repository.ts'
import { messageOf, printableAddress } from '../../infra/postgres/connection.ts'
import { removeDeletedRows } from './asset-rows.ts'
import { compareUploads, type Restored } from './compare.ts'
import { backedUpSchema } from './databases.ts'
import { type BackupConfig, BackupError, DUMP, startStep, type WorkOptions } from './common.ts'
import type { Manifest } from './manifest.ts'
import { readPastSchedules } from './past-schedules.ts'
import { loadDump } from './pg-tools.ts'
import { restoreUploads, withEmptyUploads, withUploads } from './uploads.ts'

/**
 * Restores a PostgreSQL database and its uploads. Until the restore is complete, an empty table marks the
 * database, and the service refuses to start on a marked database.
 */
export async function restorePostgresql (
  config: BackupConfig,
  directory: string,
  manifest: Manifest,
  options: WorkOptions
): Promise<Restored> {
  const url = config.DATABASE_URL as string
  const schema = backedUpSchema(config)
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
  const rows = await removeDeletedRows(url, manifest.deleted)
  const pastSchedules = await readPastSchedules(url)
  await withConnection(url, async (database) => await database.query(dropMark(schema)))
  const problems = await withUploads(config, async (uploads) => await compareUploads(rows, uploads, options))
  return { rows, problems, pastSchedules }
}

async function markEmptyDatabase (url: string, schema: string): Promise<void> {
  try {
    await withConnection(url, async (database) => {
      const found = await inspectSchema(database, schema)
      if (found?.isMarked === true) {
        throw new BackupError(`${
          printableAddress(url)
        } contains an interrupted restore: name a new database, or empty it`)
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
