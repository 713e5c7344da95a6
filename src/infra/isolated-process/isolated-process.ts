import { createUnavailableError } from '../../errors.ts'
import { Child, type ChildOptions, type Exchange } from './child.ts'
import { FairQueue } from './fair-queue.ts'

export { IsolatedProcessError } from './child.ts'

/** Time for the start of the child process, which takes long on a machine without a free processor. */
const START_LIMIT_MS = 30_000
const CPU_CHECK_MS = 100

export interface IsolatedProcessOptions extends ChildOptions {
  /** Processor time for one task. On a busy machine, a task may take much longer without using it. */
  readonly cpuLimitMs: number
  /** Time for one task, without waiting for its turn and for the start of the process. */
  readonly timeLimitMs: number
  /** An idle child process ends after this time. */
  readonly idleMs: number
  /** Tasks of all accounts that may wait. */
  readonly maxWaiting: number
  /** Creates the error for a task that loses its place among them. */
  readonly createRefusal: () => Error
}

/**
 * A child process for tasks that could take all memory or time, or crash. It runs one task at a time, starts
 * with the first one, and starts again if it ended.
 */
export class IsolatedProcess {
  readonly #options: IsolatedProcessOptions
  readonly #queue: FairQueue<number>
  #child: Child | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Processor time used by all tasks. */
  #usedMs = 0

  constructor (options: IsolatedProcessOptions) {
    this.#options = options
    const { maxWaiting, createRefusal } = options
    this.#queue = new FairQueue({ maxWaiting, createRefusal, meter: () => this.#usedMs })
  }

  /** Number of tasks that wait for their turn. */
  get waiting (): number {
    return this.#queue.waiting
  }

  /**
   * Waits until the account has its turn, in which `use` may call `run`.
   *
   * @param expectedMs the processor time of the task, roughly
   * @throws the error of `use`, or of `createRefusal()` if too many tasks wait of accounts that used less
   * @throws {RetryLaterError} 503 after `close`
   */
  async inTurn<T> (account: number, expectedMs: number, use: () => Promise<T>): Promise<T> {
    return await this.#queue.run(account, expectedMs, async () => {
      if (this.#isClosed) throw createUnavailableError()
      return await use()
    })
  }

  /**
   * Runs a task in the child process. To be called in a turn only.
   *
   * @throws {IsolatedProcessError} if the task needed too much time, or the process ended or didn't start
   * @throws {RetryLaterError} 503 if `close` was called in the meantime
   * @throws the errors of `input` and `take`
   */
  async run<Result, T = Result> (exchange: Exchange<Result, T>): Promise<T> {
    clearTimeout(this.#idleTimer)
    // An idle process may have been ended, for example because the system ran out of memory.
    if (this.#child?.hasEnded === true) this.#child = undefined
    let timer: NodeJS.Timeout | undefined
    let cpuTimer: NodeJS.Timeout | undefined
    /** Returns the processor time that the task has used. */
    let measure = (): number => 0
    try {
      const child = this.#child ??= new Child(this.#options)
      /** Sets the time limit, in place of the one before. */
      const limit = (ms: number) => {
        clearTimeout(timer)
        timer = setTimeout(() => child.giveUp('too_slow'), ms)
      }
      limit(START_LIMIT_MS)
      await child.started
      limit(this.#options.timeLimitMs)
      const usedBefore = child.measureUsedMs()
      measure = () => child.measureUsedMs() - usedBefore
      cpuTimer = setInterval(() => {
        if (measure() > this.#options.cpuLimitMs) child.giveUp('too_costly')
      }, CPU_CHECK_MS)
      const value = await Promise.race([child.ended, child.exchange(exchange)])
      this.#idleTimer = setTimeout(() => this.#end(), this.#options.idleMs).unref()
      return value
    } catch (error) {
      // Bytes that were not read would be taken for those of the next task.
      this.#end()
      throw this.#isClosed ? createUnavailableError() : error
    } finally {
      clearTimeout(timer)
      clearInterval(cpuTimer)
      this.#usedMs += measure()
      exchange.input?.destroy()
    }
  }

  /** Ends the child process. Tasks that wait or run are refused. */
  close (): void {
    this.#isClosed = true
    this.#queue.refuseWaiting(createUnavailableError())
    this.#end()
  }

  #end (): void {
    clearTimeout(this.#idleTimer)
    this.#child?.end()
    this.#child = undefined
  }
}
