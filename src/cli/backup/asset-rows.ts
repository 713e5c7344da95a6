import pg from 'pg'
import { connectionOptions, type Connection } from '../../infra/postgres/connection.ts'

// The sizes and checksums of the uploaded files, as recorded in the database.

export interface AssetRow {
  readonly byteSize: bigint
  /** SHA-256, hex. */
  readonly checksum: string
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

/** Reads the rows of all assets. */
export async function readAssetRows (connection: Connection): Promise<AssetRows> {
  return await withClient(connection, async (client) => {
    const found: AssetRows = new Map()
    for (let last = '';;) {
      const { rows } = await client.query(
        'SELECT storage_key, byte_size, checksum FROM assets WHERE storage_key > $1 ORDER BY storage_key LIMIT $2',
        [last, BATCH_SIZE]
      )
      for (const row of rows) {
        found.set(row.storage_key, { byteSize: BigInt(row.byte_size), checksum: row.checksum })
      }
      if (rows.length < BATCH_SIZE) return found
      last = rows.at(-1).storage_key
    }
  })
}

/** Returns the total size of all files, in bytes. */
export const sumBytes = (rows: AssetRows): bigint =>
  [...rows.values()].reduce((sum, { byteSize }) => sum + byteSize, 0n)
