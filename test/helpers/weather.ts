import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Outage } from './history.ts'
import type { Proxy } from './servers.ts'

/** What replicas use to reach their servers, one of each for each replica. */
export interface Wires {
  readonly redis: readonly Proxy[]
  readonly databases: readonly Proxy[]
  /** Empties Redis. */
  readonly flush: () => Promise<unknown>
}

/** Answers of Redis must stay well below the time-out after which it counts as away (200 ms). */
const REDIS_DELAY_MS = 80
const DATABASE_DELAY_MS = 60

/** Mostly little. */
const delayUpTo = (ms: number): number => ms * Math.random() ** 3

/** What goes wrong between the replicas, one thing after the other. */
export class Weather {
  rounds = 0
  now = 'delays'
  readonly #wires: Wires
  #still = false

  constructor (wires: Wires) {
    this.#wires = wires
  }

  /** New delays, from now on. */
  stir (): void {
    if (this.#still) return
    for (const proxy of this.#wires.redis) proxy.delay(delayUpTo(REDIS_DELAY_MS))
    for (const proxy of this.#wires.databases) proxy.delay(delayUpTo(DATABASE_DELAY_MS))
  }

  async run (isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const replica = this.rounds % this.#wires.redis.length
      const steps = [
        async () => await this.#delays(1500),
        async () => await this.#loseChannel(replica),
        async () => await this.#delays(1000),
        async () => await this.#loseRedis((replica + 1) % this.#wires.redis.length),
        async () => await this.#delays(1000),
        async () => await this.#flush()
      ]
      for (const step of steps) if (!isOver()) await step()
      this.rounds++
    }
    this.now = 'calm'
    this.#still = true
    for (const proxy of [...this.#wires.redis, ...this.#wires.databases]) proxy.delay(0)
  }

  async #delays (ms: number): Promise<void> {
    this.now = 'delays'
    await sleep(ms)
  }

  /** Swallowed, not closed, so that it has to be found. */
  async #loseChannel (replica: number): Promise<void> {
    this.now = `replica ${replica} hears no messages`
    const proxy = this.#wires.redis[replica] as Proxy
    proxy.blackhole(/subscribe/i)
    await sleep(3000)
    await proxy.restore()
  }

  async #loseRedis (replica: number): Promise<void> {
    this.now = `replica ${replica} has no Redis`
    const proxy = this.#wires.redis[replica] as Proxy
    await proxy.refuse()
    await sleep(1000)
    await proxy.restore()
  }

  async #flush (): Promise<void> {
    this.now = 'Redis is flushed'
    for (let times = 0; times < 5; times++) {
      await this.#wires.flush()
      await sleep(delayUpTo(300))
    }
  }
}

/** Beside those that are made, there are some on a busy machine, where answers of Redis come too late. */
export function observeOutages (apps: readonly FastifyInstance[]): Outage[] {
  const outages: { replica: number, from: number, to: number }[] = []
  for (const [replica, { shared }] of apps.entries()) {
    shared?.on('unreachable', () => outages.push({ replica, from: performance.now(), to: Infinity }))
    shared?.on('reachable', () => {
      const outage = outages.findLast((outage) => outage.replica === replica)
      if (outage?.to === Infinity) outage.to = performance.now()
    })
  }
  return outages
}
