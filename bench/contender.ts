import type { Expected } from './responses.ts'
import type { Load, Request } from './generators/types.ts'
import type { Seed } from './seed.ts'
import type { Server, ServerCommand } from './servers.ts'
import type { Stores } from './stores.ts'

/** The data and stores from which servers and loads are made. */
export interface Context {
  readonly stores: Stores
  readonly seed: Seed
}

/** A value that a contender should reach. `of` is the id of the contender that it is compared with. */
export type Target =
  /** A ratio. `perCore` compares the rates on exclusive cores; see `wholeCoresRate` in verdicts.ts. */
  | { readonly metric: 'rate', readonly of: string, readonly atLeast: number, readonly perCore?: boolean }
  /** A ratio. */
  | { readonly metric: 'p99', readonly of: string, readonly atMost: number }
  /** The slowest response of all rounds, in milliseconds. */
  | { readonly metric: 'max', readonly atMost: number }
  /** Processor time of Redis, in microseconds per request. */
  | { readonly metric: 'redis', readonly atMost: number }
  /** Memory beyond that of the other contender's server, in MB. */
  | { readonly metric: 'rss', readonly of: string, readonly atMost: number }

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
  /** The bare Fastify that sends the same kind of response, and whose rate counts as 1. */
  readonly bare: 'bare-2k' | 'bare-30k' | 'bare-304' | 'bare-429' | 'bare-open'
  readonly server: ServerPlan
  readonly load: (context: Context) => Load
  /** The expected answer to the request at an index of the load. */
  readonly expected: (context: Context, index: number) => Expected
  /** Runs before each turn; `seconds` is the length of the turn. */
  readonly prepare?: (context: Context, server: Server, seconds: number) => Promise<void>
  /** Number of responses in a turn that may have a status other than the expected one. */
  readonly otherResponses?: number
  readonly needsManyPages?: boolean
  /** The length of the warm-up as a multiple of a turn's; 1 if not set. */
  readonly warmUpTurns?: number
  /**
   * Sends the requests at fixed times, at half of the rate that the contender with this id reached in the
   * warm-up. That contender comes before this one.
   */
  readonly halfRateOf?: string
  readonly targets?: readonly Target[]
  /** The reason why it can't run on this machine. */
  readonly skip?: string | undefined
}

export const JSON_TYPE = /^application\/json/

export const read = (page: { publicId: string }, headers: Request['headers'] = {}): Request => ({
  path: `/landing_pages/${page.publicId}`,
  headers
})
