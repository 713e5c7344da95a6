import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'

/**
 * The name in Redis: a hash with the number of heartbeats of each process, and 1 if it may have a share, or
 * `left` if it has shut down gracefully.
 */
const MEMBERS_KEY = 'landfall:members:2'

const BEAT_INTERVAL_MS = 1000
/** How long a heartbeat is valid. */
const VALID_MS = 3000

interface Member {
  heartbeat: string
  /** Whether it may have had a share within the last window, or may have one soon. */
  mayHaveShare: boolean
  /** Whether it has stopped and handed over its counts, so that its share is not open. */
  hasLeft: boolean
  /** When its heartbeats began, and when the last one was seen, in milliseconds of the process clock. */
  since: number
  seenAt: number
}

/** What processes that have not reported their share of a client's window may still have allowed. */
export interface OpenShares {
  readonly reads: number
  /** The processes among them that report soon, or have left a moment ago, so that the caller asks again. */
  readonly alive: number
}

export interface MembersOptions {
  /** Identifies this process. */
  readonly id: string
  /** The longest window of the limits, in milliseconds. */
  readonly windowMs: number
}

/**
 * The processes that share the limits, by their heartbeats in Redis. Each may allow a share of a client's
 * reads without asking Redis. In any period as long as a window, the shares of all processes together are at
 * most two thirds of the limit (docs/adr/0017-shares-of-the-limit.md):
 *
 * - A process counts every other one from its first heartbeat until a window and 3 s after its last one.
 * - It has no share until a window after its own first heartbeat, when all others count it.
 * - Its share ends when its heartbeats fail. Then it begins again as a new member.
 * - A process that shuts down gracefully hands over what it has counted. It still counts as a member for a
 *   window, but nothing is reserved for it.
 *
 * Only the process clock is used, so a change of Redis' clock does no harm.
 */
export class Members {
  readonly #redis: RedisClient
  readonly #id: string
  readonly #windowMs: number
  readonly #members = new Map<string, Member>()
  /** The other processes that have shut down gracefully within the last window. */
  departed: readonly string[] = []
  /** When this process became a member without interruption. */
  #since = Infinity
  #validUntil = -Infinity
  #beats = 0
  #hasLeft = false
  /** When this process last had a share. */
  #hadShareUntil = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor (redis: RedisClient, { id, windowMs }: MembersOptions) {
    this.#redis = redis
    this.#id = id
    this.#windowMs = windowMs
  }

  /** Registers this process. Resolves after the first heartbeat, or when it has failed. */
  async start (): Promise<void> {
    this.#timer = setInterval(() => {
      this.beat()
    }, BEAT_INTERVAL_MS)
    this.#timer.unref()
    await this.beat()
  }

  close (): void {
    clearInterval(this.#timer)
  }

  /**
   * Ends the membership. The counts of this process must have been handed over before.
   *
   * @throws {RedisAwayError} when Redis is unreachable; then the others reserve its share for a window
   */
  async leave (): Promise<void> {
    this.close()
    this.#hasLeft = true
    await this.#redis.run(async (redis) => await redis.hset(MEMBERS_KEY, this.#id, `${++this.#beats} left`))
  }

  /** Returns how many reads of a limit this process may allow in a window without asking Redis. */
  share (max: number, now: number): number {
    // Without messages it wouldn't hear that its share is recalled.
    const hasShare = now < this.#validUntil && now >= this.#since + this.#windowMs + VALID_MS &&
      this.#redis.subscribed
    return hasShare ? Math.floor(sharedPart(max) / this.#members.size) : 0
  }

  /**
   * Returns the shares that may still be spent.
   *
   * @param heard the processes whose reads in the window are known: they reported them, or handed them over
   * @param isLost whether Redis has lost the window, so that a process may have been granted any reads in it
   */
  openShares (max: number, heard: ReadonlySet<string>, isLost: boolean, now: number): OpenShares {
    let open = 0
    let alive = 0
    let steady = 0
    for (const [id, { since, seenAt, mayHaveShare }] of this.#members) {
      const isAlive = now < seenAt + VALID_MS
      if (isAlive && now >= since + this.#windowMs + 2 * VALID_MS) steady++
      if (id === this.#id || heard.has(id) || !(mayHaveShare || isLost)) continue
      if (mayHaveShare) open++
      if (isAlive) alive++
    }
    if (isLost && alive > 0) return { reads: max, alive }
    // Every process with a share counts at least the members whose heartbeats have been steady.
    const largestShare = Math.floor(sharedPart(max) / Math.max(1, steady))
    return { reads: Math.min(sharedPart(max) - this.share(max, now), open * largestShare), alive }
  }

  /** Sends a heartbeat and learns of those of the others. Never rejects. */
  async beat (): Promise<void> {
    if (this.#hasLeft) return
    const sentAt = clock.now()
    const heartbeat = `${++this.#beats} ${this.#mayHaveShare(sentAt) ? 1 : 0}`
    try {
      const [, heartbeats] = await this.#redis.run(async (redis) =>
        await Promise.all([
          redis.hset(MEMBERS_KEY, this.#id, heartbeat),
          redis.hgetall(MEMBERS_KEY),
          redis.pexpire(MEMBERS_KEY, this.#windowMs + VALID_MS)
        ])
      )
      const now = clock.now()
      if (now >= this.#validUntil) this.#since = now
      this.#validUntil = sentAt + VALID_MS
      if (now >= this.#since + this.#windowMs) this.#hadShareUntil = this.#validUntil
      this.#see(heartbeats, now)
    } catch {
      // Redis is unreachable. The share ends with the last heartbeat.
    }
  }

  /** The others know of a share 6 s before it begins, and for a window after its end. */
  #mayHaveShare (now: number): boolean {
    return now < this.#hadShareUntil + this.#windowMs ||
      (now < this.#validUntil && now >= this.#since + this.#windowMs - VALID_MS)
  }

  #see (heartbeats: Record<string, string>, now: number): void {
    for (const [id, heartbeat] of Object.entries(heartbeats)) {
      const known = this.#members.get(id)
      if (heartbeat === known?.heartbeat) continue
      const since = known === undefined || now >= known.seenAt + VALID_MS ? now : known.since
      const hasLeft = heartbeat.endsWith(' left')
      const mayHaveShare = hasLeft ? known?.mayHaveShare ?? true : heartbeat.endsWith(' 1')
      this.#members.set(id, { heartbeat, mayHaveShare, hasLeft, since, seenAt: now })
    }
    for (const [id, { seenAt }] of this.#members) {
      if (now < seenAt + this.#windowMs + VALID_MS) continue
      this.#members.delete(id)
      this.#redis.run(async (redis) => await redis.hdel(MEMBERS_KEY, id)).catch(() => {})
    }
    this.departed = [...this.#members].filter(([, { hasLeft }]) => hasLeft).map(([id]) => id)
  }
}

/** The part of a limit that is shared. The rest is for reads beyond the shares, so that few need a recall. */
const sharedPart = (max: number): number => Math.floor(max * 2 / 3)
