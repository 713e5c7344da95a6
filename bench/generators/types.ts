// What a load generator is given and returns. All generators keep a fixed number of connections busy, with
// one request at a time on each.

export type GeneratorName = 'wrk' | 'autocannon'

export interface Request {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** The requests of a turn, repeated in this order, or in the order of the indexes in `order`. */
export interface Load {
  readonly requests: readonly Request[]
  readonly order?: Uint32Array
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
}

export interface Generator {
  readonly name: GeneratorName
  /** One line with the name of the generator and the limits of its numbers. */
  readonly description: string
  /** Prepares a load under a name. Does nothing if the name was already prepared. */
  prepare(name: string, load: Load): void
  run(name: string, turn: Turn): Promise<Counts>
}
