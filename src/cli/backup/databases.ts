import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterruptedError, RESTORING, startEmbedded } from '../../infra/pglite/embedded.ts'
import { withFrozenDatabase } from '../../infra/pglite/freeze-lock.ts'
import { messageOf, printableAddress, schemaOf, type Connection } from '../../infra/postgres/connection.ts'
import { readAssetRows, type AssetRows } from './rows.ts'
import { identifyDatabase } from '../../infra/postgres/identity-repository.ts'
import { withConnection } from '../../infra/postgres/pool.ts'
import { createFolderCopy } from './files.ts'
import { type BackupConfig, BackupError, DATA, type DatabaseKind, DUMP, SECRET } from './common.ts'
import type { Manifest } from './manifest.ts'
import { dumpDatabase, readDumpedAssetRows } from './pg-tools.ts'

// The database of the service (embedded or a PostgreSQL server) and its copy in a backup.

/** The database of the service, which may be running. */
export interface LiveDatabase {
  readonly kind: DatabaseKind
  /** Copies a consistent state of the database into a backup. */
  copyTo(backup: string, signal?: AbortSignal): Promise<void>
  readRows(signal?: AbortSignal): Promise<AssetRows>
  /** Returns the id that the uploads of the database have. */
  readId(signal?: AbortSignal): Promise<string>
}

const readDatabaseId = async (connection: Connection): Promise<string> =>
  (await withConnection(connection, identifyDatabase)).id

const SILENT = { info () {}, warn () {} }

export const openLiveDatabase = (config: BackupConfig): LiveDatabase =>
  config.DATABASE_URL === undefined ? embeddedDatabase(config.DATA_DIR)
    : postgresqlDatabase(config.DATABASE_URL)

/** The PostgreSQL schema that a backup contains. */
export const backedUpSchema = ({ DATABASE_URL }: BackupConfig): string =>
  (DATABASE_URL === undefined ? undefined : schemaOf(DATABASE_URL)) ?? 'public'

/** Reads the rows of the assets from a new backup. May change the files of an embedded database. */
export async function readCopiedRows (
  backup: string,
  { kind, schema }: Pick<Manifest, 'kind' | 'schema'>,
  signal?: AbortSignal
): Promise<AssetRows> {
  return kind === 'postgresql' ? await readDumpedAssetRows(join(backup, DUMP), schema, signal)
    : await withEmbedded(join(backup, DATA), readAssetRows)
}

/** Reads the rows of the assets from a backup, without changing it. */
export async function readBackedUpRows (
  backup: string,
  manifest: Manifest,
  signal?: AbortSignal
): Promise<AssetRows> {
  if (manifest.kind === 'postgresql') return await readCopiedRows(backup, manifest, signal)
  return await withTemporaryFolder(async (folder) => {
    await createFolderCopy(join(backup, DATA, 'postgres'), join(folder, DATA, 'postgres'))(signal)
    return await readCopiedRows(folder, manifest)
  })
}

/** Runs `action` on an embedded database that no service uses. */
export async function withEmbedded<T> (
  dataDir: string,
  action: (connection: Connection) => Promise<T>
): Promise<T> {
  let lost: Error | undefined
  const database = await startEmbedded(dataDir, SILENT, (error) => {
    lost = error
  })
  try {
    return await action(database.connection)
  } catch (error) {
    throw lost ?? error
  } finally {
    await database.close()
  }
}

function embeddedDatabase (dataDir: string): LiveDatabase {
  async function copyTo (backup: string, signal?: AbortSignal): Promise<void> {
    const folder = join(dataDir, 'postgres')
    if (!existsSync(folder)) {
      if (existsSync(join(dataDir, RESTORING))) throw createInterruptedError(dataDir)
      throw new BackupError(`DATA_DIR ${dataDir} holds no database: name another DATA_DIR, or set ` +
        'DATABASE_URL')
    }
    const target = join(backup, DATA)
    const copy = createFolderCopy(folder, join(target, 'postgres'))
    await copy(signal)
    await withFrozenDatabase(dataDir, SILENT, async () => await copy(signal))
    if (existsSync(join(dataDir, SECRET))) {
      await copyFile(join(dataDir, SECRET), join(target, SECRET))
      await chmod(join(target, SECRET), 0o600)
    }
  }

  async function read<T> (
    action: (connection: Connection) => Promise<T>,
    signal: AbortSignal | undefined
  ): Promise<T> {
    return await withTemporaryFolder(async (temporary) => {
      await copyTo(temporary, signal)
      return await withEmbedded(join(temporary, DATA), action)
    })
  }

  return {
    kind: 'embedded',
    copyTo,
    readRows: async (signal) => await read(readAssetRows, signal),
    readId: async (signal) => await read(readDatabaseId, signal)
  }
}

function postgresqlDatabase (url: string): LiveDatabase {
  async function read<T> (action: (connection: Connection) => Promise<T>): Promise<T> {
    try {
      return await action(url)
    } catch (error) {
      throw new BackupError(`${printableAddress(url)} can't be read: ${messageOf(error)}`, { cause: error })
    }
  }

  return {
    kind: 'postgresql',
    async copyTo (backup, signal) {
      await dumpDatabase(url, join(backup, DUMP), signal)
    },
    readRows: async () => await read(readAssetRows),
    readId: async () => await read(readDatabaseId)
  }
}

async function withTemporaryFolder<T> (action: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'landfall-copy-'))
  return await action(folder).finally(async () => await rm(folder, { recursive: true, force: true }))
}
