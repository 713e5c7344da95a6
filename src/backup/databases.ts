import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StorePlace } from '../assets/file-store.ts'
import type { Config } from '../config.ts'
import { interrupted, RESTORING, startEmbedded } from '../database/embedded.ts'
import { holdEmbedded } from '../database/hold.ts'
import { messageOf, printableAddress, schemaOf, type PoolSettings } from '../database/pool.ts'
import { readAssetRows, type AssetRows } from './asset-rows.ts'
import { FolderCopy } from './files.ts'
import { dump, dumpedAssetRows } from './pg-tools.ts'
import { BackupError } from './progress.ts'

// The two kinds of database, as they are copied and as they lie in a backup.

/** The settings that say what is to be copied, and where to. */
export type Place = Pick<Config, 'DATABASE_URL' | 'DATA_DIR'> & StorePlace

/** The database of a service, which may be running. */
export interface LiveDatabase {
  readonly kind: 'embedded' | 'postgresql'
  /** Copies it, as it is at one moment, into the folder of a backup. */
  copyTo (backup: string, signal?: AbortSignal): Promise<void>
  /** The rows of the assets in such a copy that nobody else uses. */
  assetsIn (backup: string, signal?: AbortSignal): Promise<AssetRows>
  /** The rows of the assets, as they are now. */
  assets (signal?: AbortSignal): Promise<AssetRows>
}

export const DUMP = 'database.dump'
export const DATA = 'data'
export const UPLOADS = 'uploads'
export const SECRET = 'jwt-secret'
const silent = { info () {} }

export function liveDatabase (place: Place): LiveDatabase {
  return place.DATABASE_URL === undefined ? embedded(place.DATA_DIR) : postgresql(place.DATABASE_URL)
}

/** The rows of the assets in a backup. Leaves it as it is. */
export async function backedUpAssets (backup: string, kind: LiveDatabase['kind'], schema: string, signal?: AbortSignal): Promise<AssetRows> {
  if (kind === 'postgresql') return await dumpedAssetRows(join(backup, DUMP), schema, signal)
  return await withTemporaryFolder(async (folder) => {
    await new FolderCopy(join(backup, DATA, 'postgres'), join(folder, DATA, 'postgres')).update(signal)
    return await embeddedAssetsIn(folder)
  })
}

/** Runs something on the embedded database in a folder that nobody else uses. */
export async function withEmbedded<T> (dataDir: string, action: (connection: PoolSettings['connection']) => Promise<T>): Promise<T> {
  let lost: Error | undefined
  const database = await startEmbedded(dataDir, silent, (error) => { lost = error })
  try {
    return await action(database.connection)
  } catch (error) {
    throw lost ?? error
  } finally {
    await database.close()
  }
}

/** The schema that is copied. */
export const schemaIn = ({ DATABASE_URL }: Place): string => (DATABASE_URL === undefined ? undefined : schemaOf(DATABASE_URL)) ?? 'public'

const embeddedAssetsIn = async (backup: string) => await withEmbedded(join(backup, DATA), readAssetRows)

function embedded (dataDir: string): LiveDatabase {
  const folder = join(dataDir, 'postgres')

  async function copyTo (backup: string, signal?: AbortSignal): Promise<void> {
    if (!existsSync(folder) && existsSync(join(dataDir, RESTORING))) throw interrupted(dataDir)
    if (!existsSync(folder)) throw new BackupError(`DATA_DIR ${dataDir} holds no database: name another DATA_DIR, or set DATABASE_URL`)
    const target = join(backup, DATA)
    const copy = new FolderCopy(folder, join(target, 'postgres'))
    await copy.update(signal)
    await holdEmbedded(dataDir, silent, async () => await copy.update(signal))
    // Made once and never changed; there is none where JWT_SECRET is set.
    if (!existsSync(join(dataDir, SECRET))) return
    await copyFile(join(dataDir, SECRET), join(target, SECRET))
    await chmod(join(target, SECRET), 0o600)
  }

  return {
    kind: 'embedded',
    copyTo,
    assetsIn: embeddedAssetsIn,
    async assets (signal) {
      return await withTemporaryFolder(async (temporary) => {
        await copyTo(temporary, signal)
        return await embeddedAssetsIn(temporary)
      })
    }
  }
}

function postgresql (url: string): LiveDatabase {
  return {
    kind: 'postgresql',
    async copyTo (backup, signal) {
      await dump(url, join(backup, DUMP), signal)
    },
    async assetsIn (backup, signal) {
      return await dumpedAssetRows(join(backup, DUMP), schemaOf(url) ?? 'public', signal)
    },
    async assets () {
      try {
        return await readAssetRows(url)
      } catch (error) {
        throw new BackupError(`${printableAddress(url)} can't be read: ${messageOf(error)}`, { cause: error })
      }
    }
  }
}

async function withTemporaryFolder<T> (action: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'landfall-copy-'))
  return await action(folder).finally(async () => await rm(folder, { recursive: true, force: true }))
}
