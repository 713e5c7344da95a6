import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../clock.ts'
import type { LeaseRequest, LeaseStore } from './lease-store.ts'
import type { Count } from './local-windows.ts'

/** Reads that are taken in advance: none for a client's first read, then more each time, up to this many. */
const MAX_EXTRA = 1024
/** From this many on, the next ones are asked for before the last are spent, so that nobody waits for them. */
const MIN_EXTRA_IN_ADVANCE = 8
/**
 * How long to wait, time after time, for others to hand back what they hold, in milliseconds. Only what a killed process
 * held takes all of it, once in a window.
 */
const RECALL_WAITS_MS = [3, 6, 12, 25, 50, 100, 200] as const
/** How many clients are remembered before the oldest are forgotten. One takes 0.6 KB. */
const MAX_LEASES = 200_000
/** Commands that are under way at once when everything is handed back. */
const HAND_BACK_BATCH = 500

/** The names are those of @fastify/rate-limit. */
export interface LeasedLimitOptions {
  /** Tells the windows of this limit from others'; without spaces. */
  readonly nameSpace: string
  /** Reads in a window. */
  readonly max: number
  /** Length of a window from its first read, in milliseconds. */
  readonly timeWindow: number
}

/** What this process knows of one client's window. */
class Lease {
  /** Reads that it may let pass without asking. */
  left = 0
  /** Reads granted to all processes, `left` included. */
  total = 0
  /** When the window ends, by this process' clock. Never later than by Redis'. */
  resetAt = 0
  /** The window's end by Redis' clock, which names it. */
  end = 0
  /** Reads that were taken in advance the last time. */
  extra = -1
  /** At how many left more are asked for; -1 for not in advance. */
  askAt = -1
  /** What was left when this process began to count alone; -1 while it doesn't. */
  aloneFrom = -1
  /** Known to be used up, everywhere. */
  exhausted = false
  asking = false
  /** The store takes this process for one that may hold unspent reads. */
  holds = false
  /** Another process wanted what this one held while it was asking. */
  recalled = false
  readonly waiting: ((count: Count) => void)[] = []

  get count (): Count {
    return { allowed: true, used: this.total - this.left, resetAt: this.resetAt }
  }

  get refusal (): Count {
    return { allowed: false, used: this.total, resetAt: this.resetAt }
  }

  /** Begins anew, in a window of which nothing is known. */
  reset (): void {
    this.left = this.total = this.end = 0
    this.extra = this.askAt = this.aloneFrom = -1
    this.exhausted = this.holds = false
  }
}

/** What happened, for Prometheus. */
export interface LeaseStats {
  /** Times that reads were asked for. */
  asked: number
  /** Reads that they brought. */
  granted: number
  /** Reads that were handed back. */
  returned: number
  /** Leases that another process called back. */
  recalled: number
  /** Windows that were found used up. */
  exhausted: number
  /** Windows that this process counted by itself. */
  alone: number
}

/**
 * A fixed-window limit for very many reads, one over all processes that share a store, counted in *leases*: a process
 * takes some reads of a client's budget at once and lets them pass without asking.
 *
 * What is granted never adds up to more than `max`, so no window admits more. And none admits less while somebody asks:
 * leases shrink with what is left, and when a read would be refused while another process still holds unspent ones,
 * those are called back first. A read that waits is granted what is left, whoever held it. (What a killed process held
 * is lost until the window ends.) Windows are Redis' and end by its clock. While it is away each process counts alone,
 * going on from what it knows, and tells it afterwards.
 *
 * Made for the public read, where one exact count in Redis per read costs a third of the rate. Not a store of
 * @fastify/rate-limit, with which a route has 0.6 to 0.7 of the rate even when it counts in memory
 * (`npm run bench`); it guards the routes where that doesn't matter.
 */
export class LeasedLimit {
  readonly stats: LeaseStats = { asked: 0, granted: 0, returned: 0, recalled: 0, exhausted: 0, alone: 0 }
  readonly #options: LeasedLimitOptions
  readonly #store: LeaseStore | undefined
  #young = new Map<string, Lease>()
  #old = new Map<string, Lease>()
  #turnAt = 0

  /** @param store where all processes' leases come from; without one this process counts alone */
  constructor (options: LeasedLimitOptions, store?: LeaseStore) {
    this.#options = options
    this.#store = store
    store?.onRecall((nameSpace, key) => { if (nameSpace === options.nameSpace) this.#recalled(key) })
  }

  /**
   * Counts one read; at once when this process can tell by itself.
   *
   * @param now the process clock, in milliseconds
   */
  take (key: string, now: number): Count | Promise<Count> {
    const lease = this.#young.get(key) ?? this.#old.get(key)
    if (lease === undefined || now >= lease.resetAt) return this.#open(key, lease, now)
    if (lease.left > 0 && (lease.aloneFrom < 0 || !this.#reachable)) {
      if (--lease.left === lease.askAt && !lease.asking && this.#reachable) this.#ask(key, lease)
      return lease.count
    }
    if (lease.exhausted) return lease.refusal
    return this.#reachable ? this.#wait(key, lease) : takeAlone(lease, this.#options, this.stats, now)
  }

  /** Hands back what is unspent, as far as that is possible: at the end of the process. */
  async close (): Promise<void> {
    const now = clock.now()
    const held = [...this.#old, ...this.#young].filter(([, lease]) => lease.left > 0 && lease.aloneFrom < 0 && now < lease.resetAt)
    while (held.length > 0 && this.#reachable) {
      await Promise.all(held.splice(0, HAND_BACK_BATCH).map(async ([key, lease]) => await this.#giveBack(key, lease)))
    }
  }

  /** How many clients it remembers. */
  get clients (): number {
    return this.#young.size + this.#old.size
  }

  get #reachable (): boolean {
    return this.#store !== undefined && this.#store.reachable
  }

  #open (key: string, known: Lease | undefined, now: number): Count | Promise<Count> {
    if (known?.asking === true) return this.#wait(key, known)
    // Two generations take turns, so that windows which have ended are dropped together instead of by a timer each.
    if (now >= this.#turnAt || this.#young.size >= MAX_LEASES / 2) {
      this.#old = this.#young
      this.#young = new Map()
      this.#turnAt = now + this.#options.timeWindow
    }
    const lease = known ?? new Lease()
    lease.reset()
    this.#young.set(key, lease)
    return this.#reachable ? this.#wait(key, lease) : takeAlone(lease, this.#options, this.stats, now)
  }

  #wait (key: string, lease: Lease): Promise<Count> {
    return new Promise((resolve) => {
      lease.waiting.push(resolve)
      if (!lease.asking) this.#ask(key, lease)
    })
  }

  /** Asks until everybody who waits has an answer. Never rejects. */
  async #ask (key: string, lease: Lease): Promise<void> {
    const store = this.#store as LeaseStore
    lease.asking = true
    try {
      let recalls = 0
      do {
        const others = await this.#askOnce(store, key, lease)
        serve(lease)
        if (lease.waiting.length === 0 || lease.total < this.#options.max) continue
        const wait = others > 0 ? RECALL_WAITS_MS[recalls++] : undefined
        if (wait === undefined) {
          lease.exhausted = true
          this.stats.exhausted++
          refuse(lease)
        } else {
          await sleep(wait)
        }
      } while (lease.waiting.length > 0)
    } catch {
      const now = clock.now()
      while (lease.waiting.length > 0) lease.waiting.shift()?.(takeAlone(lease, this.#options, this.stats, now))
    } finally {
      lease.asking = false
      if (lease.recalled) this.#recalled(key)
    }
  }

  async #askOnce (store: LeaseStore, key: string, lease: Lease): Promise<number> {
    const extra = store.hearsRecalls && !lease.recalled ? nextExtra(lease.extra) : 0
    const isAlone = lease.aloneFrom >= 0
    const held = isAlone ? 0 : lease.left
    const needed = lease.waiting.length
    const sentAt = clock.now()
    const answer = await store.ask({
      ...this.#request(key),
      // Where Redis has forgotten the window, it goes on from what this process knows of it, and ends when that said.
      ...(isAlone && { newWindow: Math.max(1, lease.resetAt - sentAt) }),
      needed,
      extra,
      held,
      alone: isAlone ? lease.aloneFrom - lease.left : 0
    })
    // What was left of another window, or of a budget that was counted alone, is none of this one.
    if (isAlone || answer.end !== lease.end) lease.left = 0
    this.stats.asked++
    this.stats.granted += answer.granted
    lease.aloneFrom = -1
    lease.left += answer.granted
    lease.total = answer.total
    lease.end = answer.end
    lease.resetAt = sentAt + answer.leftMs
    lease.extra = extra
    lease.holds = held > 0 || answer.granted > needed
    lease.askAt = answer.total < this.#options.max && extra >= MIN_EXTRA_IN_ADVANCE ? Math.floor(lease.left / 4) : -1
    return answer.others
  }

  #recalled (key: string): void {
    const lease = this.#young.get(key) ?? this.#old.get(key)
    if (lease === undefined) return
    lease.recalled = lease.asking
    if (!lease.holds || lease.asking || clock.now() >= lease.resetAt) return
    this.stats.recalled++
    this.#giveBack(key, lease)
  }

  async #giveBack (key: string, lease: Lease): Promise<void> {
    const reads = lease.left
    this.stats.returned += reads
    lease.left = 0
    lease.total -= reads
    lease.extra = lease.askAt = -1
    lease.holds = false
    await this.#store?.giveBack({ ...this.#request(key), needed: 0, extra: 0, held: 0, alone: 0 }, reads, lease.end)
  }

  #request (key: string): Pick<LeaseRequest, 'nameSpace' | 'key' | 'max' | 'timeWindow'> {
    return { ...this.#options, key }
  }
}

/** One read by this process' own count, which goes on from what it knows. */
function takeAlone (lease: Lease, { max, timeWindow }: LeasedLimitOptions, stats: LeaseStats, now: number): Count {
  if (now >= lease.resetAt) {
    lease.reset()
    lease.resetAt = now + timeWindow
  }
  if (lease.aloneFrom < 0) {
    stats.alone++
    lease.left += max - lease.total
    lease.total = max
    lease.aloneFrom = lease.left
    lease.askAt = -1
    lease.holds = false // nothing that was granted: a recall must not hand back a budget that nobody gave
  }
  if (lease.left === 0) return lease.refusal
  lease.left--
  return lease.count
}

function serve (lease: Lease): void {
  while (lease.left > 0 && lease.waiting.length > 0) {
    lease.left--
    lease.waiting.shift()?.(lease.count)
  }
}

function refuse (lease: Lease): void {
  for (const resolve of lease.waiting.splice(0)) resolve(lease.refusal)
}

const nextExtra = (last: number): number => last < 0 ? 0 : Math.min(MAX_EXTRA, Math.max(4, last * 4))
