import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Guardian } from '../test/shared/guardian.ts'
import { ReplicaGroup } from './replica-group.ts'
import type { Outcome } from './replica-process.ts'
import { abusiveClients, type Change, type Plan } from './replica-schedule.ts'
import { seededRandom } from './statistics.ts'

// Measurements of the simulation: what clients got, and what that cost Redis.

const WINDOW_MS = 4000
/** All reads of a client come within this time, so that they are in one window. */
const PERIOD_MS = 2500
/** Simulated clients by limit, so that abusive ones send tens of thousands of reads a second at most. */
export const CLIENTS: Readonly<Record<number, number>> = { 30: 1000, 1000: 200 }
/** Shares of abusive clients. */
export const ABUSIVE = [0, 0.01, 0.1] as const
/** The replicas that are replaced in a window, as a share of all. */
export const CHANGING = 0.2
const CHANGING_WINDOWS = 3
/** Reads that are later may be in the next window. */
const MAX_LATE_MS = 1000
/** How many disturbed measurements of a number of replicas are repeated. */
const MOST_DISTURBED = 6
const IDLE_MS = 2000

/** One window, or the sum of several. */
export interface Window {
  /** Reads that the abusive clients got, relative to the limit; empty without such clients. */
  readonly admitted: readonly number[]
  /** Reads of other clients that were refused. */
  readonly wronglyRefused: number
  readonly reads: number
  readonly scriptCalls: number
  /** Processor time of Redis, without heartbeats and probes. */
  readonly microseconds: number
}

export interface Row {
  readonly max: number
  readonly replicas: number
  readonly share: number
  /** Whether each client has one replica; otherwise reads are routed at random. */
  readonly affinity: boolean
  /** How replicas are replaced, if so. Then there is one window, with the last of the abusive shares. */
  readonly changing: 'crash' | 'restart' | undefined
  /** One for each share of abusive clients. */
  readonly windows: readonly Window[]
}

export interface Bench {
  readonly redis: Redis
  readonly url: string
  readonly guardian: Guardian
  readonly progress: (line: string) => void
}

/** Measures a number of replicas in all cases. Returns rows, and the idle load of Redis in cores. */
export async function measureReplicas (
  bench: Bench,
  count: number,
  limits: readonly number[]
): Promise<{ rows: Row[], idle: number }> {
  bench.progress(`${count} replicas: starting, with shares`)
  await bench.redis.flushall()
  const group = await ReplicaGroup.start({ redisUrl: bench.url, windowMs: WINDOW_MS }, count, bench.guardian)
  try {
    const before = await work(bench.redis)
    await sleep(IDLE_MS)
    const idle = ((await work(bench.redis)).microseconds - before.microseconds) / IDLE_MS / 1000
    const meter = new Meter(bench, group, idle, count)
    const rows: Row[] = []
    for (const max of limits) {
      for (const affinity of count === 1 ? [true] : [false, true]) {
        rows.push(await measureSteady(meter, count, max, affinity))
      }
    }
    if (count > 1) {
      rows.push(...await measureChanging(meter, count, limits, 'crash'))
      await meter.passMinute() // the shares of those that crashed are no longer reserved
      rows.push(...await measureChanging(meter, count, limits, 'restart'))
    }
    return { rows, idle }
  } finally {
    await group.stop()
  }
}

async function measureSteady (meter: Meter, count: number, max: number, affinity: boolean): Promise<Row> {
  const windows: Window[] = []
  for (const abusive of ABUSIVE) {
    meter
      .progress(`${count} replicas, limit ${max}, ${abusive * 100} % abusive, ${
        affinity ? 'affinity' : 'random'
      }`)
    const plan = { max, abusive, affinity, replicas: numbersBelow(count), changes: [] }
    const window = await meter.measure(plan)
    if (window === undefined) await meter.passMinute()
    else windows.push(window)
  }
  return { max, replicas: count, share: await meter.share(max), affinity, changing: undefined, windows }
}

/** Measures windows in which replicas are replaced. All have their shares when the next window begins. */
async function measureChanging (
  meter: Meter,
  count: number,
  limits: readonly number[],
  changing: 'crash' | 'restart'
): Promise<Row[]> {
  const random = seededRandom(count)
  let alive = meter.alive
  const rows: Row[] = []
  for (const max of limits) {
    const windows: Window[] = []
    const share = await meter.share(max)
    while (windows.length < CHANGING_WINDOWS) {
      meter.progress(`${count} replicas, limit ${max}, some ${changing}, window ${windows.length + 1}`)
      const replaced = Math.max(1, Math.round(count * CHANGING))
      const changes = alive.slice(0, replaced).map((leaves): Change => ({
        at: random() * PERIOD_MS,
        leaves,
        joins: meter.newReplica(),
        inOrder: changing === 'restart'
      }))
      const plan = { max, abusive: ABUSIVE.at(-1) as number, affinity: false, replicas: alive, changes }
      const window = await meter.measure(plan)
      if (window !== undefined) windows.push(window)
      alive = meter.alive = [...alive.slice(replaced), ...changes.map(({ joins }) => joins)]
      await meter.passMinute()
    }
    rows.push({ max, replicas: count, share, affinity: false, changing, windows: [total(windows)] })
  }
  return rows
}

/** Runs plans and measures their cost. */
class Meter {
  readonly #bench: Bench
  readonly #group: ReplicaGroup
  /** Processor time of Redis for heartbeats and probes, in cores. */
  readonly #idle: number
  /** Numbers of the living replicas. */
  alive: readonly number[]
  #replicas: number
  #plans = 0
  #disturbed = 0

  constructor (bench: Bench, group: ReplicaGroup, idle: number, count: number) {
    this.#bench = bench
    this.#group = group
    this.#idle = idle
    this.alive = numbersBelow(count)
    this.#replicas = count
  }

  /** Returns the number of a replica that is to join. */
  newReplica (): number {
    return this.#replicas++
  }

  progress (line: string): void {
    this.#bench.progress(line)
  }

  async share (max: number): Promise<number> {
    return Math.max(...await this.#group.shares(max))
  }

  async passMinute (): Promise<void> {
    await this.#group.passMinute()
  }

  /**
   * Measures a window.
   *
   * @returns undefined if a replica lost Redis meanwhile, so that it counted alone, or reads were so late
   *   that they were in two windows
   * @throws {Error} if that happens often
   */
  async measure (input: Omit<Plan, 'name' | 'periodMs' | 'clients'>): Promise<Window | undefined> {
    const { redis } = this.#bench
    const plan: Plan = {
      ...input,
      name: `plan-${++this.#plans}`,
      clients: CLIENTS[input.max] as number,
      periodMs: PERIOD_MS
    }
    const begun = performance.now()
    const before = await work(redis)
    const outcome = await this.#group.run(plan)
    const after = await work(redis)
    if (outcome.outages > 0 || outcome.lateMs > MAX_LATE_MS) {
      this.progress(`  again: ${outcome.outages} outages, reads were ${Math.round(outcome.lateMs)} ms late`)
      if (++this.#disturbed < MOST_DISTURBED) return undefined
      throw new Error('replicas lose Redis, or are late: the machine is too slow or too busy')
    }
    const idle = (performance.now() - begun) * 1000 * this.#idle
    return {
      ...gotten(plan, outcome),
      scriptCalls: after.scriptCalls - before.scriptCalls,
      microseconds: Math.max(0, after.microseconds - before.microseconds - idle)
    }
  }
}

function gotten (
  plan: Plan,
  { admitted, refused }: Outcome
): Pick<Window, 'admitted' | 'wronglyRefused' | 'reads'> {
  const abusive = abusiveClients(plan)
  return {
    admitted: admitted.slice(0, abusive).map((reads) => reads / plan.max),
    wronglyRefused: sumOf(refused.slice(abusive)),
    reads: sumOf(admitted) + sumOf(refused)
  }
}

/** The sum of windows. */
export const total = (windows: readonly Window[]): Window => ({
  admitted: windows.flatMap(({ admitted }) => admitted),
  wronglyRefused: sumOf(windows.map(({ wronglyRefused }) => wronglyRefused)),
  reads: sumOf(windows.map(({ reads }) => reads)),
  scriptCalls: sumOf(windows.map(({ scriptCalls }) => scriptCalls)),
  microseconds: sumOf(windows.map(({ microseconds }) => microseconds))
})

/** Returns what Redis has done so far. */
async function work (redis: Redis): Promise<Pick<Window, 'scriptCalls' | 'microseconds'>> {
  const info = `${await redis.info('cpu')}\n${await redis.info('commandstats')}`
  const number = (pattern: RegExp): number => Number(pattern.exec(info)?.[1] ?? 0)
  return {
    scriptCalls: number(/cmdstat_evalsha:calls=(\d+)/) + number(/cmdstat_eval:calls=(\d+)/),
    microseconds: (number(/used_cpu_user:([\d.]+)/) + number(/used_cpu_sys:([\d.]+)/)) * 1e6
  }
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0)
const numbersBelow = (count: number): number[] => Array.from({ length: count }, (_, number) => number)
