import pg from 'pg'
import { connectionOptions, type Connection } from '../../infra/postgres/connection.ts'
import { identifyDatabase } from '../../infra/postgres/identity-repository.ts'
import { positional, type Statement, type Values } from '../../infra/postgres/statement.ts'
import { IS_BEING_DELETED } from '../../modules/accounts/index.ts'

// The sizes and checksums of the uploaded files, as recorded in the database.

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
const CONNECT_TIMEOUT_MS = 10_000

/** Opens a connection for `action`, and closes it afterwards. */
export async function withClient<T> (
  connection: Connection,
  action: (client: pg.Client) => Promise<T>
): Promise<T> {
  const client = new pg.Client({
    ...connectionOptions(connection),
    application_name: 'landfall-backup',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS
  })
  client.on('error', () => {}) // the running statement fails with the same error
  try {
    await client.connect()
    return await action(client)
  } finally {
    await client.end().catch(() => {})
  }
}

export async function readAssetRows (connection: Connection): Promise<AssetRows> {
  return await withClient(connection, async (client) => {
    const found: AssetRows = new Map()
    for (let last = '';;) {
      const { rows } = await client.query(
        // The address, and not account_deletions, which a backup of an older release lacks.
        `SELECT storage_key, byte_size, checksum, ${IS_BEING_DELETED} AS may_lack_file
        FROM assets JOIN users ON users.id = user_id
        WHERE storage_key > $1 ORDER BY storage_key LIMIT $2`,
        [last, BATCH_SIZE]
      )
      for (const row of rows) {
        const { storage_key: key, byte_size: byteSize, checksum, may_lack_file: mayLackFile } = row
        found.set(key, { byteSize: BigInt(byteSize), checksum, mayLackFile })
      }
      if (rows.length < BATCH_SIZE) return found
      last = rows.at(-1).storage_key
    }
  })
}

/** Deletes the rows of the assets that were deleted during the backup, and reads the others. */
export async function removeDeletedRows (
  connection: Connection,
  deleted: readonly string[]
): Promise<AssetRows> {
  if (deleted.length > 0) {
    await withClient(
      connection,
      async (client) => await client.query('DELETE FROM assets WHERE storage_key = ANY($1)', [deleted])
    )
  }
  return await readAssetRows(connection)
}

/** Returns the id that the uploads of a database have. */
export const readDatabaseId = async (connection: Connection): Promise<string> =>
  await withClient(connection, async (client) => {
    const run = async <Row>(statement: Statement<Row>, values?: Values) =>
      (await client.query(statement.text, positional(statement, values))).rows as Row[]
    return (await identifyDatabase({ run })).id
  })

/** Whether there is a row whose file must exist. */
export function requiresFile (rows: AssetRows, key: string): boolean {
  const row = rows.get(key)
  return row !== undefined && row.mayLackFile !== true
}

/** Returns the total size of all files, in bytes. */
export const sumBytes = (rows: AssetRows): bigint =>
  [...rows.values()].reduce((sum, { byteSize }) => sum + byteSize, 0n)
