import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError, type RedisClient } from '../../infra/redis/redis-client.ts'

/**
 * The name in Redis: a hash with the last heartbeat of each process, in words:
 *
 * - `NUMBER 2 STATE` of a process that runs. It understands format 2 of handovers. 1 means that it may have a
 *   share, 0 that it has none, `replaced` that it goes on as another process.
 * - `NUMBER HANDOVER MEMBER=AGE … left` of a process that has shut down gracefully and may be continued, with
 *   the members that it counted.
 * - `NUMBER left` of one that may not be continued. The release before writes this, and `NUMBER STATE`.
 */
const MEMBERS_KEY = 'landfall:members:2'
const FORMAT = '2'

const BEAT_INTERVAL_MS = 1000
/** How long a heartbeat is valid. */
const VALID_MS = 3000

interface Member {
  heartbeat: string
  /** Whether it may have had a share within the last window, or may have one soon. */
  mayHaveShare: boolean
  /** If it has shut down gracefully: what it has handed over, so that its share is not open. */
  departed?: Departed
  /** Whether it goes on as another member. It has never had a share. */
  isReplaced: boolean
  /** Whether it asks Redis whether a handover has been adopted. */
  knowsAdoption: boolean
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

/** A process that has shut down gracefully. */
export interface Departed {
  readonly id: string
  /** Version and id of its handover. */
  readonly handover: string
  /** Its last heartbeat, if another process may continue with its share. */
  readonly heartbeat?: string
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
  /** The number of members. */
  #size = 1
  /** When this process became a member without interruption. */
  #since = Infinity
  #validUntil = -Infinity
  #beats = 0
  #hasLeft = false
  /** When this process last had a share. */
  #hadShareUntil = -Infinity
  /** The last heartbeat of the member that this process was before. */
  #replaced: Record<string, string> = {}
  #timer: NodeJS.Timeout | undefined

  /** @param windowMs the longest window of the limits, in milliseconds */
  constructor (redis: RedisClient, { id, windowMs }: { id: string, windowMs: number }) {
    this.#redis = redis
    this.id = id
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
    const words = handover === undefined ? ['left'] : [handover, ...counted, 'left']
    const heartbeat = [++this.#beats, ...words].join(' ')
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
    this.#replaced = { [this.id]: `${this.#beats + 1} ${FORMAT} replaced` }
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
    return this.#isSteady(now) && this.#redis.subscribed ? Math.floor(sharedPart(max) / this.#size) : 0
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
    for (const [id, { since, seenAt, mayHaveShare }] of this.#members) {
      const isAlive = now < seenAt + VALID_MS
      if (isAlive && now >= since + this.#windowMs + 2 * VALID_MS) steady++
      if (id === this.id || heard.has(id) || !(mayHaveShare || isLost)) continue
      if (mayHaveShare) open++
      if (isAlive) alive++
    }
    if (isLost && alive > 0) return { reads: max, alive }
    // Every process with a share counts at least the members whose heartbeats have been steady.
    const largestShare = Math.floor(sharedPart(max) / Math.max(1, steady))
    return { reads: Math.min(sharedPart(max) - this.share(max, now), open * largestShare), alive }
  }

  /** Sends a heartbeat and learns of those of the others. Returns whether it succeeded. Never rejects. */
  async beat (): Promise<boolean> {
    if (this.#hasLeft) return false
    const sentAt = clock.now()
    const heartbeat = `${++this.#beats} ${FORMAT} ${this.#mayHaveShare(sentAt) ? 1 : 0}`
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
      if (now >= this.#validUntil) this.#since = now
      this.#validUntil = sentAt + VALID_MS
      if (now >= this.#since + this.#windowMs) this.#hadShareUntil = this.#validUntil
      this.#replaced = {}
      this.#see(heartbeats, now)
    } catch {
      return false // Redis is unreachable. The share ends with the last heartbeat.
    }
    if (this.isNew && this.departed.some(({ heartbeat }) => heartbeat !== undefined)) await this.onAdoptable()
    return true
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
      if (member.departed !== undefined) member.mayHaveShare = known?.mayHaveShare ?? true
      this.#members.set(id, { ...member, since, seenAt: now })
    }
    for (const [id, { seenAt }] of this.#members) {
      if (now < seenAt + this.#windowMs + VALID_MS) continue
      this.#members.delete(id)
      this.#redis.run(async (redis) => await redis.hdel(MEMBERS_KEY, id)).catch(() => {})
    }
    this.#summarize()
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

/** Reads a heartbeat of this release, or of the one before. */
function parse (id: string, heartbeat: string): Omit<Member, 'since' | 'seenAt'> {
  const words = heartbeat.split(' ')
  const state = words.at(-1)
  const [, handover = ''] = words
  const departed = words.length > 2 ? { id, handover, heartbeat } : { id, handover: `1:${id}` }
  return {
    heartbeat,
    mayHaveShare: state === '1',
    isReplaced: state === 'replaced',
    knowsAdoption: words.length > 2,
    ...state === 'left' && { departed }
  }
}

/** The part of a limit that is shared. The rest is for reads beyond the shares, so that few need a recall. */
const sharedPart = (max: number): number => Math.floor(max * 2 / 3)
