import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError } from '../../infra/redis/redis-client.ts'
import type { ClientTable, ClientWindow } from './client-table.ts'
import type { Lease } from './lease.ts'
import type { LeaseStore } from './lease-store.ts'
import type { OpenShares } from './known-members.ts'

/**
 * The reserves, in reads, grow with each lease of a window: 4, 16, 64, and so on. The first lease of a client
 * that has no share has none.
 */
export const FIRST_RESERVE = 4
const MAX_RESERVE = 1024
/** The smallest reserve with which the next lease is requested early, so that no read waits for it. */
const MIN_RESERVE_TO_ASK_EARLY = 8

const NOTHING_HANDED_OVER: ReadonlyMap<string, ClientWindow | undefined> = new Map()

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

/** The requests of one limit to the store, and what their responses mean for a lease. */
export class LeaseRequests {
  readonly #options: LeasedLimitOptions
  readonly #store: LeaseStore
  readonly #clients: () => ClientTable
  readonly #stats: LeaseStats

  constructor (
    options: LeasedLimitOptions,
    store: LeaseStore,
    clients: () => ClientTable,
    stats: LeaseStats
  ) {
    this.#options = options
    this.#store = store
    this.#clients = clients
    this.#stats = stats
  }

  /**
   * Sends one request. If there are too few reads for the waiting ones, other processes may still return some
   * (`recalled`) or not (`exhausted`).
   */
  async ask (key: string, lease: Lease): Promise<'continue' | 'recalled' | 'exhausted'> {
    const store = this.#store
    const { max } = this.#options
    if (store.members.isLate && !await store.members.beat()) throw new RedisAwayError()
    const window = { ...this.#options, key, processId: lease.processId }
    const hasDeparted = store.members.departed.length > 0
    const loadsHandovers = hasDeparted && lease.isShort
    let handedOver = loadsHandovers ? await store.handedOver(window) : NOTHING_HANDED_OVER
    // An adoption may change both while the request is under way.
    const clients = this.#clients()
    const { id: processId } = store.members
    if (lease.processId !== processId && lease.reportedFor !== processId) {
      // What this process has adopted may have been reported before.
      handedOver = new Map([...handedOver, [processId, clients.find(key, clock.now())]])
    }
    const reserve = store.hearsRecalls && !lease.recallPending ? lease.nextReserve : 0
    const needed = lease.waiting.length
    const held = lease.localFrom >= 0 ? 0 : lease.left
    const sentAt = clock.now()
    const { reads: openShares, firstReads } = this.#openShares(lease, handedOver, sentAt)
    const response = await store.ask({
      ...window,
      ...lease.report(handedOver, window, sentAt),
      needed,
      reserve,
      held,
      openShares,
      firstReads,
      isListed: lease.isListed,
      knowsLoss: lease.isLost
    })
    this.#stats.asked++
    if (response.id === 0) return 'continue'
    this.#stats.granted += response.granted
    lease.apply(response, sentAt)
    lease.isListed ||= response.isListed === true
    lease.reportedFor = processId
    clients.clear(key) // its reads are counted in Redis from now on
    lease.nextReserve = Math.min(MAX_RESERVE, Math.max(FIRST_RESERVE, reserve * 4))
    lease.holds = held > 0 || response.granted > needed
    lease.askAt = response.total < max && reserve >= MIN_RESERVE_TO_ASK_EARLY ? Math.floor(lease.left / 4)
      : -1
    if (response.granted >= needed) return 'continue'
    lease.reporters = response.reporters
    lease.isShort = true
    if (hasDeparted && !loadsHandovers) return 'continue'
    const open = this.#openShares(lease, handedOver, sentAt)
    if (open.reads < openShares || (response.withheld && open.alive === 0)) return 'continue'
    return response.others + open.alive > 0 ? 'recalled' : 'exhausted'
  }

  #openShares (lease: Lease, handedOver: ReadonlyMap<string, unknown>, now: number): OpenShares {
    const heard = handedOver.size === 0 ? lease.reporters
      : new Set([...lease.reporters, ...handedOver.keys()])
    const isLost = lease.isLost && !lease.ignoresSilent
    return this.#store.members.openShares(this.#options.max, heard, isLost, now)
  }

  /** Returns unspent reads. Never rejects; after a failure they are lost. */
  async giveBack (key: string, lease: Lease): Promise<void> {
    const { reads, known } = lease.release()
    this.#stats.returned += reads
    await this.#store.giveBack({ ...this.#options, key, processId: lease.processId }, reads, known)
  }
}
