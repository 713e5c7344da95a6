export interface SemaphoreOptions {
  /** Tasks that may run at the same time. */
  readonly maxRunning: number
  /** Tasks that may wait. */
  readonly maxWaiting: number
  /** Creates the error for a task that is refused. */
  readonly createRefusal: () => Error
}

/** Runs a limited number of tasks at a time, in order, and refuses a task if too many are waiting. */
export class Semaphore {
  readonly #options: SemaphoreOptions
  readonly #queue: { readonly start: () => void, readonly refuse: (reason: unknown) => void }[] = []
  #running = 0
  #refused = 0

  constructor (options: SemaphoreOptions) {
    this.#options = options
  }

  get running (): number {
    return this.#running
  }

  get waiting (): number {
    return this.#queue.length
  }

  /** Number of tasks refused because too many were waiting. */
  get refused (): number {
    return this.#refused
  }

  /** @throws the error of the task, or of `createRefusal()` if too many tasks are waiting */
  async run<T> (task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#options.maxRunning) this.#running++
    else await this.#wait()
    try {
      return await task()
    } finally {
      const next = this.#queue.shift()
      if (next === undefined) this.#running--
      else next.start() // the next task takes this task's place
    }
  }

  /** Rejects all waiting tasks with `reason`. */
  refuseWaiting (reason: unknown): void {
    for (const { refuse } of this.#queue.splice(0)) refuse(reason)
  }

  async #wait (): Promise<void> {
    if (this.#queue.length >= this.#options.maxWaiting) {
      this.#refused++
      throw this.#options.createRefusal()
    }
    await new Promise<void>((resolve, reject) => this.#queue.push({ start: resolve, refuse: reject }))
  }
}
