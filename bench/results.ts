import type { MachineFacts } from './machine.ts'
import type { Target } from './contender.ts'

// The results of a run, as `--json` writes them.

/** One contender's turn in one round. */
export interface TurnResult {
  /** Requests per second. */
  readonly rate: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** At a fixed rate. */
  readonly p999Ms?: number
  /** At a fixed rate: how late the generator sent its requests (99th percentile). */
  readonly lateMs?: number
  readonly requests: number
  readonly seconds: number
  /** Whether the server used both cores, one of them together with the generator. */
  readonly onBothCores?: boolean
  /** Processor seconds per second of the turn; undefined without /proc. */
  readonly serverCpu: number | undefined
  /** Processor seconds per second that other processes used on the server's core. */
  readonly foreignCpu: number | undefined
  readonly generatorCpu: number | undefined
  readonly postgresCpu: number | undefined
  readonly redisCpu: number | undefined
  /** All processes of the server together, at the end of the turn. */
  readonly rssBytes: number | undefined
}

export interface ContenderResult {
  readonly id: string
  readonly name: string
  readonly bare: string
  readonly targets: readonly Target[]
  /** The most memory at the end of a turn, that of the warm-up included; undefined without /proc. */
  readonly peakRssBytes: number | undefined
  readonly rounds: readonly TurnResult[]
}

export interface BenchResult {
  readonly measuredAt: string
  readonly machine: MachineFacts
  readonly generator: string
  /** One line that says which core ran what. */
  readonly pinning: string
  readonly options: { readonly rounds: number, readonly seconds: number, readonly connections: number }
  readonly contenders: readonly ContenderResult[]
  readonly skipped: readonly { readonly name: string, readonly reason: string }[]
}
