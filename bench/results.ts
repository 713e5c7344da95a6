import type { MachineFacts } from './machine.ts'
import type { Target } from './contender.ts'

// What a run keeps; `--json` writes it as it stands here.

/** One contender's turn in one round. */
export interface TurnResult {
  /** Requests per second. */
  readonly rate: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly requests: number
  readonly seconds: number
  /** The server had both cores, the generator among them. */
  readonly onBothCores?: boolean
  /** Processor seconds per second of the turn; undefined where the system doesn't tell. */
  readonly serverCpu: number | undefined
  /** What others than the server took of its core. */
  readonly foreignCpu: number | undefined
  readonly generatorCpu: number | undefined
  readonly postgresCpu: number | undefined
  readonly redisCpu: number | undefined
  /** At the end of the turn, of all the server's processes. */
  readonly rssBytes: number | undefined
}

export interface ContenderResult {
  readonly id: string
  readonly name: string
  readonly bare: string
  readonly targets: readonly Target[]
  readonly rounds: readonly TurnResult[]
}

export interface BenchResult {
  readonly measuredAt: string
  readonly machine: MachineFacts
  readonly generator: string
  /** One line: which cores had what. */
  readonly pinning: string
  readonly options: { readonly rounds: number, readonly seconds: number, readonly connections: number }
  readonly contenders: readonly ContenderResult[]
  readonly skipped: readonly { readonly name: string, readonly reason: string }[]
}
