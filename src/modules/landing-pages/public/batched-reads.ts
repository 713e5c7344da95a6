import { Batcher } from '../../../infra/system/batcher.ts'

/** Stands for a document that is too large to be read together with others. */
export const LARGE = Symbol('large')
/** The largest document that is read together with others, in bytes, so that a batch is 2 MiB at most. */
const MAX_SMALL_BYTES = 32 * 1024
/** The most documents in one command or statement. */
const MAX_BATCH = 64
/** Commands or statements with several documents that may be under way at the same time. */
const MAX_RUNNING = 2

interface BatchedReadsOptions<Value> {
  /** Reads documents from a store, in the order of the ids. Larger ones than `maxBytes` are `LARGE`. */
  readonly readMany: (ids: readonly string[], maxBytes: number) => Promise<readonly (Value | typeof LARGE)[]>
  /** The largest document that is read at all, in bytes. A larger one counts as `missing`. */
  readonly maxBytes: number
  readonly missing: Value
  /** After this wait a batch no longer waits for the end of others, in ms. Default: it always waits. */
  readonly maxWaitMs?: number | undefined
  /** Whether an error may be caused by one document of a batch, so that each is read again by itself. */
  readonly isFaultOfOne?: (error: unknown) => boolean
}

export interface BatchedReads<Value> {
  /** The number of commands or statements so far. */
  readonly batches: number
  /** @throws the error of the store */
  read(publicId: string): Promise<Value>
}

/**
 * Reads documents of a store in batches. Large documents are read one by one beside the batches, so that they
 * delay neither the small ones nor, in Redis, the commands of all other processes.
 */
export function batchReads<Value> (
  { readMany, maxBytes, missing, maxWaitMs, isFaultOfOne = () => false }: BatchedReadsOptions<Value>
): BatchedReads<Value> {
  const alone = new Batcher<string, Value>({
    run: async (ids) => (await readMany(ids, maxBytes)).map((value) => value === LARGE ? missing : value),
    maxKeys: 1,
    maxRunning: 1,
    maxWaitMs
  })
  const together = new Batcher<string, Value>({
    async run (ids) {
      try {
        const values = await readMany(ids, Math.min(MAX_SMALL_BYTES, maxBytes))
        return values.map((value, index) => value === LARGE ? alone.load(ids[index] as string) : value)
      } catch (error) {
        if (!isFaultOfOne(error)) throw error
        return ids.map((publicId) => alone.load(publicId))
      }
    },
    maxKeys: MAX_BATCH,
    maxRunning: MAX_RUNNING,
    maxWaitMs
  })
  return {
    get batches () {
      return together.started + alone.started
    },
    read: (publicId) => together.load(publicId)
  }
}
