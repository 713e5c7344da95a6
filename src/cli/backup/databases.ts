import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { besideService, freeze, requireEmbedded, withEmbedded } from '../../infra/pglite/beside-service.ts'
import { messageOf, printableAddress, schemaOf, type Connection } from '../../infra/postgres/connection.ts'
import { readAssetRows, type AssetRows } from './rows.ts'
import { copySecret, createFolderCopy } from './files.ts'
import { type BackupConfig, BackupError, DATA, DUMP, SILENT } from './common.ts'
import type { Manifest } from './manifest.ts'
import { dumpDatabase, readDumpedAssetRows } from './pg-tools.ts'

// The database of the service (embedded or a PostgreSQL server) and its copy in a backup.

/** What a backup says about its database. */
export type DatabaseOfBackup = Pick<Manifest, 'kind' | 'schema'>

export const describeDatabase = ({ DATABASE_URL: url }: BackupConfig): DatabaseOfBackup =>
  url === undefined ? { kind: 'embedded', schema: 'public' }
    : { kind: 'postgresql', schema: schemaOf(url) ?? 'public' }

/** Runs `action` on the database of the service, which may be running. */
export async function withLiveDatabase<T> (
  { DATABASE_URL: url, DATA_DIR: dataDir }: BackupConfig,
  action: (connection: Connection) => Promise<T>
): Promise<T> {
  if (url === undefined) {
    requireEmbedded(dataDir)
    return await besideService(dataDir, SILENT, action)
  }
  return await action(url).catch((error: unknown) => {
    throw new BackupError(`${printableAddress(url)} can't be read: ${messageOf(error)}`, { cause: error })
  })
}

/** Copies a consistent state of the database of the service, which may be running, into a backup. */
export async function copyDatabase (
  config: BackupConfig,
  backup: string,
  signal?: AbortSignal
): Promise<void> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config
  if (url !== undefined) {
    await dumpDatabase(url, join(backup, DUMP), signal)
    return
  }
  requireEmbedded(dataDir)
  const target = join(backup, DATA)
  const copy = createFolderCopy(join(dataDir, 'postgres'), join(target, 'postgres'))
  await copy(signal)
  await withLiveDatabase(
    config,
    async (connection) => await freeze(connection, async () => await copy(signal))
  )
  await copySecret(dataDir, target)
}

/** Reads the rows of the assets from a new backup. May change the files of an embedded database. */
export async function readCopiedRows (
  backup: string,
  { kind, schema }: DatabaseOfBackup,
  signal?: AbortSignal
): Promise<AssetRows> {
  return kind === 'postgresql' ? await readDumpedAssetRows(join(backup, DUMP), schema, signal)
    : await withEmbedded(join(backup, DATA), SILENT, readAssetRows)
}

/** Reads the rows of the assets from a backup, without changing it. */
export async function readBackedUpRows (
  backup: string,
  manifest: Manifest,
  signal?: AbortSignal
): Promise<AssetRows> {
  if (manifest.kind === 'postgresql') return await readCopiedRows(backup, manifest, signal)
  const folder = await mkdtemp(join(tmpdir(), 'landfall-copy-'))
  try {
    await createFolderCopy(join(backup, DATA, 'postgres'), join(folder, DATA, 'postgres'))(signal)
    return await readCopiedRows(folder, manifest)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
