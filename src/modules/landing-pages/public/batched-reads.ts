import { Batcher } from '../../../infra/system/batcher.ts'

/** Stands for a document that is too large to be read together with others. */
export const LARGE = Symbol('large')
/** The largest document that is read together with others, in bytes, so that a batch is 2 MiB at most. */
const MAX_SMALL_BYTES = 32 * 1024
/** The most documents in one command or statement. */
const MAX_BATCH = 64
/** Commands or statements with several documents that may be under way at the same time. */
const MAX_RUNNING = 2

export interface BatchedReadsOptions<Value> {
  /** Reads documents from a store, in the order of the ids. Larger ones than `maxBytes` are `LARGE`. */
  readonly readMany: (ids: readonly string[], maxBytes: number) => Promise<readonly (Value | typeof LARGE)[]>
  /** The largest document that is read at all, in bytes. A larger one counts as `missing`. */
  readonly maxBytes: number
  readonly missing: Value
  /** After this wait a batch no longer waits for the end of others, in ms. Default: it always waits. */
  readonly maxWaitMs?: number
  /** Whether an error may be caused by one document of a batch, so that each is read again by itself. */
  readonly isFaultOfOne?: (error: unknown) => boolean
}

/**
 * Reads documents of a store in batches. Large documents are read one by one beside the batches, so that they
 * delay neither the small ones nor, in Redis, the commands of all other processes.
 */
export class BatchedReads<Value> {
  readonly #options: BatchedReadsOptions<Value>
  readonly #together: Batcher<string, Value | typeof LARGE>
  readonly #alone: Batcher<string, Value | typeof LARGE>

  constructor (options: BatchedReadsOptions<Value>) {
    this.#options = options
    const { readMany, maxBytes, maxWaitMs = Infinity } = options
    this.#together = new Batcher({
      run: async (ids) => await readMany(ids, Math.min(MAX_SMALL_BYTES, maxBytes)),
      maxKeys: MAX_BATCH,
      maxRunning: MAX_RUNNING,
      maxWaitMs
    })
    this.#alone = new Batcher({
      run: async (ids) => await readMany(ids, maxBytes),
      maxKeys: 1,
      maxRunning: 1,
      maxWaitMs
    })
  }

  /** The number of commands or statements so far. */
  get batches (): number {
    return this.#together.started + this.#alone.started
  }

  /** @throws the error of the store */
  async read (publicId: string): Promise<Value> {
    try {
      const value = await this.#together.load(publicId)
      if (value !== LARGE) return value
    } catch (error) {
      if (this.#options.isFaultOfOne?.(error) !== true) throw error
    }
    const value = await this.#alone.load(publicId)
    return value === LARGE ? this.#options.missing : value
  }
}
