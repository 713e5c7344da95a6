import type { Connection } from '../../infra/postgres/connection.ts'
import { withConnection } from '../../infra/postgres/pool.ts'
import { IS_BEING_DELETED } from '../../modules/accounts/user-repository.ts'

// Queries that backups and restores run on a database of the service, or on a copy of one.

export interface AssetRow {
  readonly byteSize: bigint
  /** SHA-256, hex. */
  readonly checksum: string
  /**
   * The owner's account is being deleted, which removes files before their rows. Not set for the rows of a
   * backup, which records such files as deleted.
   */
  readonly mayLackFile?: boolean
}

/** The rows by storage key. A million rows take about 300 MB of memory. */
export type AssetRows = Map<string, AssetRow>

const BATCH_SIZE = 10_000

export async function readAssetRows (connection: Connection): Promise<AssetRows> {
  return await withConnection(connection, async (database) => {
    const found: AssetRows = new Map()
    for (let last = '';;) {
      const { rows } = await database.query({
        // The address, and not account_deletions, which a backup of an older release lacks.
        text: `SELECT storage_key, byte_size, checksum, ${IS_BEING_DELETED} AS may_lack_file
        FROM assets JOIN users ON users.id = user_id
        WHERE storage_key > $1 ORDER BY storage_key LIMIT $2`,
        values: [last, BATCH_SIZE]
      })
      for (const row of rows) {
        const { storage_key: key, byte_size: byteSize, checksum, may_lack_file: mayLackFile } = row
        found.set(key, { byteSize: BigInt(byteSize), checksum, mayLackFile })
      }
      if (rows.length < BATCH_SIZE) return found
      last = rows.at(-1).storage_key
    }
  })
}

/** Whether there is a row whose file must exist. */
export function requiresFile (rows: AssetRows, key: string): boolean {
  const row = rows.get(key)
  return row !== undefined && row.mayLackFile !== true
}

/** Returns the total size of all files, in bytes. */
export const sumBytes = (rows: AssetRows): bigint =>
  [...rows.values()].reduce((sum, { byteSize }) => sum + byteSize, 0n)

/** A time of a schedule that came after a backup was made. The service makes the change at its next start. */
export interface PastSchedule {
  readonly publicId: string
  readonly change: 'published' | 'unpublished'
  readonly at: Date
}

/** The most past schedules that are listed. */
const MAX_LISTED = 100

export interface RestoredRows {
  readonly rows: AssetRows
  readonly pastSchedules: readonly PastSchedule[]
}

/** Deletes the rows of the assets that were deleted during the backup, and reads the others. */
export async function readRestoredRows (
  connection: Connection,
  deleted: readonly string[]
): Promise<RestoredRows> {
  const pastSchedules = await withConnection(connection, async (database) => {
    await database.query({ text: 'DELETE FROM assets WHERE storage_key = ANY($1)', values: [deleted] })
    const { rows: [table] } = await database
      .query("SELECT to_regclass('landing_page_schedules') IS NOT NULL AS exists")
    if (table.exists !== true) return [] // the backup is of an older release
    const { rows } = await database.query(`
      SELECT public_id AS "publicId", change, at
      FROM landing_page_schedules JOIN landing_pages ON landing_pages.id = page_id
      CROSS JOIN LATERAL (VALUES ('published', publish_at), ('unpublished', unpublish_at)) times (change, at)
      WHERE at <= now() ORDER BY at, page_id LIMIT ${MAX_LISTED}`)
    return rows
  })
  return { rows: await readAssetRows(connection), pastSchedules }
}
