import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import type { ClientTable } from '../../src/modules/rate-limit/client-table.ts'
import type { HandedOver } from '../../src/modules/rate-limit/handovers.ts'
import { LEASE_SCRIPTS } from '../../src/modules/rate-limit/lease-script.ts'
import { RedisLeaseStore, type KnownWindow, type LeaseAnswer, type LeaseRequest, type LeaseStore,
  type WindowMessages, type WindowOfClient } from '../../src/modules/rate-limit/lease-store.ts'
import { LeasedLimit } from '../../src/modules/rate-limit/leased-limit.ts'
import { Members } from '../../src/modules/rate-limit/members.ts'
import { RedisClient } from '../../src/infra/redis/redis-client.ts'
import type { Teardown } from '../shared/guardian.ts'
import { silent } from '../shared/silent-logger.ts'

// Replicas that share a rate limit, without the rest of the service. Each has its own connections to Redis.

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
export class ObservedStore implements LeaseStore {
  readonly #store: LeaseStore
  asked = 0
  /** Number of requests without an answer. */
  underWay = 0
  readonly windows = new Set<number>()
  /** Turns of the event loop to wait before and after each request, one entry per wait. */
  delays: number[] = []
  /** If set, answers wait for this promise. */
  gate: Promise<void> | undefined

  constructor (store: LeaseStore) {
    this.#store = store
  }

  get reachable (): boolean {
    return this.#store.reachable
  }

  get hearsRecalls (): boolean {
    return this.#store.hearsRecalls
  }

  async ask (request: LeaseRequest): Promise<LeaseAnswer> {
    this.asked++
    this.underWay++
    try {
      await this.#delay()
      const answer = await this.#store.ask(request)
      this.windows.add(answer.id)
      await this.#delay()
      await this.gate
      return answer
    } finally {
      this.underWay--
    }
  }

  get members (): Members | undefined {
    return this.#store.members
  }

  async giveBack (window: WindowOfClient, reads: number, known: KnownWindow): Promise<void> {
    await this.#delay()
    await this.#store.giveBack(window, reads, known)
  }

  async handedOver (window: WindowOfClient): Promise<HandedOver[]> {
    return await this.#store.handedOver(window)
  }

  async handOver (nameSpace: string, counts: ClientTable): Promise<void> {
    await this.#store.handOver(nameSpace, counts)
  }

  async leave (): Promise<void> {
    await this.#store.leave()
  }

  onMessage (listeners: WindowMessages): void {
    this.#store.onMessage(listeners)
  }

  async #delay (): Promise<void> {
    for (let turns = this.delays.shift() ?? 0; turns > 0; turns--) await turn()
  }
}

/**
 * @param urls URL of the same Redis for each replica
 * @param shares whether the replicas know each other and have shares. Tests send the heartbeats.
 * @param channelOf an earlier replica that these join
 */
export async function startReplicas (
  t: Teardown,
  urls: readonly string[],
  { shares = false, channelOf }: { shares?: boolean, channelOf?: Replica | undefined } = {}
): Promise<Replica[]> {
  const channel = channelOf?.channel ?? `test:${randomUUID()}`
  return await Promise.all(urls.map(async (url) => {
    const redis = new RedisClient(url, { channels: [channel], scripts: LEASE_SCRIPTS }, silent)
    redis.setMaxListeners(1000) // each limit of a test adds a listener
    t.teardown(() => redis.close())
    await redis.start()
    const id = randomUUID()
    const members = new Members(redis, { id, windowMs: 60_000 })
    t.teardown(() => members.close())
    const store = new ObservedStore(new RedisLeaseStore(redis, channel, id, shares ? members : undefined))
    const limit: Replica['limit'] = (max, { timeWindow = 60_000, nameSpace = 'test' } = {}) =>
      new LeasedLimit({ nameSpace, max, timeWindow }, store)
    return { channel, redis, members, store, limit }
  }))
}
