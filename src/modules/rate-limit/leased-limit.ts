import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../../infra/system/clock.ts'
import { GenerationalMap } from './generational-map.ts'
import { Lease } from './lease.ts'
import type { LeaseRequest, LeaseStore } from './lease-store.ts'
import type { Count } from './local-windows.ts'

/** The smallest reserve with which the next lease is requested early, so that no read waits for it. */
const MIN_RESERVE_TO_ASK_EARLY = 8
/** Successive waits for other processes to return reads, before a client is refused. */
const RECALL_WAITS_MS = [3, 6, 12, 25, 50, 100, 200] as const
/** The most clients that are remembered, at 0.6 KB each. Beyond that, the oldest are forgotten. */
const MAX_LEASES = 200_000
/** Leases that are returned at once when the process ends. */
const RETURN_BATCH = 500

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
 * A fixed-window limit that all processes share. A process leases several reads of a client's budget from
 * Redis at once. The leases of a window never exceed `max`, and before a read is refused, unspent reads of
 * other processes are recalled. While Redis is unreachable, each process counts locally and reports its count
 * afterwards (docs/adr/0001-leased-rate-limit.md).
 */
export class LeasedLimit {
  readonly stats: LeaseStats = {
    asked: 0,
    granted: 0,
    returned: 0,
    recalled: 0,
    exhausted: 0,
    countedLocally: 0
  }
  readonly #options: LeasedLimitOptions
  readonly #store: LeaseStore | undefined
  readonly #leases: GenerationalMap<Lease>

  /** @param store grants the leases of all processes; without one, this process counts locally */
  constructor (options: LeasedLimitOptions, store?: LeaseStore) {
    this.#options = options
    this.#leases = new GenerationalMap(options.timeWindow, MAX_LEASES)
    this.#store = store
    store?.onRecall((nameSpace, key) => {
      if (nameSpace === options.nameSpace) this.#answerRecall(key)
    })
  }

  /**
   * Counts one read. Returns a promise only when Redis has to be asked.
   *
   * @param now the process clock, in milliseconds
   */
  take (key: string, now: number): Count | Promise<Count> {
    const lease = this.#leases.get(key)
    if (lease === undefined || now >= lease.resetAt) return this.#open(key, lease, now)
    if (lease.left > 0 && (lease.localFrom < 0 || !this.#reachable)) {
      if (--lease.left === lease.askAt && !lease.asking && this.#reachable) this.#ask(key, lease)
      return lease.count
    }
    if (lease.exhausted) return lease.refusal
    return this.#reachable ? this.#wait(key, lease) : takeLocally(lease, this.#options, this.stats, now)
  }

  /** Returns unspent reads to Redis, while it is reachable. */
  async close (): Promise<void> {
    const now = clock.now()
    const held = [...this.#leases.entries()].filter(([, lease]) =>
      lease.left > 0 && lease.localFrom < 0 && now < lease.resetAt
    )
    while (held.length > 0 && this.#reachable) {
      await Promise.all(held.splice(0, RETURN_BATCH).map(async ([key, lease]) =>
        await this.#giveBack(key, lease)
      ))
    }
  }

  /** The number of clients remembered. */
  get clients (): number {
    return this.#leases.size
  }

  get #reachable (): boolean {
    return this.#store !== undefined && this.#store.reachable
  }

  #open (key: string, known: Lease | undefined, now: number): Count | Promise<Count> {
    if (known?.asking === true) return this.#wait(key, known)
    const lease = known ?? new Lease()
    lease.reset()
    this.#leases.set(key, lease, now)
    return this.#reachable ? this.#wait(key, lease) : takeLocally(lease, this.#options, this.stats, now)
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
      do {
        const others = await this.#askOnce(store, key, lease)
        lease.serveWaiting()
        if (lease.waiting.length === 0 || lease.total < this.#options.max) continue
        const wait = others > 0 ? RECALL_WAITS_MS[recalls++] : undefined
        if (wait === undefined) {
          lease.exhausted = true
          this.stats.exhausted++
          lease.refuseWaiting()
        } else {
          await sleep(wait)
        }
      } while (lease.waiting.length > 0)
    } catch {
      const now = clock.now()
      while (lease.waiting.length > 0) {
        lease.waiting.shift()?.(takeLocally(lease, this.#options, this.stats, now))
      }
    } finally {
      lease.asking = false
      if (lease.recallPending) this.#answerRecall(key)
    }
  }

  async #askOnce (store: LeaseStore, key: string, lease: Lease): Promise<number> {
    const reserve = store.hearsRecalls && !lease.recallPending ? lease.nextReserve : 0
    const isLocal = lease.localFrom >= 0
    const held = isLocal ? 0 : lease.left
    const needed = lease.waiting.length
    const sentAt = clock.now()
    const answer = await store.ask({
      ...this.#request(key),
      // Redis may have lost the window during the outage. It is then recreated with the end known here.
      ...(isLocal && { newWindow: Math.max(1, lease.resetAt - sentAt) }),
      needed,
      reserve,
      held,
      countedLocally: isLocal ? lease.localFrom - lease.left : 0
    })
    // Redis didn't grant these reads in this window: they are from another one, or were counted locally.
    if (isLocal || answer.end !== lease.end) lease.left = 0
    this.stats.asked++
    this.stats.granted += answer.granted
    lease.localFrom = -1
    lease.left += answer.granted
    lease.total = answer.total
    lease.end = answer.end
    lease.resetAt = sentAt + answer.leftMs
    lease.reserve = reserve
    lease.holds = held > 0 || answer.granted > needed
    lease.askAt = answer.total < this.#options.max && reserve >= MIN_RESERVE_TO_ASK_EARLY
      ? Math.floor(lease.left / 4) : -1
    return answer.others
  }

  /** Returns the unspent reads of a client, at once or when the request under way has been answered. */
  #answerRecall (key: string): void {
    const lease = this.#leases.get(key)
    if (lease === undefined) return
    lease.recallPending = lease.asking
    if (!lease.holds || lease.asking || clock.now() >= lease.resetAt) return
    this.stats.recalled++
    this.#giveBack(key, lease)
  }

  async #giveBack (key: string, lease: Lease): Promise<void> {
    const reads = lease.left
    this.stats.returned += reads
    lease.left = 0
    lease.total -= reads
    lease.reserve = lease.askAt = -1
    lease.holds = false
    await this.#store?.giveBack(
      { ...this.#request(key), needed: 0, reserve: 0, held: 0, countedLocally: 0 },
      reads,
      lease.end
    )
  }

  #request (key: string): Pick<LeaseRequest, 'nameSpace' | 'key' | 'max' | 'timeWindow'> {
    return { ...this.#options, key }
  }
}

/** Counts one read locally, starting from the last known count of the window. */
function takeLocally (
  lease: Lease,
  { max, timeWindow }: LeasedLimitOptions,
  stats: LeaseStats,
  now: number
): Count {
  if (now >= lease.resetAt) {
    lease.reset()
    lease.resetAt = now + timeWindow
  }
  if (lease.localFrom < 0) {
    stats.countedLocally++
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
