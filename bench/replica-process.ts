import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../src/infra/system/clock.ts'
import { RedisClient } from '../src/infra/redis/redis-client.ts'
import { RATE_LIMIT_SCRIPTS } from '../src/modules/rate-limit/index.ts'
import { LeaseStore } from '../src/modules/rate-limit/lease-store.ts'
import { LeasedLimit } from '../src/modules/rate-limit/leased-limit.ts'
import { Members } from '../src/modules/rate-limit/members.ts'
import { silent } from '../test/shared/silent-logger.ts'
import { readsOf, type Plan, type Read } from './replica-schedule.ts'

// A process of the simulation, started by replica-group.ts. It has some of the replicas: the limits of the
// service with what they need of it.

export interface Setup {
  readonly redisUrl: string
  readonly windowMs: number
  /** This process has the replicas whose number has this remainder when divided by `processes`. */
  readonly index: number
  readonly processes: number
}

/** What the parent process asks for. Each order is answered. */
export type Order =
  | { readonly type: 'start', readonly replicas: readonly number[] }
  /** One heartbeat of each replica. Then the clock is set forward. The response is the number of outages. */
  | { readonly type: 'pass', readonly ms: number }
  | { readonly type: 'share', readonly max: number }
  /** @property at when the reads begin, in milliseconds since 1970 */
  | { readonly type: 'run', readonly plan: Plan, readonly at: number }
  | { readonly type: 'stop' }

/** What the replicas of a process did. */
export interface Outcome {
  /** Reads of each client that were allowed, and refused. */
  readonly admitted: number[]
  readonly refused: number[]
  /** How often replicas lost Redis meanwhile. */
  readonly outages: number
  /** How much later than planned a read came at most, in milliseconds. */
  readonly lateMs: number
}

/** As in the service. */
const MEMBERS_WINDOW_MS = 60_000
const LIMITS = [30, 1000]

class Replica {
  readonly redis: RedisClient
  readonly members: Members
  readonly limits: Map<number, LeasedLimit>
  readonly ready: Promise<void>
  readonly store: LeaseStore
  readonly underWay = new Set<Promise<unknown>>()
  isReady = false
  isAlive = true

  constructor ({ redisUrl, windowMs }: Setup, id: string) {
    this.redis = new RedisClient(redisUrl, { channels: ['windows'], scripts: RATE_LIMIT_SCRIPTS }, silent)
    this.members = new Members(this.redis, { id, windowMs: MEMBERS_WINDOW_MS })
    this.store = new LeaseStore(this.redis, 'windows', this.members)
    this.limits = new Map(LIMITS.map((
      max
    ) => [max, new LeasedLimit({ nameSpace: `limit-${max}`, max, timeWindow: windowMs }, this.store)]))
    this.ready = this.#start()
  }

  async #start (): Promise<void> {
    await this.redis.start()
    await this.connected()
    await this.members.start()
    this.isReady = true
  }

  /** Waits until Redis is reachable, which may take a while on a busy machine. */
  async connected (): Promise<void> {
    while (this.isAlive && !(this.redis.reachable && this.redis.subscribed)) await sleep(5)
  }

  /** Ends as after SIGTERM, when the replica gets no more reads. */
  async stop (): Promise<void> {
    await Promise.all(this.underWay)
    for (const limit of this.limits.values()) await limit.close()
    await this.store.succession.leave()
    this.redis.close()
    this.isAlive = false
  }

  /** Ends without a word, as after SIGKILL. Later responses don't reach its clients. */
  crash (): void {
    this.isAlive = false
    this.members.close()
    this.redis.close()
  }
}

function serve (setup: Setup): void {
  const replicas = new Map<number, Replica>()
  const isOwn = (replica: number): boolean => replica % setup.processes === setup.index
  const offset = { aheadMs: 0 }
  const real = clock.now
  clock.now = () => real() + offset.aheadMs
  const start = (id: number): Replica => {
    const replica = new Replica(setup, `replica-${id}`)
    replicas.set(id, replica)
    return replica
  }

  const outages = (): number => [...replicas.values()].reduce((sum, { redis }) => sum + redis.outages, 0)

  async function run (plan: Plan, at: number): Promise<Outcome> {
    const admitted = Array<number>(plan.clients).fill(0)
    const refused = Array<number>(plan.clients).fill(0)
    const reads = readsOf(plan).filter(({ replica }) => isOwn(replica))
    const outagesBefore = outages()
    let lateMs = 0
    const begun = performance.now() + at - (performance.timeOrigin + performance.now())
    const waiting: Promise<void>[] = []
    const changes = plan.changes.toSorted((one, other) => one.at - other.at)
    const change = (until: number): void => {
      while (changes[0] !== undefined && changes[0].at <= until) {
        const { leaves, joins, inOrder } = changes.shift() as typeof changes[number]
        const leaving = replicas.get(leaves)
        if (inOrder && leaving !== undefined) waiting.push(leaving.stop())
        else leaving?.crash()
        if (isOwn(joins)) start(joins)
      }
    }
    const take = ({ at, client, replica: id }: Read): void => {
      const replica = replicas.get(id)
      if (replica === undefined) throw new Error(`replica ${id} has not been started`)
      const response = async (): Promise<void> => {
        if (!replica.isReady) await replica.ready
        lateMs = Math.max(lateMs, performance.now() - begun - at)
        const taken = Promise
          .resolve(replica.limits.get(plan.max)!.take(`${plan.name}-${client}`, clock.now()))
        replica.underWay.add(taken)
        const { allowed } = await taken.finally(() => replica.underWay.delete(taken))
        if (replica.isAlive) (allowed ? admitted : refused)[client]!++
      }
      waiting.push(response())
    }
    for (const read of reads) {
      while (performance.now() < begun + read.at) await sleep(1)
      change(read.at)
      take(read)
    }
    change(Infinity)
    await Promise.all(waiting)
    return { admitted, refused, lateMs, outages: outages() - outagesBefore }
  }

  async function obey (order: Order): Promise<unknown> {
    const living = [...replicas.values()].filter(({ isAlive }) => isAlive)
    if (order.type === 'start') {
      await Promise.all(order.replicas.filter(isOwn).map(async (id) => await start(id).ready))
    } else if (order.type === 'pass') {
      await Promise.all(living.map(async ({ members }) => await members.beat()))
      offset.aheadMs += order.ms
      await Promise.all(living.map(async (replica) => await replica.connected()))
      return outages()
    } else if (order.type === 'share') {
      return living.map(({ limits }) => limits.get(order.max)?.share(clock.now()))
    } else if (order.type === 'run') return await run(order.plan, order.at)
    else {
      for (const replica of living) replica.crash()
      process.disconnect()
    }
    return undefined
  }

  process.on('message', async (order: Order) => {
    const response = await obey(order)
    if (process.connected) process.send?.({ response })
  })
  process.on('disconnect', () => process.exit())
}

serve(JSON.parse(process.argv[2] as string) as Setup)
