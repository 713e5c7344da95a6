// What a load generator is given and returns.

export type GeneratorName = 'wrk' | 'autocannon'

export interface Request {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** A PATCH with a body. */
export interface Write extends Request {
  readonly body: string
}

/** The requests of a turn, repeated in this order, or in the order of the indexes in `order`. */
export interface Load {
  readonly requests: readonly Request[]
  readonly order?: Uint32Array
  /** The number of client addresses, at most 2^24. A random one of them replaces ADDRESS in each request. */
  readonly addresses?: number
  /** In turns at a fixed rate, 1 % of the requests are these, in this order. */
  readonly writes?: readonly Write[]
}

export interface Turn {
  readonly port: number
  readonly load: Load
  /** Index of the first request, so that the turns of a long list continue where the last one ended. */
  readonly start: number
  readonly seconds: number
  readonly connections: number
  readonly cores: readonly number[] | undefined
}

/** Counts of reads. Writes count only where they failed. */
export interface Counts {
  readonly requests: number
  readonly seconds: number
  /** Bytes received, headers included. */
  readonly bytes: number
  /** Answers with a status of 400 or more. */
  readonly refused: number
  readonly socketErrors: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** At a fixed rate. */
  readonly p999Ms?: number
  /** At a fixed rate: 99 % of the requests that found an idle connection were sent at most this late. */
  readonly lateMs?: number
}

/** Keeps a fixed number of connections busy, with one request at a time on each. */
export interface Generator {
  readonly name: GeneratorName
  /** One line with the name of the generator and the limits of its numbers. */
  readonly description: string
  /** Prepares a load under a name. Does nothing if the name was already prepared. */
  prepare(name: string, load: Load): void
  run(name: string, turn: Turn): Promise<Counts>
}
