import { Semaphore, type SemaphoreOptions } from './semaphore.ts'

/**
 * A semaphore for each key. Tasks with different keys don't wait for each other. When a task fails, those
 * that wait with its key fail with the same error, because they would meet the same fault one by one.
 */
export class KeyedSemaphore<Key> {
  readonly #options: SemaphoreOptions
  readonly #byKey = new Map<Key, Semaphore>()

  /** @param options for each key */
  constructor (options: SemaphoreOptions) {
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
          semaphore.refuseWaiting(error)
          throw error
        }
      })
    } finally {
      if (semaphore.running === 0) this.#byKey.delete(key)
    }
  }
}
