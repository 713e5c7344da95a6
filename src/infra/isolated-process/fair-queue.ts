import { LRUCache } from 'lru-cache'
import { clock } from '../system/clock.ts'

/** Time after which a key's past use counts half. */
const HALF_LIFE_MS = 10 * 60_000
/** What a key may use before it counts, so that little use is no reason to stand behind newcomers. */
const FREE_MS = 1000
/** Keys whose use is known. The one that was idle longest is forgotten first. */
const MAX_KNOWN_KEYS = 10_000

interface FairQueueOptions {
  readonly maxWaiting: number
  /** Creates the error for a task that loses its place. */
  readonly createRefusal: () => Error
  /** The time that all tasks together have used until now, in milliseconds. */
  readonly meter: () => number
}

interface Waiting<Key> {
  readonly key: Key
  readonly expectedMs: number
  readonly start: () => void
  readonly refuse: (reason: unknown) => void
}

/**
 * Runs one task at a time. Each task has a key, such as the account that it is for. The key that will have
 * used least time after its task is next. If too many tasks wait, the key that would have used most after all
 * its tasks loses its last one (docs/adr/0018-patches-on-text.md).
 */
export class FairQueue<Key extends string | number> {
  readonly #options: FairQueueOptions
  /** In the order of arrival. */
  readonly #waiting: Waiting<Key>[] = []
  readonly #used = new LRUCache<Key, { readonly ms: number, readonly at: number }>({ max: MAX_KNOWN_KEYS })
  #isRunning = false

  constructor (options: FairQueueOptions) {
    this.#options = options
  }

  get waiting (): number {
    return this.#waiting.length
  }

  /**
   * @param expectedMs roughly what the task will use. Once it has run, the measured time counts instead.
   * @throws the error of the task, or of `createRefusal()` if it lost its place
   */
  async run<T> (key: Key, expectedMs: number, task: () => Promise<T>): Promise<T> {
    if (this.#isRunning) await this.#wait(key, expectedMs)
    this.#isRunning = true
    const { meter } = this.#options
    const before = meter()
    try {
      return await task()
    } finally {
      this.#used.set(key, { ms: this.#lately(key) + meter() - before, at: clock.now() })
      const next = this.#takeNext()
      if (next === undefined) this.#isRunning = false
      else next.start()
    }
  }

  /** Rejects all waiting tasks with `reason`. */
  refuseWaiting (reason: unknown): void {
    for (const { refuse } of this.#waiting.splice(0)) refuse(reason)
  }

  async #wait (key: Key, expectedMs: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ key, expectedMs, start: resolve, refuse: reject })
      if (this.#waiting.length > this.#options.maxWaiting) this.#refuseOne()
    })
  }

  #takeNext (): Waiting<Key> | undefined {
    const firsts = new Map<Key, Waiting<Key>>() // the tasks of a key run in order
    for (const each of this.#waiting) if (!firsts.has(each.key)) firsts.set(each.key, each)
    const next = minBy([...firsts.values()], ({ key, expectedMs }) => this.#usedBy(key) + expectedMs)
    if (next !== undefined) this.#remove(next)
    return next
  }

  #refuseOne (): void {
    const useAfterAll = new Map<Key, number>()
    for (const { key, expectedMs } of this.#waiting) {
      useAfterAll.set(key, (useAfterAll.get(key) ?? this.#usedBy(key)) + expectedMs)
    }
    // In reverse, because of equals the one that came last is refused.
    const refused = minBy(this.#waiting.toReversed(), ({ key }) => -(useAfterAll.get(key) as number))
    if (refused === undefined) return
    this.#remove(refused)
    refused.refuse(this.#options.createRefusal())
  }

  #remove (task: Waiting<Key>): void {
    this.#waiting.splice(this.#waiting.indexOf(task), 1)
  }

  /** What counts against a key. */
  #usedBy (key: Key): number {
    return Math.max(0, this.#lately(key) - FREE_MS)
  }

  #lately (key: Key): number {
    const used = this.#used.get(key)
    return used === undefined ? 0 : used.ms * 0.5 ** ((clock.now() - used.at) / HALF_LIFE_MS)
  }
}

function minBy<Item> (items: readonly Item[], valueOf: (item: Item) => number): Item | undefined {
  let [lowest] = items
  for (const item of items) if (valueOf(item) < valueOf(lowest as Item)) lowest = item
  return lowest
}
