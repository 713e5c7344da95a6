import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError, type RedisClient } from '../../infra/redis/redis-client.ts'
import { firstSharePart, FORMAT, MEMBERS_KEY, parse, sharedPart, VALID_MS, type Departed,
  type Heartbeat } from './heartbeats.ts'

const BEAT_INTERVAL_MS = 1000
/** How long a start waits for a first share. */
const MAX_START_MS = 1000

interface Member extends Heartbeat {
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
  /** Resolves when all requests for leases that are under way have ended. */
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
  /** The first share of this process in twelfths, whether it may be used, and until when it could be. */
  #firstShare = 0
  #usesFirstShare = false
  #hadFirstShareUntil = -Infinity
  /** New processes whose first shares are kept back, and whether requests without that have ended. */
  readonly #counted = new Map<string, boolean>()
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
   * @param handover what another process may continue; undefined if it may not
   * @throws {RedisAwayError} when Redis is or was unreachable; then the others reserve its share for a window
   */
  async leave (handover: string | undefined): Promise<void> {
    const now = clock.now()
    if (handover !== undefined && !this.#isSteady(now)) throw new RedisAwayError()
    this.close()
    this.#hasLeft = true
    const counted = [...this.#members].filter(([, { isReplaced }]) => !isReplaced).map(([id, { seenAt }]) =>
      `${id}=${now - seenAt}`
    )
    const beats = ++this.#beats
    const heartbeat = handover === undefined
      ? `${beats}/${FORMAT}/${this.#mayHaveFirstShare(now) ? this.#firstShare : 0} left`
      : [beats, handover, ...counted, 'left'].join(' ')
    await this.#redis.run(async (redis) => await redis.hset(MEMBERS_KEY, this.id, heartbeat))
  }

  /** Whether another process may continue as this one: it has a share, and all others know of adoptions. */
  get isContinuable (): boolean {
    return this.#isSteady(clock.now()) &&
      [...this.#members.values()].every(({ departed, knowsAdoption }) =>
        knowsAdoption || departed !== undefined
      )
  }

  /** Whether this process is a member that has not had a share yet. */
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
      this.#members.set(member, { ...parse(member, '0 2 1'), since: seenAt, seenAt })
    }
    this.#members.delete(this.id)
    this.#replaced = { [this.id]: this.#heartbeat('replaced', since) }
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

  /** Another process continues as a member that had left. */
  sawContinued (id: string): void {
    const member = this.#members.get(id)
    if (member?.departed === undefined) return
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
   * Asks for a first share. It may be used when all others keep it back: after `usesFirstShare()`.
   *
   * @returns whether this process gets one
   * @throws {RedisAwayError}
   */
  async askForFirstShare (): Promise<boolean> {
    const beats = ++this.#beats
    this.#firstShare = await this.#redis.run(async (redis) =>
      await redis.landfallFirstShare(MEMBERS_KEY, this.id, beats)
    )
    this.#hadFirstShareUntil = this.#firstShare > 0 ? this.#validUntil : -Infinity
    return this.#firstShare > 0
  }

  /** Whether all other processes keep the first share of this one back, or are gone. */
  get isCounted (): boolean {
    const now = clock.now()
    return [...this.#members].every(([id, { seenAt, counts, departed, isReplaced }]) =>
      id === this.id || departed !== undefined || isReplaced || counts.includes(this.id) ||
      now >= seenAt + VALID_MS
    )
  }

  /** Whether this process has a first share. */
  get hasFirstShare (): boolean {
    return this.#usesFirstShare
  }

  /** The first share isn't used any more. The others keep it back until the last window with it has ended. */
  stopFirstShare (): void {
    this.#usesFirstShare = false
  }

  /** From now on the first share is used, or given up if it never was. */
  useFirstShare (isUsed: boolean): void {
    this.#usesFirstShare = isUsed && this.isNew
    if (!this.#usesFirstShare) this.#hadFirstShareUntil = -Infinity
  }

  /** Like share(), while this process is new. Clients near their limits must be left out. */
  firstShare (max: number, now: number): number {
    if (!this.#usesFirstShare || now >= this.#validUntil || !this.#redis.subscribed) return 0
    return Math.min(this.#equalShare(max), firstSharePart(max, this.#firstShare))
  }

  #equalShare (max: number): number {
    return Math.floor(sharedPart(max) / this.#size)
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
      first += firstSharePart(max, firstShare)
      if (isAlive) alive++
    }
    // A process that was suspended may not know of new ones.
    if (this.#validUntil > -Infinity && now >= this.#validUntil) first = firstSharePart(max)
    if (isLost && alive > 0) return { reads: max, alive }
    // Every process with a share counts at least the members whose heartbeats have been steady.
    const largestShare = Math.floor(sharedPart(max) / Math.max(1, steady))
    const others = Math.min(sharedPart(max) - this.share(max, now), open * largestShare)
    return { reads: others + first, alive }
  }

  /** Sends a heartbeat and learns of those of the others. Returns whether it succeeded. Never rejects. */
  async beat (): Promise<boolean> {
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
      ...[...this.#counted].flatMap(([id, isSettled]) => isSettled ? [`counts=${id}`] : []),
      state
    ]
      .join(' ')
  }

  #mayHaveFirstShare (now: number): boolean {
    return !this.#isSteady(now) && now < this.#hadFirstShareUntil + this.#windowMs
  }

  /** Keeps back the first shares of new processes. Tells them when no request without that is under way. */
  async #count (ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#counted.set(id, false)
    await this.settled()
    for (const id of ids) this.#counted.set(id, true)
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
      if (!member.knowsFirstShares) this.#usesFirstShare = false
      this.#members.set(id, { ...member, since, seenAt: now })
    }
    for (const [id, { seenAt }] of this.#members) {
      if (now < seenAt + this.#windowMs + VALID_MS) continue
      this.#members.delete(id)
      this.#redis.run(async (redis) => await redis.hdel(MEMBERS_KEY, id)).catch(() => {})
    }
    this.#summarize()
    const withFirstShare = [...this.#members].filter(([, { firstShare }]) => firstShare > 0).map(([id]) => id)
    for (const id of this.#counted.keys()) if (!withFirstShare.includes(id)) this.#counted.delete(id)
    const uncounted = withFirstShare.filter((id) => id !== this.id && !this.#counted.has(id))
    if (uncounted.length > 0) this.#count(uncounted)
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
