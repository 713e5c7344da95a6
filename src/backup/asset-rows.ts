import { createHash } from 'node:crypto'
import pg from 'pg'
import type { FileStore } from '../assets/file-store.ts'
import { isStorageKey } from '../assets/storage-key.ts'
import { connectionOptions, type PoolSettings } from '../database/pool.ts'
import { begin, type WorkOptions } from './progress.ts'
import { each, type Uploads } from './uploads.ts'

// What the database says of the files, and what the files are.

/** What the row of an asset says of its file. */
export interface Expected {
  readonly byteSize: bigint
  /** SHA-256, hex. */
  readonly checksum: string
}

/** By storage key. A million take about 300 MB of memory. */
export type AssetRows = Map<string, Expected>

/** A row and a file that don't belong together. */
export interface Problem {
  /** The name of the file, and of the row's `storage_key`. */
  readonly key: string
  readonly kind: 'no file' | 'wrong size' | 'wrong checksum' | 'unreadable' | 'no row'
  /** A sentence. */
  readonly text: string
}

const FOREIGN = { kind: 'no file', text: 'is in the database, but is no name that the service gives' } as const
const ROWS_AT_ONCE = 10_000
const CONNECT_TIMEOUT_MS = 10_000

/** Runs something on a connection of its own. */
export async function withClient<T> (connection: PoolSettings['connection'], action: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...connectionOptions(connection), application_name: 'landfall-backup', connectionTimeoutMillis: CONNECT_TIMEOUT_MS })
  client.on('error', () => {}) // the statement under way says it too
  try {
    await client.connect()
    return await action(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Reads the rows of all assets. */
export async function readAssetRows (connection: PoolSettings['connection']): Promise<AssetRows> {
  return await withClient(connection, async (client) => {
    const found: AssetRows = new Map()
    for (let last = ''; ;) {
      const { rows } = await client.query('SELECT storage_key, byte_size, checksum FROM assets WHERE storage_key > $1 ORDER BY storage_key LIMIT $2', [last, ROWS_AT_ONCE])
      for (const row of rows) found.set(row.storage_key, { byteSize: BigInt(row.byte_size), checksum: row.checksum })
      if (rows.length < ROWS_AT_ONCE) return found
      last = rows.at(-1).storage_key
    }
  })
}

/** Compares every row with its file, byte by byte, and looks for files without a row. Names that are not the service's don't count. */
export async function compare (rows: AssetRows, { store, reason }: Uploads, options: WorkOptions): Promise<Problem[]> {
  const problems: Problem[] = []
  const done = begin(options, 'checking the uploads', rows.size)
  await each(rows, store.filesAtOnce, async ([key, expected]) => {
    // A row that somebody else made could name any file of the machine.
    const problem = !isStorageKey(key)
      ? FOREIGN
      : await compareFile(store, key, expected).catch((error: unknown): Omit<Problem, 'key'> => {
        const code = (error as NodeJS.ErrnoException).code ?? ''
        return { kind: 'unreadable', text: `can't be read (${/^E[A-Z]+$/.test(code) ? code : reason() || String(error)})` }
      })
    if (problem !== undefined) problems.push({ key, ...problem })
    done(Number(expected.byteSize))
  })
  for await (const key of store.keys()) {
    if (!rows.has(key) && await store.look(key) !== undefined) problems.push({ key, kind: 'no row', text: 'is no asset of the database' })
  }
  return problems
}

async function compareFile (store: FileStore, key: string, { byteSize, checksum }: Expected): Promise<Omit<Problem, 'key'> | undefined> {
  const file = await store.open(key, true)
  if (file === undefined) return { kind: 'no file', text: 'is missing' }
  try {
    if (BigInt(file.byteSize) !== byteSize) return { kind: 'wrong size', text: `has ${file.byteSize} bytes instead of ${byteSize}` }
    const actual = await checksumOf(await file.read())
    return actual === checksum ? undefined : { kind: 'wrong checksum', text: `has the checksum ${actual} instead of ${checksum}` }
  } finally {
    await file.close()
  }
}

/** @returns SHA-256, hex */
export async function checksumOf (content: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of content) hash.update(chunk)
  return hash.digest('hex')
}
