import { join } from 'node:path'
import type { Connection } from '../../infra/postgres/connection.ts'
import { forEachConcurrently } from '../../infra/system/for-each-concurrently.ts'
import { readAssetRows, withClient, type AssetRows } from './asset-rows.ts'
import type { Problem } from './compare.ts'
import { UPLOADS, type BackupConfig } from './layout.ts'
import type { Manifest } from './manifest.ts'
import { BackupError, startStep, type WorkOptions } from './progress.ts'
import { openBackupUploads, withUploads, type Uploads } from './uploads.ts'

// The steps that the restore of an embedded database and of PostgreSQL have in common.

export interface RestoredAssets {
  readonly rows: AssetRows
  readonly problems: readonly Problem[]
}

/** Runs `action`, which fills the file store that the settings select. If it fails, the store is emptied. */
export async function withEmptyUploads<T> (
  config: BackupConfig,
  action: (uploads: Uploads) => Promise<T>
): Promise<T> {
  return await withUploads(config, async (uploads) => {
    const { store } = uploads
    const clear = await store.reserve()
    if (clear === undefined) {
      throw new BackupError(`${store.place} is not empty: name a new ${
        config.UPLOADS_URL === undefined ? 'folder' : 'bucket or prefix'
      }, or move its content elsewhere`)
    }
    try {
      return await action(uploads)
    } catch (error) {
      await clear()
      throw error
    }
  })
}

/** Copies the uploads of a backup into the file store. */
export async function restoreUploads (
  directory: string,
  { store }: Uploads,
  manifest: Manifest,
  options: WorkOptions
): Promise<void> {
  const folder = join(directory, UPLOADS)
  const done = startStep(options, 'copying the uploads', manifest.assets)
  await forEachConcurrently(openBackupUploads(folder).store.keys(), store.filesAtOnce, async (key) => {
    const size = await store.copyIn(join(folder, key), key)
    if (size !== undefined) done(size)
  })
  startStep(options, 'writing the uploads to the disk')
  await store.sync(options.signal)
}

/** Deletes the rows of the assets that were deleted during the backup, and reads the others. */
export async function removeDeletedRows (
  connection: Connection,
  { deleted }: Manifest
): Promise<AssetRows> {
  if (deleted.length > 0) {
    await withClient(
      connection,
      async (client) => await client.query('DELETE FROM assets WHERE storage_key = ANY($1)', [deleted])
    )
  }
  return await readAssetRows(connection)
}
