import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError, type RedisClient } from '../../infra/redis/redis-client.ts'
import { firstShareReads, FORMAT, KEEPS, MEMBERS_KEY, parse, sharedReads, VALID_MS, type Departed,
  type Heartbeat } from './heartbeats.ts'

const BEAT_INTERVAL_MS = 1000
/** A process without a heartbeat for this long has no share, and no request from before is under way. */
const SILENT_MS = VALID_MS + 1000
/** How long a start waits for a first share. */
const MAX_START_MS = 1000

/** The heartbeat of a process that may have a share. */
const MAY_HAVE_SHARE = `0 ${FORMAT} 1`

interface Member extends Heartbeat {
  /** When its heartbeats began, and when the last one was seen, in milliseconds of the process clock. */
  since: number
  seenAt: number
}

/** What processes that have not reported their share of a client's window may still have allowed. */
export interface OpenShares {
  readonly reads: number
  /** The reads among them in first shares. */
  readonly firstReads: number
  /** The processes among them that report soon, or have left a moment ago, so that the caller asks again. */
  readonly alive: number
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
 * - A new process may continue as one that has left, with its id, its counts and its share. For the others,
 *   that process has paused.
 * - Any other new process may have a *first share* until it has its share. First shares come from a part of
 *   the limit that isn't shared, a quarter.
 *
 * Only the process clock is used, so a change of Redis' clock does no harm.
 */
export class Members {
  readonly #redis: RedisClient
  /** Identifies this process. It changes when this process continues as another one. */
  id: string
  readonly #windowMs: number
  readonly #members = new Map<string, Member>()
  /** The other processes that have shut down gracefully within the last window. */
  departed: readonly Departed[] = []
  /** Called after a heartbeat while this process is new and may continue as one that has left. */
  onAdoptable: () => Promise<void> = async () => {}
  /** Called when this process is new and continues as no other one. */
  onNew: () => Promise<void> = async () => {}
  /** Resolves when all requests for leases that were sent before have ended. */
  settled: () => Promise<void> = async () => {}
  /** The number of members. */
  #size = 1
  /** When this process became a member without interruption. */
  #since = Infinity
  #validUntil = -Infinity
  #beats = 0
  #hasLeft = false
  /** When this process last had a share. */
  #hadShareUntil = -Infinity
  /** The first share of this process, in twelfths of a limit. */
  #firstShare = 0
  #usesFirstShare = false
  /** When this process last had a first share. */
  #hadFirstShareUntil = -Infinity
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
    this.id = id
    this.#windowMs = windowMs
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
    if (isContinuable && !this.#isSteady(now)) throw new RedisAwayError()
    this.close()
    this.#hasLeft = true
    const counted = [...this.#members].filter(([, { isReplaced }]) => !isReplaced).map(([id, { seenAt }]) =>
      `${id}=${now - seenAt}`
    )
    const beats = ++this.#beats
    const firstShare = this.#mayHaveFirstShare(now) ? this.#firstShare : 0
    const heartbeat = isContinuable ? [beats, handover, ...counted, 'left'].join(' ')
      : handover.startsWith(FORMAT) ? `${beats}/${FORMAT}/${firstShare} left` : `${beats} left`
    await this.#redis.run(async (redis) => await redis.hset(MEMBERS_KEY, this.id, heartbeat))
  }

  /** Whether another process may continue as this one: it has a share, and all others know of adoptions. */
  get isContinuable (): boolean {
    return this.#isSteady(clock.now()) && this.isAmongCurrent
  }

  /** Whether all others know of adoptions and first shares. */
  get isAmongCurrent (): boolean {
    return [...this.#members.values()].every(({ departed, isCurrent }) => isCurrent || departed !== undefined)
  }

  /** Whether this process is a member that has not had a share, until 6 s before its share begins. */
  get isNew (): boolean {
    const now = clock.now()
    return !this.#hasLeft && now < this.#validUntil && now < this.#since + this.#windowMs - VALID_MS &&
      this.#hadShareUntil === -Infinity
  }

  /**
   * Continues as a process that has left. Its counts must have been adopted.
   *
   * @param since when they were, or a moment before; the share must begin soon after that
   */
  async continueAs ({ id, heartbeat = '' }: Departed, since: number): Promise<void> {
    const [beats, , ...counted] = heartbeat.split(' ').slice(0, -1)
    for (const [member = '', age] of counted.map((word) => word.split('='))) {
      // Redis may have been flushed since it was seen.
      if (this.#members.has(member)) continue
      const seenAt = clock.now() - Number(age)
      this.#members.set(member, { ...parse(member, MAY_HAVE_SHARE), since: seenAt, seenAt })
    }
    const replaced = this.#heartbeat('replaced', since)
    this.#replaced = { [this.id]: replaced }
    this.#members.set(this.id, { ...parse(this.id, replaced), since, seenAt: since })
    this.#hadFirstShareUntil = -Infinity
    this.id = id
    this.#beats = Number(beats)
    this.#validUntil = -Infinity
    this.#hadShareUntil = since
    // The share begins when the others can see a new heartbeat, while all of them still count this member.
    if (await this.beat() && clock.now() < since + VALID_MS) {
      this.#since = -Infinity
      this.#hadShareUntil = this.#validUntil
    }
  }

  /** Whether this process has sent no heartbeat lately, so that it may not know all others. */
  get isLate (): boolean {
    return clock.now() >= this.#validUntil
  }

  /** Another process continues as a member that had left; or did, if it has left again since. */
  markContinued ({ id, handover }: Departed): void {
    const member = this.#members.get(id)
    if (member?.departed?.handover !== handover) return
    delete member.departed
    member.seenAt = clock.now()
    this.#summarize()
  }

  /** Returns how many reads of a limit this process may allow in a window without asking Redis. */
  share (max: number, now: number): number {
    // Without messages it wouldn't hear that its share is recalled.
    return this.#isSteady(now) && this.#redis.subscribed ? this.#equalShare(max) : 0
  }

  /**
   * Requests a first share. It is not used before `useFirstShare()`.
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
    this.#hadFirstShareUntil = this.#firstShare > 0 ? this.#validUntil : -Infinity
    return this.#firstShare > 0
  }

  /** Whether all other processes keep the first share of this one back, or are gone. */
  get isKeptBack (): boolean {
    const now = clock.now()
    return [...this.#members].every(([id, { seenAt, keepsBack, departed, isReplaced }]) =>
      id === this.id || departed !== undefined || isReplaced || keepsBack.includes(this.id) ||
      now >= seenAt + SILENT_MS
    )
  }

  get usesFirstShare (): boolean {
    return this.#usesFirstShare
  }

  /** From now on this process uses its first share. */
  useFirstShare (): void {
    this.#usesFirstShare = true
  }

  /** Stops using the first share. The others keep it back until the last window with it has ended. */
  stopFirstShare (): void {
    this.#usesFirstShare = false
  }

  /** Gives up a first share that was never used. */
  giveUpFirstShare (): void {
    this.#hadFirstShareUntil = -Infinity
  }

  /**
   * Returns how many reads of a limit the first share allows in a window; 0 if it is not in use. It is not
   * for clients near their limits.
   */
  firstShare (max: number, now: number): number {
    if (!this.#usesFirstShare || now >= this.#validUntil || !this.#redis.subscribed) return 0
    // Otherwise its reads could exceed the share that the others keep back after the first minute.
    return Math.min(this.#equalShare(max), firstShareReads(max, this.#firstShare))
  }

  #equalShare (max: number): number {
    return Math.floor(sharedReads(max) / this.#size)
  }

  #isSteady (now: number): boolean {
    return now < this.#validUntil && now >= this.#since + this.#windowMs + VALID_MS
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
    let first = 0
    for (const [id, { since, seenAt, mayHaveShare, firstShare }] of this.#members) {
      const isAlive = now < seenAt + VALID_MS
      if (isAlive && now >= since + this.#windowMs + 2 * VALID_MS) steady++
      if (id === this.id || heard.has(id)) continue
      if (!mayHaveShare && firstShare === 0 && !isLost) continue
      if (mayHaveShare) open++
      first += firstShareReads(max, firstShare)
      if (isAlive) alive++
    }
    if (isLost && alive > 0) return { reads: max, firstReads: 0, alive }
    // Every process with a share counts at least the members whose heartbeats have been steady.
    const largestShare = Math.floor(sharedReads(max) / Math.max(1, steady))
    const others = Math.min(sharedReads(max) - this.share(max, now), open * largestShare)
    return { reads: others + first, firstReads: first, alive }
  }

  /** Sends a heartbeat and learns of those of the others. Returns whether it succeeded. Never rejects. */
  async beat (): Promise<boolean> {
    await this.#requested // its heartbeat must not be overwritten by one without a first share
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
      const now = clock.now()
      if (now >= this.#validUntil) {
        this.#since = now
        this.#usesFirstShare = false
      }
      this.#validUntil = sentAt + VALID_MS
      this.#usesFirstShare &&= !this.#isSteady(now)
      if (this.#usesFirstShare) this.#hadFirstShareUntil = this.#validUntil
      if (now >= this.#since + this.#windowMs) this.#hadShareUntil = this.#validUntil
      this.#replaced = {}
      this.#see(heartbeats, now)
    } catch {
      return false // Redis is unreachable. The share ends with the last heartbeat.
    }
    if (this.isNew && this.departed.some(({ heartbeat }) => heartbeat !== undefined)) await this.onAdoptable()
    return true
  }

  #heartbeat (state: '0' | '1' | 'replaced', now: number): string {
    return [
      ++this.#beats,
      FORMAT,
      ...this.#mayHaveFirstShare(now) ? [`first=${this.#firstShare}`] : [],
      ...[...this.#keptBack].flatMap(([id, isSettled]) => isSettled ? [`${KEEPS}${id}`] : []),
      state
    ]
      .join(' ')
  }

  #mayHaveFirstShare (now: number): boolean {
    return !this.#isSteady(now) && now < this.#hadFirstShareUntil + this.#windowMs
  }

  /** Tells new processes that their first shares are kept back, when all earlier requests have ended. */
  async #keepBack (ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#keptBack.set(id, false)
    await this.settled()
    for (const id of ids) this.#keptBack.set(id, true)
    await this.beat()
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
      const member = parse(id, heartbeat)
      if (member.departed !== undefined) {
        member.mayHaveShare = known?.mayHaveShare ?? true
      }
      if (!member.isCurrent) this.#usesFirstShare = false
      this.#members.set(id, { ...member, since, seenAt: now })
    }
    for (const [id, { seenAt }] of this.#members) {
      if (now < seenAt + this.#windowMs + VALID_MS) continue
      this.#members.delete(id)
      this.#redis.run(async (redis) => await redis.hdel(MEMBERS_KEY, id)).catch(() => {})
    }
    this.#summarize()
    const withFirstShare = [...this.#members].filter(([, { firstShare }]) => firstShare > 0).map(([id]) => id)
    for (const id of this.#keptBack.keys()) if (!withFirstShare.includes(id)) this.#keptBack.delete(id)
    const others = withFirstShare.filter((id) => id !== this.id && !this.#keptBack.has(id))
    if (others.length > 0) this.#keepBack(others)
  }

  #summarize (): void {
    const members = [...this.#members.values()]
    this.#size = members.filter(({ isReplaced }) => !isReplaced).length
    this.departed = members.flatMap(({ departed }) =>
      departed === undefined || departed.id === this.id ? []
        : [departed]
    )
  }
}
