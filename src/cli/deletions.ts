import { DOCUMENT_SCRIPTS, publishDeletion } from '../modules/landing-pages/index.ts'
import { forEachConcurrently } from '../infra/system/for-each-concurrently.ts'
import type { Uploads } from './backup/uploads.ts'
import { formatCount, printProgress } from './output.ts'
import { withRedis } from './database.ts'

// What has to follow when rows were deleted: readers must get a 404, and files must go.

const PAGES_AT_ONCE = 50
const STILL_CACHED =
  'Redis cannot be reached, so the replicas may still serve what was deleted for up to a minute.'

/**
 * Publishes the deletion of pages to all replicas. Without Redis they notice it by themselves: the service
 * with an embedded database at once, others within a second.
 *
 * @returns false when Redis can't be reached
 */
export async function publishDeletions (
  redisUrl: string | undefined,
  publicIds: readonly string[]
): Promise<boolean> {
  if (redisUrl === undefined || publicIds.length === 0) return true
  return await withRedis(
    redisUrl,
    DOCUMENT_SCRIPTS,
    async (redis) =>
      await forEachConcurrently(
        publicIds,
        PAGES_AT_ONCE,
        async (publicId) => await publishDeletion(redis, publicId)
      )
  ).then(() => true, () => {
    printProgress(STILL_CACHED)
    return false
  })
}

/**
 * Returns a function that publishes deletions like publishDeletions(). After a failure it does nothing, so
 * that a command doesn't wait for Redis again and again.
 */
export function createDeletionPublisher (
  redisUrl: string | undefined
): (publicIds: readonly string[]) => Promise<void> {
  let isReachable = true
  return async (publicIds) => {
    if (isReachable) isReachable = await publishDeletions(redisUrl, publicIds)
  }
}

/** Removes the file of a deleted asset. Returns the exit code: 1 unless it was there and is removed. */
export async function removeFile (uploads: Uploads, key: string): Promise<number> {
  const existed = await uploads.store.remove(key).catch(() => undefined)
  const result = { missing: existed === false ? 1 : 0, failed: existed === undefined ? 1 : 0 }
  return reportRemovedFiles(uploads, result, 'every hour')
}

/** Prints what became of removed files. Returns the exit code: 1 unless all were there and are removed. */
export function reportRemovedFiles (
  { store, lastError }: Uploads,
  { missing, failed }: { readonly missing: number, readonly failed: number },
  retries: 'every hour' | 'every 30 seconds'
): number {
  if (missing > 0) {
    printProgress(`${
      formatCount(missing, 'file')
    } not found in ${store.place}: does the service use other uploads?`)
  }
  if (failed > 0) {
    printProgress(`${
      formatCount(failed, 'file')
    } could not be removed from ${store.place} (${lastError()}). The service tries again ${retries}.`)
  }
  return missing + failed === 0 ? 0 : 1
}
