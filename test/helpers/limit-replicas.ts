import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { LEASE_SCRIPTS, RedisLeaseStore, type LeaseAnswer, type LeaseRequest,
  type LeaseStore } from '../../src/modules/rate-limit/lease-store.ts'
import { LeasedLimit } from '../../src/modules/rate-limit/leased-limit.ts'
import { RedisClient } from '../../src/infra/redis/redis-client.ts'
import type { Teardown } from './proxy.ts'
import { silent } from './silent-logger.ts'

// Replicas that share a rate limit, without the rest of the service. Each has its own connections to Redis.

export interface Replica {
  readonly redis: RedisClient
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
      this.windows.add(answer.end)
      await this.#delay()
      await this.gate
      return answer
    } finally {
      this.underWay--
    }
  }

  async giveBack (request: LeaseRequest, reads: number, end: number): Promise<void> {
    await this.#delay()
    await this.#store.giveBack(request, reads, end)
  }

  onRecall (listener: (nameSpace: string, key: string) => void): void {
    this.#store.onRecall(listener)
  }

  async #delay (): Promise<void> {
    for (let turns = this.delays.shift() ?? 0; turns > 0; turns--) await turn()
  }
}

/** @param urls URL of the same Redis for each replica */
export async function startReplicas (t: Teardown, urls: readonly string[]): Promise<Replica[]> {
  const channel = `test:${randomUUID()}`
  return await Promise.all(urls.map(async (url) => {
    const redis = new RedisClient(url, { channels: [channel], scripts: LEASE_SCRIPTS }, silent)
    redis.setMaxListeners(1000) // each limit of a test adds a listener
    t.teardown(() => redis.close())
    await redis.start()
    const store = new ObservedStore(new RedisLeaseStore(redis, channel, randomUUID()))
    const limit: Replica['limit'] = (max, { timeWindow = 60_000, nameSpace = 'test' } = {}) =>
      new LeasedLimit({ nameSpace, max, timeWindow }, store)
    return { redis, store, limit }
  }))
}
