import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { ClientTable } from './client-table.ts'
import { GenerationalMap } from './generational-map.ts'
import { VALID_MS } from './heartbeats.ts'
import { latest, Lease } from './lease.ts'
import { FIRST_RESERVE, LeaseStats, requestLease, returnLease } from './lease-requests.ts'
import { NO_WINDOW, type LimitOptions } from './lease-script.ts'
import type { LeaseStore } from './lease-store.ts'
import type { LocalLimit } from './succession.ts'
import type { Count } from './counters.ts'

/** Successive requests that may grant nothing to waiting reads before the window counts as used up. */
const MAX_FRUITLESS = 20
/** Successive waits for other processes to return reads, before a client is refused. */
const RECALL_WAITS_MS = [3, 6, 12, 25, 50, 100, 200] as const
/** The most leases that are remembered, at 0.6 KB each. Beyond that, the oldest are forgotten. */
const MAX_LEASES = 200_000
/** Leases that are returned at once when the process ends. */
const RETURN_BATCH = 500

/**
 * A fixed-window limit that all processes share. A process allows its share of a client's reads without
 * asking Redis, and leases the reads beyond it, several at once. Shares and leases of a window never exceed
 * `max`, and before a read is refused, what other processes have left is recalled. While Redis is
 * unreachable, each process counts locally and reports its count afterwards (docs/adr/0001, docs/adr/0017).
 */
export class LeasedLimit implements LocalLimit {
  readonly stats = new LeaseStats()
  readonly nameSpace: string
  readonly max: number
  readonly timeWindow: number
  readonly #store: LeaseStore | undefined
  /** What this process has counted by itself, for clients that need no leases. */
  counts: ClientTable
  /** For 66 s: the clients that may have spent their limits when this process got its first share. */
  #nearLimit: { readonly clients: ReadonlySet<string>, readonly until: number } | undefined
  readonly #leases: GenerationalMap<Lease>
  /** Requests under way. */
  #asking = 0
  #isClosing = false
  #hasHandedOver = false

  /** @param store grants the leases of all processes; without one, this process counts locally */
  constructor (options: LimitOptions, store?: LeaseStore) {
    this.nameSpace = options.nameSpace
    this.max = options.max
    this.timeWindow = options.timeWindow
    this.counts = new ClientTable(options.timeWindow)
    this.#leases = new GenerationalMap(options.timeWindow, MAX_LEASES)
    this.#store = store
    store?.register(options.nameSpace, this)
  }

  /**
   * Counts one read. Returns a promise only when Redis has to be asked.
   *
   * @param now the process clock, in milliseconds
   */
  take (key: string, now: number): Count | Promise<Count> {
    const lease = this.#leases.size === 0 ? undefined : this.#leases.get(key)
    if (lease?.isOpen(now) === true) return this.#takeLeased(key, lease)
    if (lease?.asking === true) return this.#wait(key, lease)
    if (!this.#reachable) return this.#takeLocally(key, now)
    const share = this.#nearLimit !== undefined && this.#isNearLimit(key, now) ? 0 : this.share(now)
    const count = this.counts.take(key, share, true, now)
    if (count === undefined) return this.#wait(key, this.#open(key, now))
    this.stats.allowedByShare++
    return count
  }

  /** The reads that this process may allow a client in a window without asking Redis. */
  share (now: number): number {
    if (this.#store === undefined) return 0
    const { members } = this.#store
    const share = members.share(this.max, now)
    return share === 0 && this.#nearLimit !== undefined ? members.firstShare(this.max, now) : share
  }

  /**
   * Settles what this process has counted: returns unspent reads, reports what it counted without Redis, and
   * hands over the reads in its shares. No read may be taken from now on. Recalls are still answered.
   *
   * @throws {RedisAwayError} when the reads can't be handed over
   */
  async close (): Promise<void> {
    if (this.#store === undefined) return
    const { succession } = this.#store
    await succession.stopAdopting()
    this.#isClosing = true
    const now = clock.now()
    const open = [...this.#leases.entries()].filter(([, lease]) => lease.asking || now < lease.resetAt)
    await succession.noteReported(this.nameSpace, open.map(([key]) => key))
    while (open.length > 0) {
      await Promise.all(open.splice(0, RETURN_BATCH).map(async ([key, lease]) =>
        await this.#settle(key, lease)
      ))
    }
    await succession.handOver(this.nameSpace, this.counts)
    this.#hasHandedOver = true
    while (this.#asking > 0) await sleep(1)
  }

  #isNearLimit (key: string, now: number): boolean {
    if (this.#nearLimit !== undefined && now >= this.#nearLimit.until) this.#nearLimit = undefined
    return this.#nearLimit?.clients.has(key) === true
  }

  /** The number of clients remembered. */
  get clients (): number {
    return this.#leases.size + this.counts.size
  }

  get #reachable (): boolean {
    return this.#store !== undefined && this.#store.redis.reachable
  }

  #takeLeased (key: string, lease: Lease): Count | Promise<Count> {
    if (lease.left > 0 && (!lease.isLocal || !this.#reachable)) {
      if (--lease.left === lease.askAt && !lease.asking && this.#reachable) this.#ask(key, lease)
      return lease.count
    }
    if (lease.exhausted) return lease.refusal(this.max)
    return this.#reachable ? this.#wait(key, lease) : this.#takeLeasedLocally(lease)
  }

  /** Counts one read locally in an open window, while Redis is unreachable. */
  #takeLeasedLocally (lease: Lease): Count {
    if (!lease.isLocal) {
      this.stats.countedLocally++
      lease.countLocally(this.max)
    }
    if (lease.left === 0) return lease.refusal(this.max)
    lease.left--
    return lease.count
  }

  /** Counts a read of a client without a lease, while Redis is unreachable. */
  #takeLocally (key: string, now: number): Count {
    const { max, timeWindow } = this
    const count = this.counts.take(key, max, false, now)
    if (count?.used === 1) this.stats.countedLocally++
    return count ??
      { allowed: false, used: max, resetAt: this.counts.find(key, now)?.resetAt ?? now + timeWindow }
  }

  /** Creates a lease, which takes over what this process has counted for the client. */
  #open (key: string, now: number): Lease {
    const lease = new Lease((this.#store as LeaseStore).members.id)
    const previous = this.#leases.get(key)
    const unanswered = previous?.id === NO_WINDOW ? previous : undefined
    const sent = unanswered?.processId === lease.processId ? unanswered : undefined
    lease.isRetry = sent !== undefined
    if (unanswered !== undefined) lease.previousEnd = unanswered.previousEnd
    else if (previous !== undefined && now < previous.resetAt + this.timeWindow) {
      lease.previousEnd = previous.resetAt
    }
    const counted = this.counts.find(key, now)
    if (counted !== undefined) {
      lease.unreported = counted.used
      // Who exceeds a share will probably read on here, so the first lease has a reserve.
      if (counted.used > 0) lease.nextReserve = FIRST_RESERVE
      lease.resetAt = counted.resetAt
      // Before that, the window in Redis may still be the previous one, to which the process has reported.
      const isNext = now > (unanswered?.previousEnd ?? -Infinity) + VALID_MS
      if (sent?.resetAt === lease.resetAt && isNext) {
        lease.resent = sent.isRetry ? sent.resent : sent.unreported
      }
      lease.previousEnd = latest(lease.previousEnd, counted.previousEnd)
    }
    this.#leases.set(key, lease, now)
    return lease
  }

  #wait (key: string, lease: Lease): Promise<Count> {
    return new Promise((resolve) => {
      lease.waiting.push(resolve)
      if (!lease.asking) this.#ask(key, lease)
    })
  }

  /** Requests leases until every waiting read is allowed or refused. Never rejects. */
  async #ask (key: string, lease: Lease): Promise<void> {
    const store = this.#store as LeaseStore
    lease.asking = true
    this.#asking++
    try {
      let recalls = 0
      let fruitless = 0
      do {
        const outcome = await requestLease(this, store, key, lease)
        fruitless = lease.serveWaiting() > 0 ? 0 : fruitless + 1
        if (outcome !== 'recalled') lease.silentSince = undefined
        if (outcome === 'continue' && fruitless < MAX_FRUITLESS) continue
        const wait = outcome === 'recalled' ? RECALL_WAITS_MS[recalls++] : undefined
        if (wait !== undefined) await sleep(wait)
        else if (lease.isLost && !lease.ignoresSilent) lease.ignoresSilent = true
        else if (outcome === 'recalled' && this.#mayStillAnswer(lease)) lease.refuseWaiting(this.max)
        else this.#exhaust(lease)
      } while (lease.waiting.length > 0)
      if (lease.id === NO_WINDOW) this.#leases.delete(key) // a report, and the window has ended meanwhile
    } catch {
      this.#countWaiting(key, lease)
    } finally {
      lease.asking = false
      this.#asking--
      if (lease.reportPending) this.#report(key)
      else if (lease.id !== NO_WINDOW && lease.recallPending) this.recall(key, lease.id)
    }
  }

  /** Whether a process that hasn't answered may only have paused. Then a later read asks again. */
  #mayStillAnswer (lease: Lease): boolean {
    const now = clock.now()
    lease.silentSince ??= now
    return now < lease.silentSince + VALID_MS
  }

  #exhaust (lease: Lease): void {
    lease.exhausted = true
    lease.total = this.max // what a dead process may have allowed is spent
    this.stats.exhausted++
    lease.refuseWaiting(this.max)
  }

  /** Counts the waiting reads locally, because Redis has become unreachable. */
  #countWaiting (key: string, lease: Lease): void {
    const now = clock.now()
    const isOpen = lease.isOpen(now)
    for (const resolve of lease.waiting.splice(0)) {
      resolve(isOpen ? this.#takeLeasedLocally(lease) : this.#takeLocally(key, now))
    }
  }

  /** Answers a recall by another process: gives unspent reads back to Redis, or reports the count. */
  recall (key: string, id: number): void {
    const lease = this.#leases.get(key)
    if (lease?.asking === true) {
      lease.recallPending = true
      return
    }
    if (lease?.id === id) {
      lease.recallPending = false
      if (lease.holds && clock.now() < lease.resetAt) {
        this.stats.recalled++
        returnLease(this, this.#store as LeaseStore, key, lease)
      }
    }
    if (lease?.id !== id || lease.reportedFor !== this.#store?.members.id) this.#report(key)
  }

  /** Reports the client's reads of this process, and what it knows of a window that Redis has lost. */
  async #report (key: string): Promise<void> {
    if (this.#isClosing && !await this.#noteReported(key)) return
    const now = clock.now()
    const known = this.#leases.get(key)
    const isKnown = known !== undefined && (known.asking || known.isOpen(now))
    const lease = isKnown ? known : this.#open(key, now)
    lease.reportPending = lease.asking
    if (lease.asking) return
    lease.reportedFor = ''
    lease.nextReserve = 0
    this.#ask(key, lease)
  }

  /** Notes for who adopts the counts that they are reported. Returns whether they may still be. */
  async #noteReported (key: string): Promise<boolean> {
    const noted = (this.#store as LeaseStore).succession.noteReported(this.nameSpace, [key])
    return await noted.then(() => !this.#hasHandedOver, () => false) // Redis may be away
  }

  useFirstShare (nearLimit: ReadonlySet<string>): void {
    this.#nearLimit = { clients: nearLimit, until: clock.now() + this.timeWindow + 2 * VALID_MS }
  }

  /** Continues with the counts of another process. Asks for the windows of clients that it has reported. */
  adopt (counts: ClientTable, reported: readonly string[]): void {
    this.counts = counts
    this.#nearLimit = undefined
    const now = clock.now()
    const id = randomUUID() // reads under the first id were handed over, and may not be counted yet
    for (const key of reported) {
      const known = this.#leases.get(key)
      if (known?.asking === true) known.reportPending = true
      if (known !== undefined && (known.asking || known.isOpen(now))) continue
      const lease = new Lease(id)
      this.#leases.set(key, lease, now)
      this.#ask(key, lease)
    }
  }

  lost (key: string): void {
    this.#report(key)
  }

  end (key: string, id: number, leftMs: number): void {
    const lease = this.#leases.get(key)
    if (lease?.id === id) lease.resetAt = clock.now() + leftMs
  }

  /**
   * Returns or reports what an open lease has, at the end of the process. Never rejects: reads that can't be
   * reported are still in the table, which is handed over.
   */
  async #settle (key: string, known: Lease): Promise<void> {
    while (known.asking) await sleep(1)
    const lease = known.id === NO_WINDOW ? this.#open(key, clock.now()) : known
    lease.nextReserve = 0
    // A lease without reads is returned, too: if Redis has lost the window, that puts it back.
    if (lease.uncounted > 0) await this.#ask(key, lease)
    else await returnLease(this, this.#store as LeaseStore, key, lease)
  }
}
