import type { Expected, Request } from './answers.ts'
import type { Load } from './generators/generator.ts'
import type { Seed } from './seed.ts'
import type { Server, ServerCommand } from './servers.ts'
import type { Stores } from './stores.ts'

/** What servers and loads are made from once the data is there. */
export interface Context {
  readonly stores: Stores
  readonly seed: Seed
}

/** What a contender has to reach (bench/README.md has them all). */
export interface Target {
  readonly metric: 'rate' | 'p99'
  /** Id of the contender to compare with, in the same round. */
  readonly of: string
  readonly atLeast?: number
  readonly atMost?: number
  /** Compares the rates that both would have with whole cores for themselves; see the formula in report.ts. */
  readonly perCore?: boolean
}

/** A server's process; contenders that name the same one share it. */
export interface ServerPlan {
  readonly id: string
  /** Called once: it may write files and claim a database of Redis. */
  readonly command: (context: Context) => ServerCommand
  /** The service itself, which is profiled when that is asked for. */
  readonly isOurs?: boolean
  /** On both cores, side by side with the generator. */
  readonly onBothCores?: boolean
}

export interface Contender {
  readonly id: string
  readonly name: string
  /** The bare Fastify whose rate is 1 for it: the one with a document of the same size. */
  readonly bare: 'bare-2k' | 'bare-30k'
  readonly server: ServerPlan
  readonly load: (context: Context) => Load
  /** What the answer to the request at an index of the load has to be. */
  readonly expected: (context: Context, index: number) => Expected
  /** Runs right before each turn; `seconds` is its length. */
  readonly prepare?: (context: Context, server: Server, seconds: number) => Promise<void>
  /** How many answers of a turn may have another status. */
  readonly otherAnswers?: number
  readonly needsManyPages?: boolean
  readonly targets?: readonly Target[]
  /** Why it can't run here. */
  readonly skip?: string | undefined
}

export const JSON_TYPE = /^application\/json/

export const read = (page: { publicId: string }, headers: Request['headers'] = {}): Request => ({ path: `/landing_pages/${page.publicId}`, headers })
