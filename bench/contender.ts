import type { Expected } from './answers.ts'
import type { Load, Request } from './generators/types.ts'
import type { Seed } from './seed.ts'
import type { Server, ServerCommand } from './servers.ts'
import type { Stores } from './stores.ts'

/** The data and stores from which servers and loads are made. */
export interface Context {
  readonly stores: Stores
  readonly seed: Seed
}

/** A value that a contender should reach. */
export interface Target {
  readonly metric: 'rate' | 'p99'
  /** Id of the contender that it is compared with, in the same round. */
  readonly of: string
  readonly atLeast?: number
  readonly atMost?: number
  /** Compares the rates that both would have on exclusive cores; see `wholeCoresRate` in report.ts. */
  readonly perCore?: boolean
}

/** A server process. Contenders with the same id share it. */
export interface ServerPlan {
  readonly id: string
  /** Called once; it may write files and claim a Redis database. */
  readonly command: (context: Context) => ServerCommand
  /** Whether it is this service, which `--profile` profiles. */
  readonly isOurs?: boolean
  /** Whether it uses both cores, one of them together with the generator. */
  readonly onBothCores?: boolean
}

export interface Contender {
  readonly id: string
  readonly name: string
  /** The bare Fastify with a document of the same size, whose rate counts as 1. */
  readonly bare: 'bare-2k' | 'bare-30k'
  readonly server: ServerPlan
  readonly load: (context: Context) => Load
  /** The expected answer to the request at an index of the load. */
  readonly expected: (context: Context, index: number) => Expected
  /** Runs before each turn; `seconds` is the length of the turn. */
  readonly prepare?: (context: Context, server: Server, seconds: number) => Promise<void>
  /** Number of answers in a turn that may have a status other than the expected one. */
  readonly otherAnswers?: number
  readonly needsManyPages?: boolean
  readonly targets?: readonly Target[]
  /** The reason why it can't run on this machine. */
  readonly skip?: string | undefined
}

export const JSON_TYPE = /^application\/json/

export const read = (page: { publicId: string }, headers: Request['headers'] = {}): Request => ({
  path: `/landing_pages/${page.publicId}`,
  headers
})
