import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Outage } from './history.ts'
import type { RedisCluster } from '../../helpers/redis-cluster.ts'
import type { Proxy } from '../../helpers/servers.ts'

/** The proxies between the replicas and their servers, one of each kind per replica; none to a cluster. */
export interface Wires {
  readonly redis: readonly Proxy[]
  readonly databases: readonly Proxy[]
  readonly cluster?: RedisCluster | undefined
  /** Empties Redis. */
  readonly flush: () => Promise<unknown>
}

/** Stays well below 200 ms, after which the service treats Redis as unavailable. */
const REDIS_DELAY_MS = 80
const DATABASE_DELAY_MS = 60

/** Returns a random delay, most often a short one. */
const delayUpTo = (ms: number): number => ms * Math.random() ** 3

/** Breaks the connections of the replicas in different ways, one after the other. */
export class NetworkFaults {
  rounds = 0
  readonly #wires: Wires
  #still = false

  constructor (wires: Wires) {
    this.#wires = wires
  }

  /** Sets new random delays. */
  stir (): void {
    if (this.#still) return
    for (const proxy of this.#wires.redis) proxy.delay(delayUpTo(REDIS_DELAY_MS))
    for (const proxy of this.#wires.databases) proxy.delay(delayUpTo(DATABASE_DELAY_MS))
  }

  async run (isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const { cluster } = this.#wires
      const steps = cluster === undefined ? this.#serverFaults() : this.#clusterFaults(cluster)
      for (const step of steps) if (!isOver()) await step()
      this.rounds++
    }
    this.#still = true
    for (const proxy of [...this.#wires.redis, ...this.#wires.databases]) proxy.delay(0)
  }

  #serverFaults (): Array<() => Promise<unknown>> {
    const replica = this.rounds % this.#wires.redis.length
    return [
      async () => await sleep(1500),
      async () => await this.#loseChannel(replica),
      async () => await sleep(1000),
      async () => await this.#loseRedis((replica + 1) % this.#wires.redis.length),
      async () => await sleep(1000),
      async () => await this.#flush()
    ]
  }

  #clusterFaults (cluster: RedisCluster): Array<() => Promise<unknown>> {
    return [
      async () => await sleep(1500),
      async () => await this.#failOver(cluster),
      async () => await sleep(1000),
      async () => await this.#loseMaster(cluster),
      async () => await sleep(1000),
      async () => await this.#flush()
    ]
  }

  /** Replaces a master of the cluster. */
  async #failOver (cluster: RedisCluster): Promise<void> {
    const masters = await cluster.masters()
    await cluster.failOver(masters[this.rounds % masters.length] as typeof masters[number])
    await cluster.untilSteady()
  }

  /** Kills a master of the cluster. */
  async #loseMaster (cluster: RedisCluster): Promise<void> {
    const masters = await cluster.masters()
    const master = masters[(this.rounds + 1) % masters.length] as typeof masters[number]
    const replica = await cluster.replicaOf(master)
    await master.server.kill()
    await cluster.untilMaster(replica)
    await master.server.start()
    await cluster.untilSteady()
  }

  /** Drops the messages without closing the connection, so that the service has to detect the loss. */
  async #loseChannel (replica: number): Promise<void> {
    const proxy = this.#wires.redis[replica] as Proxy
    proxy.blackhole(/subscribe/i)
    await sleep(3000)
    await proxy.restore()
  }

  async #loseRedis (replica: number): Promise<void> {
    const proxy = this.#wires.redis[replica] as Proxy
    await proxy.refuse()
    await sleep(1000)
    await proxy.restore()
  }

  async #flush (): Promise<void> {
    for (let times = 0; times < 5; times++) {
      await this.#wires.flush()
      await sleep(delayUpTo(300))
    }
  }
}

/** Records all outages, because on a busy machine late responses of Redis cause additional ones. */
export function observeOutages (apps: readonly FastifyInstance[]): Outage[] {
  const outages: { replica: number, from: number, to: number }[] = []
  for (const [replica, { redisClient }] of apps.entries()) {
    redisClient?.on('unreachable', () => outages.push({ replica, from: performance.now(), to: Infinity }))
    redisClient?.on('reachable', () => {
      const outage = outages.findLast((outage) => outage.replica === replica)
      if (outage?.to === Infinity) outage.to = performance.now()
    })
  }
  return outages
}
