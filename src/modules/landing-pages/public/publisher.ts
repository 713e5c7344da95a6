import { setTimeout as sleep } from 'node:timers/promises'
import type { SharedDocuments } from './shared-documents.ts'
import type { PublicVersion } from './cached-document.ts'

/**
 * The most versions remembered while Redis is unreachable. Beyond that, the oldest are forgotten; Redis'
 * outdated copies expire within a minute.
 */
const MAX_UNPUBLISHED = 10_000
/** Versions announced at once when Redis is reachable again. More could make commands time out. */
const ANNOUNCE_BATCH = 50
/** Interval between attempts to announce a version while Redis is unreachable. */
const RETRY_INTERVAL_MS = 250

export type Publisher = ReturnType<typeof createPublisher>

/**
 * Returns what publishes writes through Redis to all replicas, and remembers those it could not publish.
 *
 * @param onNewer is called when Redis already knows a newer version than the published one
 */
export function createPublisher (
  shared: SharedDocuments,
  onNewer: (publicId: string, version: number) => void
) {
  const unpublished = new Map<string, number>()

  function remember (publicId: string, version: number): void {
    if ((unpublished.get(publicId) ?? 0) < version) unpublished.set(publicId, version)
    if (unpublished.size > MAX_UNPUBLISHED) unpublished.delete(unpublished.keys().next().value as string)
  }

  /**
   * Publishes a committed version. Never rejects. After a failure, publishOutstanding() can try again.
   *
   * @returns whether Redis was told
   */
  async function publish (published: PublicVersion): Promise<boolean> {
    const { publicId, version } = published
    remember(publicId, version)
    try {
      const newest = await shared.publish(published)
      if (unpublished.get(publicId) === version) unpublished.delete(publicId)
      if (newest > version) onNewer(publicId, newest)
      return true
    } catch {
      return false // Redis is unreachable. The version stays remembered.
    }
  }

  return {
    publish,
    /** Whether Redis may hold an older version than this process has written. */
    isBehind: (publicId: string): boolean => unpublished.has(publicId),
    /**
     * Announces a version again and again, until Redis is told of it.
     *
     * @throws {Error} when `signal` is aborted first
     */
    async announce (publicId: string, version: number, signal: AbortSignal): Promise<void> {
      while (!await publish({ publicId, version })) await sleep(RETRY_INTERVAL_MS, undefined, { signal })
    },
    /**
     * Announces the versions that could not be published. It sends only their numbers, because another
     * replica may have written newer documents since.
     */
    async publishOutstanding (): Promise<void> {
      const outstanding = [...unpublished]
      while (outstanding.length > 0) {
        await Promise.all(outstanding.splice(0, ANNOUNCE_BATCH).map(async ([publicId, version]) =>
          await publish({ publicId, version })
        ))
      }
    }
  }
}
