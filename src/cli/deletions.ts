import { DOCUMENT_SCRIPTS, publishDeletion } from '../modules/landing-pages/index.ts'
import { forEachConcurrently, type Uploads } from './backup/uploads.ts'
import { formatCount, printProgress } from './output.ts'
import { withRedis } from './redis.ts'

// What has to follow when rows were deleted: readers must get a 404, and files must go.

const PAGES_AT_ONCE = 50
const STILL_CACHED =
  'Redis cannot be reached, so the replicas may still serve what was deleted for up to a minute.'

/**
 * Publishes the deletion of pages to all replicas. Without Redis they notice it by themselves: the service
 * with an embedded database at once, others within a second.
 */
export async function publishDeletions (
  redisUrl: string | undefined,
  publicIds: readonly string[]
): Promise<void> {
  if (redisUrl === undefined || publicIds.length === 0) return
  await withRedis(
    redisUrl,
    DOCUMENT_SCRIPTS,
    async (redis) =>
      await forEachConcurrently(
        publicIds,
        PAGES_AT_ONCE,
        async (publicId) => await publishDeletion(redis, publicId)
      )
  ).catch(() => printProgress(STILL_CACHED))
}

/** Removes the files of deleted assets. Returns the exit code: 1 unless all were there and are removed. */
export async function removeFiles ({ store, lastError }: Uploads, keys: readonly string[]): Promise<number> {
  let missing = 0
  let failed = 0
  await forEachConcurrently(keys, store.filesAtOnce, async (key) => {
    const existed = await store.remove(key).catch(() => undefined)
    if (existed === false) missing++
    else if (existed === undefined) failed++
  })
  if (missing > 0) {
    printProgress(`${
      formatCount(missing, 'file')
    } not found in ${store.place}: does the service use other uploads?`)
  }
  if (failed > 0) {
    printProgress(`${
      formatCount(failed, 'file')
    } could not be removed from ${store.place} (${lastError()}). The service tries again every hour.`)
  }
  return missing + failed === 0 ? 0 : 1
}
