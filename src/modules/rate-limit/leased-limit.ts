import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { ClientTable } from './client-table.ts'
import { GenerationalMap } from './generational-map.ts'
import { Lease } from './lease.ts'
import type { LeaseAnswer, LeaseRequest, LeaseStore, WindowOfClient } from './lease-store.ts'
import type { Count } from './local-windows.ts'
import type { HandedOver } from './handovers.ts'
import type { OpenShares } from './members.ts'

/**
 * The reserves, in reads, grow with each lease of a window: 4, 16, 64, and so on. The first lease of a client
 * that has no share has none.
 */
const FIRST_RESERVE = 4
const MAX_RESERVE = 1024
/** The smallest reserve with which the next lease is requested early, so that no read waits for it. */
const MIN_RESERVE_TO_ASK_EARLY = 8
/** Successive requests that may grant nothing to waiting reads before the window counts as used up. */
const MAX_FRUITLESS = 20
/** Successive waits for other processes to return reads, before a client is refused. */
const RECALL_WAITS_MS = [3, 6, 12, 25, 50, 100, 200] as const
/** The most leases that are remembered, at 0.6 KB each. Beyond that, the oldest are forgotten. */
const MAX_LEASES = 200_000
/** Leases that are returned at once when the process ends. */
const RETURN_BATCH = 500

const NO_SHARES: OpenShares = { reads: 0, alive: 0 }

/** Options, named as in @fastify/rate-limit. */
export interface LeasedLimitOptions {
  /** Distinguishes the windows of this limit from others. It must not contain spaces. */
  readonly nameSpace: string
  /** Reads in a window. */
  readonly max: number
  /** Length of a window from its first read, in milliseconds. */
  readonly timeWindow: number
}

/** Counts for the metrics. */
export interface LeaseStats {
  /** Reads allowed from shares, without asking Redis. */
  allowedByShare: number
  /** Requests for a lease. */
  asked: number
  /** Reads granted. */
  granted: number
  /** Reads returned unspent. */
  returned: number
  /** Leases recalled by another process. */
  recalled: number
  /** Windows found to be used up. */
  exhausted: number
  /** Windows this process counted without Redis. */
  countedLocally: number
}

/**
 * A fixed-window limit that all processes share. A process allows its share of a client's reads without
 * asking Redis, and leases the reads beyond it, several at once. Shares and leases of a window never exceed
 * `max`, and before a read is refused, what other processes have left is recalled. While Redis is
 * unreachable, each process counts locally and reports its count afterwards (docs/adr/0001, docs/adr/0017).
 */
export class LeasedLimit {
  readonly stats: LeaseStats = {
    allowedByShare: 0,
    asked: 0,
    granted: 0,
    returned: 0,
    recalled: 0,
    exhausted: 0,
    countedLocally: 0
  }
  readonly #options: LeasedLimitOptions
  readonly #store: LeaseStore | undefined
  /** Clients that need no leases. */
  readonly #clients: ClientTable
  readonly #leases: GenerationalMap<Lease>
  #isClosed = false

  /** @param store grants the leases of all processes; without one, this process counts locally */
  constructor (options: LeasedLimitOptions, store?: LeaseStore) {
    this.#options = options
    this.#clients = new ClientTable(options.timeWindow)
    this.#leases = new GenerationalMap(options.timeWindow, MAX_LEASES)
    this.#store = store
    store?.onMessage({
      recall: (nameSpace, key, id) => {
        if (nameSpace === options.nameSpace) this.#answerRecall(key, id)
      },
      end: (nameSpace, key, id, leftMs) => {
        if (nameSpace === options.nameSpace) this.#moveEnd(key, id, leftMs)
      }
    })
  }

  /**
   * Counts one read. Returns a promise only when Redis has to be asked.
   *
   * @param now the process clock, in milliseconds
   */
  take (key: string, now: number): Count | Promise<Count> {
    const lease = this.#leases.size === 0 ? undefined : this.#leases.get(key)
    if (lease !== undefined && lease.id !== 0 && now < lease.resetAt) return this.#takeLeased(key, lease)
    if (lease?.asking === true) return this.#wait(key, lease)
    if (!this.#reachable) return this.#takeLocally(key, now)
    const count = this.#clients.take(key, this.share(now), true, now)
    if (count === undefined) return this.#wait(key, this.#open(key, now))
    this.stats.allowedByShare++
    return count
  }

  /** The reads that this process may allow a client in a window without asking Redis. */
  share (now: number): number {
    return this.#store?.members?.share(this.#options.max, now) ?? 0
  }

  /**
   * Settles what this process has counted: returns unspent reads, reports what it counted without Redis, and
   * hands over the reads in its shares. No read may be taken from now on.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async close (): Promise<void> {
    this.#isClosed = true
    if (this.#store === undefined) return
    const now = clock.now()
    const open = [...this.#leases.entries()].filter(([, lease]) => lease.asking || now < lease.resetAt)
    while (open.length > 0) {
      await Promise.all(open.splice(0, RETURN_BATCH).map(async ([key, lease]) =>
        await this.#settle(key, lease)
      ))
    }
    await this.#store.handOver(this.#options.nameSpace, this.#clients)
  }

  /** The number of clients remembered. */
  get clients (): number {
    return this.#leases.size + this.#clients.size
  }

  get #reachable (): boolean {
    return this.#store !== undefined && this.#store.reachable
  }

  #takeLeased (key: string, lease: Lease): Count | Promise<Count> {
    if (lease.left > 0 && (lease.localFrom < 0 || !this.#reachable)) {
      if (--lease.left === lease.askAt && !lease.asking && this.#reachable) this.#ask(key, lease)
      return lease.count
    }
    if (lease.exhausted) return lease.refusal
    return this.#reachable ? this.#wait(key, lease) : takeFromLease(lease, this.#options, this.stats)
  }

  /** Counts a read of a client without a lease, while Redis is unreachable. */
  #takeLocally (key: string, now: number): Count {
    const { max, timeWindow } = this.#options
    const count = this.#clients.take(key, max, false, now)
    if (count?.used === 1) this.stats.countedLocally++
    return count ??
      { allowed: false, used: max, resetAt: this.#clients.find(key, now)?.resetAt ?? now + timeWindow }
  }

  /** Creates a lease, which takes over what this process has counted for the client. */
  #open (key: string, now: number): Lease {
    const lease = new Lease()
    const previous = this.#leases.get(key)
    if (previous !== undefined && now < previous.resetAt + this.#options.timeWindow) {
      lease.previousEnd = previous.resetAt
    }
    const counted = this.#clients.find(key, now)
    if (counted !== undefined) {
      lease.unreported = counted.used
      // Who exceeds a share will probably read on here, so the first lease has a reserve.
      if (counted.used > 0) lease.nextReserve = FIRST_RESERVE
      lease.resetAt = counted.resetAt
      lease.previousEnd = Math.max(lease.previousEnd, counted.previousEnd)
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
    try {
      let recalls = 0
      let fruitless = 0
      do {
        const outcome = await this.#askOnce(store, key, lease)
        fruitless = lease.serveWaiting() > 0 ? 0 : fruitless + 1
        if (outcome === 'continue' && fruitless < MAX_FRUITLESS) continue
        const wait = outcome === 'recalled' ? RECALL_WAITS_MS[recalls++] : undefined
        if (wait === undefined) this.#exhaust(lease)
        else await sleep(wait)
      } while (lease.waiting.length > 0)
    } catch {
      this.#countWaiting(key, lease)
    } finally {
      lease.asking = false
      if (lease.id === 0) this.#leases.delete(key) // a report, and the window has ended meanwhile
      else if (lease.recallPending) this.#giveBackRecalled(key, lease)
    }
  }

  #exhaust (lease: Lease): void {
    lease.exhausted = true
    lease.total = this.#options.max // what a dead process may have allowed is spent
    this.stats.exhausted++
    lease.refuseWaiting()
  }

  /**
   * Sends one request. If there are too few reads for the waiting ones, other processes may still return some
   * (`recalled`) or not (`exhausted`).
   */
  async #askOnce (
    store: LeaseStore,
    key: string,
    lease: Lease
  ): Promise<'continue' | 'recalled' | 'exhausted'> {
    const { max } = this.#options
    const window = this.#window(key)
    const hasDeparted = (store.members?.departed.length ?? 0) > 0
    const handedOver = hasDeparted ? await store.handedOver(window) : []
    const reserve = store.hearsRecalls && !lease.recallPending ? lease.nextReserve : 0
    const needed = lease.waiting.length
    const held = lease.localFrom >= 0 ? 0 : lease.left
    const sentAt = clock.now()
    const openShares = this.#openShares(lease, sentAt).reads
    const answer = await store.ask({
      ...window,
      ...this.#counted(lease, handedOver, sentAt),
      needed,
      reserve,
      held,
      openShares
    })
    this.stats.asked++
    if (answer.id === 0) return 'continue'
    this.#apply(key, lease, answer, sentAt)
    lease.nextReserve = Math.min(MAX_RESERVE, Math.max(FIRST_RESERVE, reserve * 4))
    lease.holds = held > 0 || answer.granted > needed
    lease.askAt = answer.total < max && reserve >= MIN_RESERVE_TO_ASK_EARLY ? Math.floor(lease.left / 4) : -1
    if (answer.granted >= needed) return 'continue'
    lease.reporters = answer.reporters
    const open = this.#openShares(lease, sentAt)
    if (open.reads < openShares) return 'continue'
    return answer.others + open.alive > 0 ? 'recalled' : 'exhausted'
  }

  /** What this process has counted without Redis and not reported yet, as a part of a request. */
  #counted (
    lease: Lease,
    handedOver: readonly HandedOver[],
    now: number
  ): Pick<LeaseRequest, 'unreported' | 'sincePreviousEnd' | 'restOfWindow' | 'known' | 'handedOver'> {
    const { max, timeWindow } = this.#options
    const { unreported, localFrom, left, id, total, own } = lease
    const open = handedOver.filter(({ window }) => window.used > 0)
    const previousEnd = Math.max(lease.previousEnd, ...handedOver.map(({ window }) => window.previousEnd))
    const resetAt = Math.min(
      now < lease.resetAt ? lease.resetAt : Infinity,
      ...open.map(({ window }) => window.resetAt)
    )
    return {
      unreported: unreported + (localFrom < 0 ? 0 : localFrom - left),
      handedOver: open,
      ...previousEnd !== -Infinity && { sincePreviousEnd: Math.max(0, now - previousEnd) },
      // The window began with the first read here, or Redis may have lost it.
      ...resetAt !== Infinity && { restOfWindow: Math.min(timeWindow, Math.max(1, resetAt - now)) },
      ...id !== 0 && now < lease.resetAt &&
        { known: { id, total: localFrom < 0 ? total : max - localFrom, own } }
    }
  }

  #apply (key: string, lease: Lease, { id, granted, total, leftMs }: LeaseAnswer, sentAt: number): void {
    // Redis didn't grant these reads in this window: they are from another one, or were counted locally.
    const reported = lease.unreported + (lease.localFrom < 0 ? 0 : lease.localFrom - lease.left)
    if (lease.localFrom < 0 && id !== lease.id) lease.own -= lease.left
    if (lease.localFrom >= 0 || id !== lease.id) lease.left = 0
    this.#clients.clear(key) // they are counted in Redis from now on
    this.stats.granted += granted
    lease.own += granted + reported
    lease.unreported = 0
    lease.localFrom = -1
    lease.left += granted
    lease.total = total
    lease.id = id
    lease.resetAt = sentAt + leftMs
  }

  #openShares (lease: Lease, now: number): OpenShares {
    return this.#store?.members?.openShares(this.#options.max, lease.reporters, now) ?? NO_SHARES
  }

  /** Counts the waiting reads locally, because Redis has become unreachable. */
  #countWaiting (key: string, lease: Lease): void {
    const now = clock.now()
    const isOpen = lease.id !== 0 && now < lease.resetAt
    if (!isOpen) this.#leases.delete(key)
    for (const resolve of lease.waiting.splice(0)) {
      resolve(isOpen ? takeFromLease(lease, this.#options, this.stats) : this.#takeLocally(key, now))
    }
  }

  /** Returns unspent reads, or reports what this process has counted for the client. */
  #answerRecall (key: string, id: number): void {
    const lease = this.#leases.get(key)
    if (this.#isClosed) return // what it holds is being returned
    if (lease?.asking === true) {
      lease.recallPending = true
    } else if (lease?.id === id) {
      this.#giveBackRecalled(key, lease)
    } else if (this.#store?.members !== undefined) {
      // If Redis has lost the window of the lease, the report says what it was.
      const isOpen = lease !== undefined && lease.id !== 0 && clock.now() < lease.resetAt
      const report = isOpen ? lease : this.#open(key, clock.now())
      report.nextReserve = 0
      this.#ask(key, report)
    }
  }

  #moveEnd (key: string, id: number, leftMs: number): void {
    const lease = this.#leases.get(key)
    if (lease?.id === id) lease.resetAt = clock.now() + leftMs
  }

  #giveBackRecalled (key: string, lease: Lease): void {
    lease.recallPending = false
    if (!lease.holds || clock.now() >= lease.resetAt) return
    this.stats.recalled++
    this.#giveBack(key, lease)
  }

  /** Returns or reports what an open lease has, at the end of the process. @throws {RedisAwayError} */
  async #settle (key: string, lease: Lease): Promise<void> {
    while (lease.asking) await sleep(1)
    if (lease.localFrom >= 0 || lease.unreported > 0) {
      lease.nextReserve = 0
      await this.#askOnce(this.#store as LeaseStore, key, lease)
    } else {
      await this.#giveBack(key, lease) // without unspent reads, too: Redis may have lost the window
    }
  }

  async #giveBack (key: string, lease: Lease): Promise<void> {
    const { left: reads, total, own, id } = lease
    this.stats.returned += reads
    lease.left = 0
    lease.total -= reads
    lease.own -= reads
    lease.nextReserve = 0
    lease.askAt = -1
    lease.holds = false
    await this.#store?.giveBack(this.#window(key), reads, { id, total, own })
  }

  #window (key: string): WindowOfClient {
    return { ...this.#options, key }
  }
}

/** Counts one read locally, starting from the last known count of an open window. */
function takeFromLease (lease: Lease, { max }: LeasedLimitOptions, stats: LeaseStats): Count {
  if (lease.localFrom < 0) {
    stats.countedLocally++
    lease.own -= lease.left
    lease.left += max - lease.total
    lease.total = max
    lease.localFrom = lease.left
    lease.askAt = -1
    lease.holds = false // a recall must not return reads that Redis did not grant
  }
  if (lease.left === 0) return lease.refusal
  lease.left--
  return lease.count
}
