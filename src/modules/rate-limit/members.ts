import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError, type RedisClient } from '../../infra/redis/redis-client.ts'
import { left, leftForAnother, MEMBERS_KEY, running, VALID_MS, type Departed } from './heartbeats.ts'
import { KnownMembers } from './known-members.ts'
import { firstShareReads, sharedReads } from './shares.ts'

const BEAT_INTERVAL_MS = 1000
/** How long a start waits for a first share. */
const MAX_START_MS = 1000

/** Times of the process clock. */
const NOT_YET = Infinity
const NEVER = -Infinity

/** Stands for the heartbeat of a member whose last one is not known. */
const MAY_HAVE_SHARE = running(0, '1', { firstShare: 0, keepsBack: [], isSteady: false })

/**
 * The membership of this process among those that share the limits, by their heartbeats in Redis. Each may
 * allow a share of a client's reads without asking Redis. In any period as long as a window, the shares of
 * all processes together are at most two thirds of the limit (docs/adr/0017-shares-of-the-limit.md):
 *
 * - A process counts every other one from its first heartbeat until a window and 3 s after its last one.
 * - It has no share until a window after its own first heartbeat, when all others count it.
 * - Its share ends when its heartbeats fail. Then it begins again as a new member.
 * - A process that shuts down gracefully hands over what it has counted. It still counts as a member for a
 *   window, but nothing is reserved for it.
 * - A new process may continue as one that has left, with its id, its counts and its share. For the others,
 *   that process has paused.
 * - Any other new process may have a *first share* until it has its share. First shares come from a part of
 *   the limit that isn't shared, a quarter.
 *
 * Only the process clock is used, so a change of Redis' clock does no harm.
 */
export class Members {
  readonly #redis: RedisClient
  readonly #windowMs: number
  /** What this process knows of all members. */
  readonly known: KnownMembers
  /** Called after a heartbeat while this process is new, so that it may continue as one that has left. */
  onAdoptable: () => Promise<void> = async () => {}
  /** Called when this process is new and continues as no other one. */
  onNew: () => Promise<void> = async () => {}
  /** Resolves when all requests for leases that were sent before have ended. */
  settled: () => Promise<void> = async () => {}
  /** When this process became a member without interruption. */
  #since = NOT_YET
  /** When its last heartbeat becomes invalid. */
  #validUntil = NEVER
  #beats = 0
  #hasLeft = false
  /** When this process last had a share. */
  #hadShareUntil = NEVER
  /** The first share of this process, in twelfths of a limit. */
  #firstShare = 0
  /** Whether it is in use. Afterwards, the others keep it back until the last window with it has ended. */
  usesFirstShare = false
  /** When this process last had a first share. */
  #hadFirstShareUntil = NEVER
  /** The request for a first share that is under way. */
  #requested: Promise<unknown> | undefined
  /** The processes whose first shares are kept back, and whether all requests sent before that have ended. */
  readonly #keptBack = new Map<string, boolean>()
  /** The last heartbeat of the member that this process was before. */
  #replaced: Record<string, string> = {}
  #timer: NodeJS.Timeout | undefined

  /** @param windowMs the longest window of the limits, in milliseconds */
  constructor (redis: RedisClient, { id, windowMs }: { id: string, windowMs: number }) {
    this.#redis = redis
    this.#windowMs = windowMs
    this.known = new KnownMembers(id, windowMs)
  }

  /** Identifies this process. It changes when this process continues as another one. */
  get id (): string {
    return this.known.ownId
  }

  /**
   * Registers this process. Resolves after the first heartbeat, or when it has failed. A new process first
   * waits for its first share, if that is possible, up to a second.
   */
  async start (): Promise<void> {
    this.#timer = setInterval(() => {
      this.beat()
    }, BEAT_INTERVAL_MS)
    this.#timer.unref()
    if (!await this.beat() || !this.isNew) return
    await Promise.race([this.onNew(), sleep(MAX_START_MS, undefined, { ref: false })])
  }

  close (): void {
    clearInterval(this.#timer)
  }

  /**
   * Ends the membership. The counts of this process must have been handed over before.
   *
   * @param handover its version and id
   * @param isContinuable whether another process may continue as this one
   * @throws {RedisAwayError} when Redis is or was unreachable; then the others reserve its share for a window
   */
  async leave (handover: string, isContinuable: boolean): Promise<void> {
    const now = clock.now()
    if (isContinuable && !this.#hasShare(now)) throw new RedisAwayError()
    this.close()
    this.#hasLeft = true
    const beats = ++this.#beats
    const heartbeat = isContinuable ? leftForAnother(beats, handover, this.known.ages(now))
      : left(beats, handover, this.mayHaveFirstShare ? this.#firstShare : 0)
    await this.#redis.run(async (redis) => await redis.hset(MEMBERS_KEY, this.id, heartbeat))
  }

  /** Whether another process may continue as this one: it has a share, and all others know of adoptions. */
  get isContinuable (): boolean {
    return this.#hasShare(clock.now()) && !this.known.hasEarlierRelease
  }

  /** Whether this process is a member that has not had a share, until 6 s before its share begins. */
  get isNew (): boolean {
    const now = clock.now()
    return !this.#hasLeft && now < this.#validUntil && now < this.#since + this.#windowMs - VALID_MS &&
      this.#hadShareUntil === NEVER
  }

  /** Whether this process has sent no heartbeat lately, so that it may not know all others. */
  get isLate (): boolean {
    return clock.now() >= this.#validUntil
  }

  /**
   * Continues as a process that has left. Its counts must have been adopted.
   *
   * @param since when they were, or a moment before; the share must begin soon after that
   */
  async continueAs ({ id, legacy }: Departed, since: number): Promise<void> {
    const now = clock.now()
    for (const [member, ageMs] of legacy?.counted ?? []) {
      // Redis may have been flushed since it was seen.
      if (!this.known.has(member)) this.known.add(member, MAY_HAVE_SHARE, now - ageMs)
    }
    const replaced = this.#heartbeat('replaced', now)
    this.#replaced = { [this.id]: replaced }
    this.known.add(this.id, replaced, now)
    this.#hadFirstShareUntil = NEVER
    this.known.ownId = id
    this.#beats = legacy?.beats ?? 0
    this.#validUntil = NEVER
    this.#hadShareUntil = since
    // The share begins when the others can see a new heartbeat, while all of them still count this member.
    if (await this.beat() && clock.now() < since + VALID_MS) {
      this.#since = -Infinity // as a member that all others have counted for a while
      this.#hadShareUntil = this.#validUntil
    }
  }

  /** Returns how many reads of a limit this process may allow in a window without asking Redis. */
  share (max: number, now: number): number {
    // Without messages it wouldn't hear that its share is recalled.
    return this.#hasShare(now) && this.#redis.subscribed ? this.#equalShare(max) : 0
  }

  /**
   * Requests a first share. It is not used before `usesFirstShare` is set.
   *
   * @returns whether this process gets one
   * @throws {RedisAwayError}
   */
  async requestFirstShare (): Promise<boolean> {
    const beats = ++this.#beats
    const requested = this.#redis.run(async (redis) =>
      await redis.landfallFirstShare(MEMBERS_KEY, this.id, beats)
    )
    this.#requested = requested.catch(() => {})
    this.#firstShare = await requested
    if (this.#firstShare > 0) this.#hadFirstShareUntil = this.#validUntil
    return this.#firstShare > 0
  }

  /** Whether this process has a first share, or had one within the last window. */
  get mayHaveFirstShare (): boolean {
    const now = clock.now()
    return !this.#hasShare(now) && now < this.#hadFirstShareUntil + this.#windowMs
  }

  /**
   * Returns how many reads of a limit the first share allows in a window; 0 if it is not in use. Callers must
   * not use it for clients near their limits.
   */
  firstShare (max: number, now: number): number {
    if (!this.usesFirstShare || now >= this.#validUntil || !this.#redis.subscribed) return 0
    // Without this bound, it could allow more reads than the others keep back after its first minute.
    return Math.min(this.#equalShare(max), firstShareReads(max, this.#firstShare))
  }

  #equalShare (max: number): number {
    return Math.floor(sharedReads(max) / this.known.size)
  }

  #hasShare (now: number): boolean {
    return now < this.#validUntil && now >= this.#since + this.#windowMs + VALID_MS
  }

  /** Sends a heartbeat and learns of those of the others. Returns whether it succeeded. Never rejects. */
  async beat (): Promise<boolean> {
    await this.#requested // a heartbeat from before it would overwrite the first share
    if (this.#hasLeft) return false
    const sentAt = clock.now()
    const heartbeat = this.#heartbeat(this.#mayHaveShare(sentAt) ? '1' : '0', sentAt)
    const fields = { ...this.#replaced, [this.id]: heartbeat }
    try {
      const [, heartbeats] = await this.#redis.run(async (redis) =>
        await Promise.all([
          redis.hset(MEMBERS_KEY, fields),
          redis.hgetall(MEMBERS_KEY),
          redis.pexpire(MEMBERS_KEY, this.#windowMs + VALID_MS)
        ])
      )
      this.#see(heartbeats, sentAt)
    } catch {
      return false // Redis is unreachable. The share ends with the last heartbeat.
    }
    if (this.isNew) await this.onAdoptable()
    return true
  }

  #see (heartbeats: Record<string, string>, sentAt: number): void {
    const now = clock.now()
    if (now >= this.#validUntil) {
      this.#since = now
      this.usesFirstShare = false
    }
    this.#validUntil = sentAt + VALID_MS
    this.#replaced = {}
    const forgotten = this.known.see(heartbeats, now)
    if (forgotten.length > 0) {
      this.#redis.run(async (redis) => await redis.hdel(MEMBERS_KEY, ...forgotten)).catch(() => {})
    }
    this.usesFirstShare &&= !this.#hasShare(now) && !this.known.hasEarlierRelease
    if (this.usesFirstShare) this.#hadFirstShareUntil = this.#validUntil
    if (now >= this.#since + this.#windowMs) this.#hadShareUntil = this.#validUntil
    this.#keepBackFirstShares()
  }

  #heartbeat (state: '0' | '1' | 'replaced', now: number): string {
    return running(++this.#beats, state, {
      firstShare: this.mayHaveFirstShare ? this.#firstShare : 0,
      keepsBack: [...this.#keptBack].flatMap(([id, isSettled]) => isSettled ? [id] : []),
      isSteady: now < this.#validUntil && now >= this.#since + this.#windowMs + 2 * VALID_MS
    })
  }

  /** Tells new processes that their first shares are kept back, when all earlier requests have ended. */
  async #keepBackFirstShares (): Promise<void> {
    const { withFirstShare } = this.known
    for (const id of this.#keptBack.keys()) if (!withFirstShare.includes(id)) this.#keptBack.delete(id)
    const others = withFirstShare.filter((id) => !this.#keptBack.has(id))
    if (others.length === 0) return
    for (const id of others) this.#keptBack.set(id, false)
    await this.settled()
    for (const id of others) this.#keptBack.set(id, true)
    await this.beat()
  }

  /** The others know of a share 6 s before it begins, and for a window after its end. */
  #mayHaveShare (now: number): boolean {
    return now < this.#hadShareUntil + this.#windowMs ||
      (now < this.#validUntil && now >= this.#since + this.#windowMs - VALID_MS)
  }
}
