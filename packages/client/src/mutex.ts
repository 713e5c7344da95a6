/** Runs pieces of work one after the other. */
export class Mutex {
  readonly #lockName: string | undefined
  #queue: Promise<unknown> = Promise.resolve()

  /** @param lockName the same for all clients that exclude each other; undefined for a client by itself */
  constructor (lockName: string | undefined) {
    this.#lockName = lockName
  }

  /** Runs `work` when all earlier work is done. */
  async run<T> (work: () => Promise<T>): Promise<T> {
    // Private tokens need no lock. A sandboxed frame can't share tokens, and its requests for a lock fail.
    const locks = this.#lockName === undefined ? undefined : getWebLocks()
    if (locks !== undefined) return await locks.request(this.#lockName as string, work)
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => {})
    return await result
  }
}

interface Locks {
  request<T>(name: string, work: () => Promise<T>): Promise<T>
}

/** Web Locks reach all tabs of an origin, or all threads of one Node process. Pages without TLS have none. */
const getWebLocks = (): Locks | undefined =>
  (globalThis as { navigator?: { locks?: Locks } }).navigator?.locks
