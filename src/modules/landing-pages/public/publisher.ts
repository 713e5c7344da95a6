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

/** Publishes writes through Redis to all replicas, and remembers those it could not publish. */
export class Publisher {
  readonly #shared: SharedDocuments
  readonly #onNewer: (publicId: string, version: number) => void
  readonly #unpublished = new Map<string, number>()

  /** @param onNewer is called when Redis already knows a newer version than the published one */
  constructor (shared: SharedDocuments, onNewer: (publicId: string, version: number) => void) {
    this.#shared = shared
    this.#onNewer = onNewer
  }

  /** Whether Redis may hold an older version than this process has written. */
  isBehind (publicId: string): boolean {
    return this.#unpublished.has(publicId)
  }

  /**
   * Publishes a committed version. Never rejects. After a failure, publishOutstanding() can try again.
   *
   * @returns whether Redis was told
   */
  async publish (published: PublicVersion): Promise<boolean> {
    const { publicId, version } = published
    this.#remember(publicId, version)
    try {
      const newest = await this.#shared.publish(published)
      if (this.#unpublished.get(publicId) === version) this.#unpublished.delete(publicId)
      if (newest > version) this.#onNewer(publicId, newest)
      return true
    } catch {
      return false // Redis is unreachable. The version stays remembered.
    }
  }

  /**
   * Announces a version again and again, until Redis is told of it.
   *
   * @throws {Error} when `signal` is aborted first
   */
  async announce (publicId: string, version: number, signal: AbortSignal): Promise<void> {
    while (!await this.publish({ publicId, version })) await sleep(RETRY_INTERVAL_MS, undefined, { signal })
  }

  /**
   * Announces the versions that could not be published. It sends only their numbers, because another replica
   * may have written newer documents since.
   */
  async publishOutstanding (): Promise<void> {
    const outstanding = [...this.#unpublished]
    while (outstanding.length > 0) {
      await Promise.all(outstanding.splice(0, ANNOUNCE_BATCH).map(async ([publicId, version]) =>
        await this.publish({ publicId, version })
      ))
    }
  }

  #remember (publicId: string, version: number): void {
    if ((this.#unpublished.get(publicId) ?? 0) < version) this.#unpublished.set(publicId, version)
    if (this.#unpublished.size > MAX_UNPUBLISHED) {
      this.#unpublished.delete(this.#unpublished.keys().next().value as string)
    }
  }
}
