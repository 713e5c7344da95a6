import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { isMissing } from '../assets/disk-store.ts'
import { presentationOf } from '../assets/storage-key.ts'
import { connectionOptions, type PoolSettings } from '../database/pool.ts'
import { storedNames } from './files.ts'
import { begin, type WorkOptions } from './progress.ts'

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
const CHUNK_BYTES = 1024 * 1024
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
export async function compare (rows: AssetRows, folder: string, options: WorkOptions): Promise<Problem[]> {
  const problems: Problem[] = []
  const done = begin(options, 'checking the uploads', rows.size)
  for (const [key, expected] of rows) {
    // A row that somebody else made could name any file of the machine.
    const trouble = presentationOf(key) === undefined ? FOREIGN : await findTrouble(join(folder, key), expected)
    if (trouble !== undefined) problems.push({ key, ...trouble })
    done(Number(expected.byteSize))
  }
  for await (const key of storedNames(folder)) {
    if (!rows.has(key) && (await lstat(join(folder, key)).catch(() => undefined))?.isFile() === true) problems.push({ key, kind: 'no row', text: 'is no asset of the database' })
  }
  return problems
}

/**
 * What a file is.
 *
 * @throws {Error} when it can't be read
 */
export async function describeFile (path: string): Promise<Expected> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    return { byteSize: (await file.stat({ bigint: true })).size, checksum: await checksumOf(file) }
  } finally {
    await file.close()
  }
}

/** What keeps a file from being what is expected; undefined when nothing does. */
export async function findTrouble (path: string, { byteSize, checksum }: Expected): Promise<Omit<Problem, 'key'> | undefined> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const stats = await file.stat({ bigint: true })
      if (!stats.isFile()) return { kind: 'no file', text: 'is not a file' }
      if (stats.size !== byteSize) return { kind: 'wrong size', text: `has ${stats.size} bytes instead of ${byteSize}` }
      const actual = await checksumOf(file)
      if (actual !== checksum) return { kind: 'wrong checksum', text: `has the checksum ${actual} instead of ${checksum}` }
    } finally {
      await file.close()
    }
  } catch (error) {
    if (isMissing(error)) return { kind: 'no file', text: 'is missing' }
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') return { kind: 'no file', text: 'is a link, not a file' }
    return { kind: 'unreadable', text: `can't be read (${(error as NodeJS.ErrnoException).code ?? String(error)})` }
  }
}

async function checksumOf (file: FileHandle): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of file.createReadStream({ highWaterMark: CHUNK_BYTES, autoClose: false })) hash.update(chunk)
  return hash.digest('hex')
}
