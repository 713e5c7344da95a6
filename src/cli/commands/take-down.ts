import { forEachConcurrently } from '../../infra/system/semaphore.ts'
import { deleteAnyAsset, removeFile } from '../../modules/assets/index.ts'
import { deleteAnyPage, DOCUMENT_SCRIPTS, publishDeletion } from '../../modules/landing-pages/index.ts'
import { auditCommand, loadCommandConfig, withDatabase, withRedis } from '../operator.ts'
import { withUploads, type Uploads } from '../backup/uploads.ts'
import { formatCount, print, printProgress } from '../output.ts'

// The commands that delete a page or an asset of any account, and what has to follow when rows were deleted:
// readers must get a 404, and files must go.

const PAGES_AT_ONCE = 50
const STILL_CACHED =
  'Redis cannot be reached, so the replicas may still serve what was deleted for up to a minute.'

/** Deletes a page. Readers get a 404 at once, on all replicas. */
export async function takeDownPage (publicId: string): Promise<void> {
  const config = loadCommandConfig()
  const id = await withDatabase(config, async (database) => await deleteAnyPage(database, publicId))
  if (id === undefined) throw new Error(`There is no page ${publicId}: give the last part of its public URL`)
  auditCommand('pages take-down', { page: id, public_id: publicId })
  await createDeletionPublisher(config.REDIS_URL)([publicId])
  print(`Deleted page ${publicId}\n`)
}

/** Deletes an asset and its file. Returns the exit code. */
export async function takeDownAsset (name: string): Promise<number> {
  const config = loadCommandConfig()
  return await withUploads(config, async (uploads) => {
    await uploads.store.assertWritable()
    return await withDatabase(config, async (database) => {
      const asset = await deleteAnyAsset(database, name)
      if (asset === undefined) {
        throw new Error(`There is no asset ${name}: give its id, or the last part of its URL`)
      }
      auditCommand('assets take-down', { asset: asset.id })
      print(`Deleted asset ${asset.id}, ${asset.storageKey}\n`)
      const existed = await removeFile(database, uploads.store, asset.storageKey).catch(() => undefined)
      const removed = { missing: existed === false ? 1 : 0, failed: existed === undefined ? 1 : 0 }
      return reportRemovedFiles(uploads, removed, 'every hour')
    })
  })
}

/**
 * Returns a function that publishes the deletion of pages to all replicas. Without Redis they notice it by
 * themselves: the service with an embedded database at once, others within a second. After a failure it does
 * nothing, so that a command doesn't wait for Redis again and again.
 */
export function createDeletionPublisher (
  redisUrl: string | undefined
): (publicIds: readonly string[]) => Promise<void> {
  let isReachable = true
  return async (publicIds) => {
    if (redisUrl === undefined || publicIds.length === 0 || !isReachable) return
    await withRedis(
      redisUrl,
      DOCUMENT_SCRIPTS,
      async (redis) =>
        await forEachConcurrently(publicIds, PAGES_AT_ONCE, async (id) => await publishDeletion(redis, id))
    ).catch(() => {
      isReachable = false
      printProgress(STILL_CACHED)
    })
  }
}

/** Prints what became of removed files. Returns the exit code: 1 unless all were there and are removed. */
export function reportRemovedFiles (
  { store, lastError }: Uploads,
  { missing, failed }: { readonly missing: number, readonly failed: number },
  retries: 'every hour' | 'every ten seconds'
): number {
  if (missing > 0) {
    printProgress(`${formatCount(missing, 'file')} not found in ${store.place}: does the service use other ` +
      'uploads?')
  }
  if (failed > 0) {
    printProgress(`${formatCount(failed, 'file')} could not be removed from ${store.place} ` +
      `(${lastError()}). The service tries again ${retries}.`)
  }
  return missing + failed === 0 ? 0 : 1
}
