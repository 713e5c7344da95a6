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
