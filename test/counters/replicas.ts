import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyBaseLogger } from 'fastify'
import { LEASE_SCRIPTS, RedisLeaseStore, type LeaseAnswer, type LeaseRequest, type LeaseStore } from '../../src/counters/lease-store.ts'
import { LeasedLimit } from '../../src/counters/leased-limit.ts'
import { SharedRedis } from '../../src/plugins/redis.ts'
import type { Teardown } from '../helpers/proxy.ts'

// Processes that share a limit, as far as the limit goes: each with connections of its own to one real Redis.

export const silent = { level: 'silent', fatal () {}, error () {}, warn () {}, info () {}, debug () {}, trace () {}, silent () {}, child: () => silent } as unknown as FastifyBaseLogger

export interface Replica {
  readonly redis: SharedRedis
  readonly store: ObservedStore
  /** A limit of this replica; those of the same name space and key share a budget. */
  limit (max: number, options?: { timeWindow?: number, nameSpace?: string }): LeasedLimit
}

/** The store of a replica, which remembers what was asked, and takes its time if it is told to. */
export class ObservedStore implements LeaseStore {
  readonly #store: LeaseStore
  asked = 0
  /** Questions without an answer yet. */
  underWay = 0
  readonly windows = new Set<number>()
  /** Turns of the event loop to wait before and after each question, one after the other. */
  delays: number[] = []
  /** No answer arrives before this has resolved. */
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

/** @param urls one Redis as each replica reaches it */
export async function startReplicas (t: Teardown, urls: readonly string[]): Promise<Replica[]> {
  const channel = `test:${randomUUID()}`
  return await Promise.all(urls.map(async (url) => {
    const redis = new SharedRedis(url, { channels: [channel], scripts: LEASE_SCRIPTS }, silent)
    redis.setMaxListeners(1000) // each limit of a test is one
    t.teardown(() => redis.close())
    await redis.start()
    const store = new ObservedStore(new RedisLeaseStore(redis, channel, randomUUID()))
    const limit: Replica['limit'] = (max, { timeWindow = 60_000, nameSpace = 'test' } = {}) => new LeasedLimit({ nameSpace, max, timeWindow }, store)
    return { redis, store, limit }
  }))
}
