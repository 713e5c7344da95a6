import { AsyncResource } from 'node:async_hooks'

interface BatcherOptions<Key, Value> {
  /**
   * Answers a batch, with a value, or the promise of one, for each key in the order of the keys. If it fails,
   * all keys fail.
   */
  readonly run: (keys: readonly Key[]) => Promise<readonly (Value | Promise<Value>)[]>
  readonly maxKeys: number
  /** Batches that may be under way at the same time. */
  readonly maxRunning: number
  /** After this wait a batch starts although `maxRunning` others haven't ended, in ms. Default: never. */
  readonly maxWaitMs?: number | undefined
}

interface Batch<Key, Value> {
  readonly keys: Key[]
  readonly callers: {
    readonly resolve: (value: Value | Promise<Value>) => void
    readonly reject: (error: unknown) => void
  }[]
  readonly createdAt: number
  /** The asynchronous context of the first caller, in which the batch runs, for traces. */
  readonly context: AsyncResource
}

/**
 * Collects keys and answers them in batches. A batch has the keys of one turn of the event loop, or those
 * that came while earlier batches were under way. No key joins a batch that has started, so a response is
 * never older than its question.
 * The package dataloader doesn't limit how many batches run at once (docs/adr/0016-batched-cold-reads.md).
 */
export class Batcher<Key, Value> {
  readonly #options: BatcherOptions<Key, Value>
  /** Batches that have not started, the oldest first. New keys join the last one. */
  #waiting: Batch<Key, Value>[] = []
  #running = 0
  #started = 0
  #timer: NodeJS.Timeout | undefined

  constructor (options: BatcherOptions<Key, Value>) {
    this.#options = options
  }

  /** The number of batches so far. */
  get started (): number {
    return this.#started
  }

  /** @throws the error of the key's batch */
  load (key: Key): Promise<Value> {
    return new Promise((resolve, reject) => {
      let batch = this.#waiting.at(-1)
      if (batch === undefined || batch.keys.length === this.#options.maxKeys) batch = this.#create()
      batch.keys.push(key)
      batch.callers.push({ resolve, reject })
    })
  }

  #create (): Batch<Key, Value> {
    const batch: Batch<Key, Value> = {
      keys: [],
      callers: [],
      createdAt: performance.now(),
      context: new AsyncResource('Batch')
    }
    this.#waiting.push(batch)
    setImmediate(() => this.#startWaiting())
    return batch
  }

  #startWaiting (): void {
    const { maxRunning, maxWaitMs = Infinity } = this.#options
    const overdue = performance.now() - maxWaitMs
    while (this.#waiting[0] !== undefined) {
      if (this.#running >= maxRunning && this.#waiting[0].createdAt > overdue) break
      this.#start(this.#waiting.shift() as Batch<Key, Value>)
    }
    if (this.#waiting[0] === undefined || maxWaitMs === Infinity) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#startWaiting()
    }, Math.max(1, this.#waiting[0].createdAt - overdue))
  }

  #start (batch: Batch<Key, Value>): void {
    this.#running++
    this.#started++
    batch.context.runInAsyncScope(() => {
      this.#run(batch)
    })
  }

  async #run ({ keys, callers }: Batch<Key, Value>): Promise<void> {
    try {
      const values = await this.#options.run(keys)
      if (values.length !== keys.length) throw new Error('a batch has another number of values than of keys')
      for (const [index, { resolve }] of callers.entries()) resolve(values[index] as Value | Promise<Value>)
    } catch (error) {
      for (const { reject } of callers) reject(error)
    } finally {
      this.#running--
      // The keys of this whole turn join the next batch.
      if (this.#waiting.length > 0) setImmediate(() => this.#startWaiting())
    }
  }
}
