import { clock } from '../../infra/system/clock.ts'
import { parse, VALID_MS, type Departed, type Heartbeat } from './heartbeats.ts'
import { firstShareReads, sharedReads } from './shares.ts'

/** After this long without a heartbeat, a process has lost its share, and all its requests have ended. */
const SILENT_MS = VALID_MS + 1000
/** Heartbeats that are further apart mean an outage of Redis, or that this process has paused. */
const GAP_MS = 2000

interface Member extends Heartbeat {
  /** When its first heartbeat was seen, in milliseconds of the process clock. It may have begun earlier. */
  since: number
  /** When its last heartbeat was seen. */
  seenAt: number
}

/** The reads that other processes may have allowed a client without having reported them yet. */
export interface OpenShares {
  readonly reads: number
  /** The reads among them in first shares. */
  readonly firstReads: number
  /** How many of these processes may report soon, so that the caller asks again. */
  readonly alive: number
}

/** All processes that this one knows by their heartbeats, itself among them. */
export class KnownMembers {
  readonly #windowMs: number
  readonly #members = new Map<string, Member>()
  /** Identifies this process. */
  ownId: string
  /** The processes among which shares are divided. */
  size = 1
  #sawAt = -Infinity
  /** When this process began to see heartbeats without a gap. */
  #seesSince = -Infinity

  /** @param windowMs the longest window of the limits, in milliseconds */
  constructor (ownId: string, windowMs: number) {
    this.ownId = ownId
    this.#windowMs = windowMs
  }

  /**
   * Takes over all heartbeats that are in Redis.
   *
   * @returns the members that have been silent for so long that they don't count any more
   */
  see (heartbeats: Record<string, string>, now: number): readonly string[] {
    if (now > this.#sawAt + GAP_MS) this.#seesSince = now
    this.#sawAt = now
    for (const [id, text] of Object.entries(heartbeats)) {
      const known = this.#members.get(id)
      if (text !== known?.text) this.add(id, text, now, known)
    }
    const silent = [...this.#members].filter(([, { seenAt }]) => now >= seenAt + this.#windowMs + VALID_MS)
      .map(([id]) => id)
    for (const id of silent) this.#members.delete(id)
    this.size = [...this.#members.values()].filter(({ isReplaced }) => !isReplaced).length
    return silent
  }

  /** @param seenAt when its heartbeat was seen, in milliseconds of the process clock */
  add (id: string, text: string, seenAt: number, known?: Member): void {
    const heartbeat = parse(id, text)
    const hasContinued = known !== undefined && seenAt < known.seenAt + VALID_MS
    this.#members.set(id, {
      ...heartbeat,
      // The last heartbeat of a process doesn't say whether it had a share. A replaced one never had any.
      ...heartbeat.departed !== undefined && !heartbeat.isReplaced &&
        { mayHaveShare: known?.mayHaveShare ?? true },
      since: heartbeat.isSteady ? -Infinity : hasContinued ? known.since : seenAt,
      seenAt
    })
  }

  has (id: string): boolean {
    return this.#members.has(id)
  }

  /** Another process continues as a member that had left; or did, if it has left again since. */
  markContinued ({ id, handover }: Departed): void {
    const member = this.#members.get(id)
    if (member?.departed?.handover !== handover) return
    this.#members.set(id, { ...member, departed: undefined, seenAt: clock.now() })
  }

  /** The other processes that have shut down gracefully within the last window. */
  get departed (): readonly Departed[] {
    return [...this.#members.values()].flatMap(({ departed }) =>
      departed === undefined || departed.id === this.ownId ? [] : [departed]
    )
  }

  /** The age of the last heartbeat of each process among which shares are divided, in milliseconds. */
  ages (now: number): ReadonlyMap<string, number> {
    const counted = [...this.#members].filter(([, { isReplaced }]) => !isReplaced)
    return new Map(counted.map(([id, { seenAt }]) => [id, now - seenAt]))
  }

  /** Whether a process doesn't know of adoptions and first shares, or didn't. */
  get hasEarlierRelease (): boolean {
    return [...this.#members.values()].some(({ isCurrent }) => !isCurrent)
  }

  /** The other processes that have first shares. */
  get withFirstShare (): readonly string[] {
    return [...this.#members].filter(([id, { firstShare }]) => firstShare > 0 && id !== this.ownId)
      .map(([id]) => id)
  }

  /** Whether all others keep the first share of this process back, or are gone. */
  get isFirstShareKeptBack (): boolean {
    const now = clock.now()
    return [...this.#members].every(([id, { seenAt, keepsBack, departed, isReplaced }]) =>
      id === this.ownId || departed !== undefined || isReplaced || keepsBack.includes(this.ownId) ||
      now >= seenAt + SILENT_MS
    )
  }

  /**
   * Returns the shares of the others that may still be spent.
   *
   * @param ownShare the share of this process
   * @param heard the processes whose reads in the window are known: they reported them, or handed them over
   * @param isLost whether Redis has lost the window, so that a process may have been granted any reads in it
   */
  openShares (
    max: number,
    ownShare: number,
    heard: ReadonlySet<string>,
    isLost: boolean,
    now: number
  ): OpenShares {
    const isAlive = ({ seenAt }: Member): boolean => now < seenAt + VALID_MS
    const isSteady = (member: Member): boolean =>
      isAlive(member) && now >= member.since + this.#windowMs + 2 * VALID_MS
    const steady = [...this.#members.values()].filter(isSteady).length
    // After an outage, the heartbeats of the others need a moment.
    const isResuming = now > this.#sawAt + GAP_MS || now < this.#seesSince + VALID_MS
    let shares = 0
    let firstReads = 0
    let alive = 0
    for (const [id, member] of this.#members) {
      const { mayHaveShare, firstShare } = member
      if (id === this.ownId || heard.has(id) || !(mayHaveShare || firstShare > 0 || isLost)) continue
      // A process with a share counts at least itself and the steady ones.
      if (mayHaveShare) shares += Math.floor(sharedReads(max) / (isSteady(member) ? steady : steady + 1))
      firstReads += firstShareReads(max, firstShare)
      if (isAlive(member) || isResuming) alive++
    }
    if (isLost && alive > 0) return { reads: max, firstReads: 0, alive }
    return { reads: Math.min(sharedReads(max) - ownShare, shares) + firstReads, firstReads, alive }
  }
}
