import { forEachConcurrently } from '../../infra/system/for-each-concurrently.ts'
import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { deleteAssets, listAssetsOf, type OwnedFile } from './asset-repository.ts'
import type { FileStore } from './storage/file-store.ts'
import { isPicture, stemOf } from './storage/storage-key.ts'

const ASSETS_PER_STATEMENT = 100

/** What became of the assets of an account. */
export interface RemovedAssets {
  /** Assets that were removed, also those with a missing file. */
  readonly assets: number
  /** Files that were gone already. */
  readonly missing: number
  /** Assets whose files could not be removed, as the file store has logged. They keep their rows. */
  readonly failed: number
}

/**
 * Removes the assets of a user, whose account is being deleted. The files go before their rows, so that the
 * rows left by a crash tell which files are left.
 *
 * @param signal stops between two batches
 */
export async function removeAssetsOf (
  database: StatementRunner,
  store: FileStore,
  userId: number,
  signal?: AbortSignal
): Promise<RemovedAssets> {
  let [assets, missing, failed] = [0, 0, 0]
  for (let after: string | undefined; signal?.aborted !== true;) {
    const batch = await listAssetsOf(database, userId, { after, limit: ASSETS_PER_STATEMENT })
    const removed: OwnedFile[] = []
    await forEachConcurrently(batch, store.filesAtOnce, async (asset) => {
      const existed = await store.remove(asset.storageKey).catch(() => undefined)
      if (existed !== undefined) removed.push(asset)
      if (existed === false) missing++
    })
    if (removed.length > 0) await deleteAssets(database, removed.map(({ id }) => id))
    // A variant may have been stored between the removal of its picture and that of the row. The sweep
    // removes what this leaves.
    const pictures = removed.filter(({ storageKey }) => isPicture(storageKey))
    await forEachConcurrently(pictures, store.filesAtOnce, async ({ storageKey }) => {
      await store.removeVariants(stemOf(storageKey)).catch(() => {})
    })
    assets += removed.length
    failed += batch.length - removed.length
    if (batch.length < ASSETS_PER_STATEMENT) break
    after = batch.at(-1)?.id
  }
  return { assets, missing, failed }
}
