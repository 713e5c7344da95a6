import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { clock } from '../../src/infra/system/clock.ts'
import { replaceClock } from './clock.ts'
import { RATE_LIMIT_SCRIPTS } from '../../src/modules/rate-limit/index.ts'
import type { KnownWindow, LeaseResponse, LeaseRequest,
  WindowOfProcess } from '../../src/modules/rate-limit/lease-script.ts'
import { LeaseStore } from '../../src/modules/rate-limit/lease-store.ts'
import { LeasedLimit } from '../../src/modules/rate-limit/leased-limit.ts'
import { Members } from '../../src/modules/rate-limit/members.ts'
import { RedisClient } from '../../src/infra/redis/redis-client.ts'
import type { Teardown } from '../shared/guardian.ts'
import { silent } from '../shared/silent-logger.ts'

// Replicas that share a rate limit, without the rest of the service. Each has its own connections to Redis. A
// replica has no share until a test starts its membership and sends the heartbeats.

export interface Replica {
  /** The channel for messages between replicas. */
  readonly channel: string
  readonly redis: RedisClient
  readonly members: Members
  readonly store: ObservedStore
  /** Creates a limit of this replica. Limits with the same name space and key share a budget. */
  limit(max: number, options?: { timeWindow?: number, nameSpace?: string }): LeasedLimit
}

/** The store of a replica, which records requests and can delay them. */
export class ObservedStore extends LeaseStore {
  asked = 0
  /** Number of requests without a response. */
  underWay = 0
  readonly windows = new Set<number>()
  /** Turns of the event loop to wait before and after each request, one entry per wait. */
  delays: number[] = []
  /** If set, answers wait for this promise. */
  gate: Promise<void> | undefined

  protected override async send (request: LeaseRequest): Promise<LeaseResponse> {
    this.asked++
    this.underWay++
    try {
      await this.#delay()
      const response = await super.send(request)
      this.windows.add(response.id)
      await this.#delay()
      await this.gate
      return response
    } finally {
      this.underWay--
    }
  }

  override async giveBack (
    window: WindowOfProcess,
    reads: number,
    known: KnownWindow
  ): Promise<void> {
    await this.#delay()
    await super.giveBack(window, reads, known)
  }

  async #delay (): Promise<void> {
    for (let turns = this.delays.shift() ?? 0; turns > 0; turns--) await turn()
  }
}

/**
 * @param urls URL of the same Redis for each replica
 * @param channelOf an earlier replica that these join
 */
export async function startReplicas (
  t: Teardown,
  urls: readonly string[],
  { channelOf }: { channelOf?: Replica | undefined } = {}
): Promise<Replica[]> {
  const channel = channelOf?.channel ?? `test:${randomUUID()}`
  return await Promise.all(urls.map(async (url) => {
    const redis = new RedisClient(url, { channels: [channel], scripts: RATE_LIMIT_SCRIPTS }, silent)
    redis.setMaxListeners(1000) // each limit of a test adds a listener
    t.teardown(() => redis.close())
    await redis.start()
    const members = new Members(redis, { id: randomUUID(), windowMs: 60_000 })
    t.teardown(() => members.close())
    const store = new ObservedStore(redis, channel, members)
    const limit: Replica['limit'] = (max, { timeWindow = 60_000, nameSpace = 'test' } = {}) =>
      new LeasedLimit({ nameSpace, max, timeWindow }, store)
    return { channel, redis, members, store, limit }
  }))
}

/** Ends a replica as the service does after SIGTERM: its limits are closed, and it says that it has left. */
export async function stop (replica: Replica, limits: readonly LeasedLimit[]): Promise<void> {
  for (const limit of limits) await limit.close()
  await replica.store.succession.leave()
  replica.redis.close()
}

/** A process clock that tests set forward, so that they needn't wait until processes have their shares. */
export function settableClock (t: Teardown): { aheadMs: number } {
  const offset = { aheadMs: 0 }
  const real = clock.now
  replaceClock(t, () => real() + offset.aheadMs)
  return offset
}

/** Starts replicas whose heartbeats began a while ago, so that each has its share. */
export async function startSharing (t: Teardown, urls: readonly string[]): Promise<Replica[]> {
  const replicas = await startReplicas(t, urls)
  await pass(settableClock(t), 66, replicas)
  for (const { members } of replicas) await members.start()
  return replicas
}

/** Sets the clock forward, with a heartbeat every other second. */
export async function pass (
  offset: { aheadMs: number },
  seconds: number,
  replicas: readonly Replica[]
): Promise<void> {
  for (let second = 0; second < seconds; second += 2) {
    await Promise.all(replicas.map(async ({ members }) => await members.beat()))
    offset.aheadMs += 2000
  }
  await Promise.all(replicas.map(async ({ members }) => await members.beat()))
}

/** Takes one read; returns whether it is allowed. */
export const take = async (limit: LeasedLimit | undefined, key: string): Promise<boolean> =>
  (await limit!.take(key, clock.now())).allowed

/** Takes reads until one is refused, at most `most`. Returns how many were allowed. */
export async function spend (limit: LeasedLimit | undefined, key: string, most = 2000): Promise<number> {
  let passed = 0
  while (passed < most && await take(limit, key)) passed++
  return passed
}

export const trues = (responses: readonly boolean[]): number => responses.filter(Boolean).length
