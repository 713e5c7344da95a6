import { clock } from '../../infra/system/clock.ts'
import { RedisAwayError } from '../../infra/redis/redis-client.ts'
import type { ClientTable, ClientWindow } from './client-table.ts'
import { NOT_EARLY, type Lease } from './lease.ts'
import { NO_WINDOW, type LimitOptions, type WindowOfProcess } from './lease-script.ts'
import type { LeaseStore } from './lease-store.ts'
import type { OpenShares } from './known-members.ts'
import type { Members } from './members.ts'

/**
 * The reserves, in reads, grow with each lease of a window: 4, 16, 64, and so on. The first lease of a client
 * that has no share has none.
 */
export const FIRST_RESERVE = 4
const MAX_RESERVE = 1024
/** The smallest reserve with which the next lease is requested early, so that no read waits for it. */
const MIN_RESERVE_TO_ASK_EARLY = 8

const NOTHING_HANDED_OVER: ReadonlyMap<string, ClientWindow | undefined> = new Map()

/** Counts for the metrics. */
export class LeaseStats {
  /** Reads allowed from shares, without asking Redis. */
  allowedByShare = 0
  /** Requests for a lease. */
  asked = 0
  /** Reads granted. */
  granted = 0
  /** Reads returned unspent. */
  returned = 0
  /** Leases recalled by another process. */
  recalled = 0
  /** Windows found to be used up. */
  exhausted = 0
  /** Windows this process counted without Redis. */
  countedLocally = 0
}

interface Limit extends LimitOptions {
  readonly counts: ClientTable
  readonly stats: LeaseStats
}

/**
 * Sends one request for a lease, which reports what this process has counted without Redis. If there are too
 * few reads for the waiting ones, other processes may still return some (`recalled`) or not (`exhausted`).
 *
 * @throws {RedisAwayError}
 */
export async function requestLease (
  limit: Limit,
  store: LeaseStore,
  key: string,
  lease: Lease
): Promise<'continue' | 'recalled' | 'exhausted'> {
  const { members, succession } = store
  const { max, stats } = limit
  if (members.isLate && !await members.beat()) throw new RedisAwayError()
  const window = windowOf(limit, key, lease)
  const hasDeparted = members.known.departed.length > 0
  const loadsHandovers = hasDeparted && lease.isShort
  let handedOver = loadsHandovers ? await succession.handedOver(window) : NOTHING_HANDED_OVER
  // An adoption may change both while the request is under way.
  const { counts } = limit
  const { id: processId } = members
  if (lease.processId !== processId && lease.reportedFor !== processId) {
    // What this process has adopted may have been reported before, so Redis counts it only if it has not.
    handedOver = new Map([...handedOver, [processId, counts.find(key, clock.now())]])
  }
  // Without messages it wouldn't hear that the reserve is recalled.
  const reserve = store.redis.subscribed && !lease.recallPending ? lease.nextReserve : 0
  const needed = lease.waiting.length
  const held = lease.isLocal ? 0 : lease.left
  const sentAt = clock.now()
  const { reads: openShares, firstReads } = openSharesOf(max, members, lease, handedOver, sentAt)
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
  stats.asked++
  if (response.id === NO_WINDOW) return 'continue'
  stats.granted += response.granted
  lease.apply(response, sentAt)
  lease.reportedFor = processId
  counts.clear(key) // its reads are counted in Redis from now on
  lease.nextReserve = Math.min(MAX_RESERVE, Math.max(FIRST_RESERVE, reserve * 4))
  lease.holds = held > 0 || response.granted > needed
  const asksEarly = response.total < max && reserve >= MIN_RESERVE_TO_ASK_EARLY
  lease.askAt = asksEarly ? Math.floor(lease.left / 4) : NOT_EARLY
  if (response.granted >= needed) return 'continue'
  lease.reporters = response.reporters
  lease.isShort = true
  if (hasDeparted && !loadsHandovers) return 'continue' // the next request loads them
  const open = openSharesOf(max, members, lease, handedOver, sentAt)
  if (open.reads < openShares || (response.withheld && open.alive === 0)) return 'continue'
  return response.others + open.alive > 0 ? 'recalled' : 'exhausted'
}

/** Returns unspent reads. Never rejects; after a failure they are lost. */
export async function returnLease (
  limit: Limit,
  store: LeaseStore,
  key: string,
  lease: Lease
): Promise<void> {
  const { reads, known } = lease.release()
  limit.stats.returned += reads
  await store.giveBack(windowOf(limit, key, lease), reads, known)
}

const windowOf = (
  { nameSpace, max, timeWindow }: Limit,
  key: string,
  { processId }: Lease
): WindowOfProcess => ({ nameSpace, key, max, timeWindow, processId })

function openSharesOf (
  max: number,
  members: Members,
  lease: Lease,
  handedOver: ReadonlyMap<string, unknown>,
  now: number
): OpenShares {
  const heard = new Set([...lease.reporters, ...handedOver.keys()])
  const isLost = lease.isLost && !lease.ignoresSilent
  return members.known.openShares(max, members.share(max, now), heard, isLost, now)
}
