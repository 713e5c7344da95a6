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
  readonly #together: Batcher<string, Value>
  readonly #alone: Batcher<string, Value>

  constructor (options: BatchedReadsOptions<Value>) {
    this.#options = options
    const { maxWaitMs = Infinity } = options
    this.#together = new Batcher({
      run: async (ids) => await this.#readTogether(ids),
      maxKeys: MAX_BATCH,
      maxRunning: MAX_RUNNING,
      maxWaitMs
    })
    this.#alone = new Batcher({
      run: async (ids) => await this.#readAlone(ids),
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
  read (publicId: string): Promise<Value> {
    return this.#together.load(publicId)
  }

  async #readTogether (ids: readonly string[]): Promise<(Value | Promise<Value>)[]> {
    const { readMany, maxBytes, isFaultOfOne } = this.#options
    try {
      const values = await readMany(ids, Math.min(MAX_SMALL_BYTES, maxBytes))
      return values.map((value, index) => value === LARGE ? this.#alone.load(ids[index] as string) : value)
    } catch (error) {
      if (isFaultOfOne?.(error) !== true) throw error
      return ids.map((publicId) => this.#alone.load(publicId))
    }
  }

  async #readAlone (ids: readonly string[]): Promise<Value[]> {
    const { readMany, maxBytes, missing } = this.#options
    return (await readMany(ids, maxBytes)).map((value) => value === LARGE ? missing : value)
  }
}
