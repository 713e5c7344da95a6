export interface SemaphoreOptions {
  /** Tasks that may run at the same time. */
  readonly maxRunning: number
  readonly maxWaiting: number
  /** Tasks of one key that may wait; by default all of them. */
  readonly maxWaitingPerKey?: number
  /** Creates the error for a task that is refused. */
  readonly createRefusal: () => Error
}

interface WaitingTask {
  readonly start: () => void
  readonly refuse: (reason: unknown) => void
}

/**
 * Runs a limited number of tasks at a time, and refuses a task if too many are waiting. Tasks of one key
 * start in order, and the keys take turns: a key with many waiting tasks delays another one by one task only.
 */
export class Semaphore {
  readonly #options: SemaphoreOptions
  /** The waiting tasks by key. The first key has the next turn. */
  readonly #queues = new Map<unknown, WaitingTask[]>()
  #waiting = 0
  #running = 0
  #refused = 0

  constructor (options: SemaphoreOptions) {
    this.#options = options
  }

  get running (): number {
    return this.#running
  }

  get waiting (): number {
    return this.#waiting
  }

  /** Number of tasks refused because too many were waiting. */
  get refused (): number {
    return this.#refused
  }

  /**
   * Runs a task, perhaps later.
   *
   * @param key tasks with the same key share a turn; tasks without one share a turn, too
   * @throws the error of the task, or of `createRefusal()` if too many tasks are waiting
   */
  async run<T> (task: () => Promise<T>, key?: unknown): Promise<T> {
    if (this.#running < this.#options.maxRunning) this.#running++
    else await this.#wait(key)
    try {
      return await task()
    } finally {
      const next = this.#takeNext()
      if (next === undefined) this.#running--
      else next.start() // the next task takes this task's place
    }
  }

  /** Rejects all waiting tasks with `reason`. */
  refuseWaiting (reason: unknown): void {
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) next.refuse(reason)
  }

  #takeNext (): WaitingTask | undefined {
    const [first] = this.#queues
    if (first === undefined) return undefined
    const [key, queue] = first
    this.#queues.delete(key)
    const next = queue.shift()
    if (queue.length > 0) this.#queues.set(key, queue) // behind all other keys
    this.#waiting--
    return next
  }

  async #wait (key: unknown): Promise<void> {
    const { maxWaiting, maxWaitingPerKey = maxWaiting, createRefusal } = this.#options
    const queue = this.#queues.get(key) ?? []
    if (this.#waiting >= maxWaiting || queue.length >= maxWaitingPerKey) {
      this.#refused++
      throw createRefusal()
    }
    this.#waiting++
    this.#queues.set(key, queue)
    await new Promise<void>((resolve, reject) => queue.push({ start: resolve, refuse: reject }))
  }
}

export interface KeyedSemaphoreOptions extends SemaphoreOptions {
  /** Whether the tasks that wait would fail with this error, too. By default, unless it is a client's. */
  readonly concernsWaiting?: (error: unknown) => boolean
}

/** An error of the client (`statusCode` below 500) is the task's own. */
const isFaultOfService = (error: unknown): boolean =>
  ((error as { statusCode?: number }).statusCode ?? 500) >= 500

/**
 * A semaphore for each key. Tasks with different keys don't wait for each other. When a task fails, those
 * that wait with its key fail with the same error, if they would meet the same fault one by one.
 */
export class KeyedSemaphore<Key> {
  readonly #options: KeyedSemaphoreOptions
  readonly #byKey = new Map<Key, Semaphore>()

  /** @param options for each key */
  constructor (options: KeyedSemaphoreOptions) {
    this.#options = options
  }

  /** @throws the error of the task, or of `createRefusal()` if too many tasks with this key are waiting */
  async run<T> (key: Key, task: () => Promise<T>): Promise<T> {
    const semaphore = this.#byKey.get(key) ?? new Semaphore(this.#options)
    this.#byKey.set(key, semaphore)
    try {
      return await semaphore.run(async () => {
        try {
          return await task()
        } catch (error) {
          const { concernsWaiting = isFaultOfService } = this.#options
          if (concernsWaiting(error)) semaphore.refuseWaiting(error)
          throw error
        }
      })
    } finally {
      if (semaphore.running === 0) this.#byKey.delete(key)
    }
  }
}

/** Calls `action` for each item, for up to `concurrency` items at once. Starts no more after a failure. */
export async function forEachConcurrently<T> (
  items: AsyncIterable<T> | Iterable<T>,
  concurrency: number,
  action: (item: T) => Promise<void>
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  const failures: unknown[] = []
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (failures.length === 0) {
      try {
        const { done, value } = await iterator.next()
        if (done === true) return
        await action(value)
      } catch (error) {
        failures.push(error)
      }
    }
  }))
  if (failures.length > 0) throw failures[0]
}
