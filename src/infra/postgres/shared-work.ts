import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { runPeriodically, whileRenewing, type PeriodicTaskOptions } from '../system/periodic-task.ts'
import { timeLimit } from '../system/time-limit.ts'
import { isDatabaseUnavailable } from './unavailable.ts'
import type { Database } from './database.ts'

/** How long a shutdown waits for the work under way. */
const SHUTDOWN_LIMIT_MS = 3_000

export interface QueueOptions {
  /** What waits in the queue, for the log, such as `mails`. */
  readonly name: string
  /** Interval between checks for work of other processes, and for work that has become due. */
  readonly intervalMs: number
  /** Rows that a process works on at the same time. */
  readonly maxRunning: number
  /** Time limit from the beginning of a claim to the end of the work; shorter than a claim. */
  readonly limitMs: number
  /**
   * Claims a row that is due.
   *
   * @returns the work on it, which `signal` interrupts; undefined if no row is due
   */
  readonly claim: () => Promise<((signal: AbortSignal) => Promise<void>) | undefined>
}

/** Works off a queue in PostgreSQL. Several processes may do so at the same time. */
export class QueueRunner {
  readonly #options: QueueOptions
  readonly #log: FastifyBaseLogger
  readonly #runs = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  #isStopping = false
  #isFailing = false

  constructor (options: QueueOptions, log: FastifyBaseLogger) {
    this.#options = options
    this.#log = log
  }

  /** Starts to work on rows that are due, unless enough are under way. */
  start (): void {
    if (this.#isStopping || this.#runs.size >= this.#options.maxRunning) return
    const run = this.#workOff().finally(() => this.#runs.delete(run))
    this.#runs.add(run)
  }

  /** Claims nothing any more, and interrupts work that takes too long. The rows stay in the queue. */
  stop (): void {
    this.#isStopping = true
    setTimeout(() => this.#stop.abort(), SHUTDOWN_LIMIT_MS).unref()
  }

  /** Resolves when no work is under way. */
  async idle (): Promise<void> {
    while (this.#runs.size > 0) await Promise.all(this.#runs)
  }

  async #workOff (): Promise<void> {
    try {
      while (!this.#isStopping && await this.#workOnNext());
      this.#isFailing = false
    } catch (error) {
      // The claims lapse. An outage of PostgreSQL is logged elsewhere; another error is logged once.
      if (!this.#isFailing && !isDatabaseUnavailable(error)) {
        this.#log.warn({ err: error }, `the queue of ${this.#options.name} failed; trying again`)
      }
      this.#isFailing = true
    }
  }

  /** @returns false when no row is due */
  async #workOnNext (): Promise<boolean> {
    const limit = timeLimit(this.#options.limitMs)
    const work = await this.#options.claim()
    if (work === undefined) return false
    this.start() // another row may be due
    await work(AbortSignal.any([limit, this.#stop.signal]))
    return true
  }
}

/** Works off a queue until the app closes. */
export function runQueue (app: FastifyInstance, options: QueueOptions): QueueRunner {
  const queue = new QueueRunner(options, app.log)
  runPeriodically(app, options, async () => queue.start())
  app.addHook('preClose', async () => queue.stop())
  app.addHook('onClose', async () => await queue.idle())
  return queue
}

/** What waits in a queue of all processes. */
export interface Backlog {
  readonly count: number
  /** How long the oldest has waited; 0 if none waits. */
  readonly oldestSeconds: number
}

/**
 * Measures a backlog after each interval if there are metrics (OPS_PORT).
 *
 * @returns a function that returns the last measurement that succeeded
 */
export function watchBacklog (
  app: FastifyInstance,
  intervalMs: number,
  measure: () => Promise<Backlog>
): () => Backlog {
  let backlog: Backlog = { count: 0, oldestSeconds: 0 }
  if (app.config.OPS_PORT !== undefined) {
    runPeriodically(app, { intervalMs }, async () => {
      backlog = await measure().catch(() => backlog)
    })
  }
  return () => backlog
}

/** How often a running task renews its claim, so that no other process starts it. In milliseconds. */
const RENEW_MS = 60 * 1000

/**
 * Runs a task in one process of all that share the database, about once in each interval.
 *
 * @param task an error is logged; the next run tries again
 */
export function runInOneProcess (
  app: FastifyInstance,
  { name, ...options }: PeriodicTaskOptions & { readonly name: string },
  task: (signal: AbortSignal) => Promise<void>
): void {
  const { database, log } = app
  runPeriodically(app, options, async (signal) => {
    try {
      // A little less than the interval, because timers of processes don't run at the same moment.
      if (!await claimTask(database, name, options.intervalMs * 0.9)) return
      const renew = async () => await claimTask(database, name, 0)
      await whileRenewing(renew, RENEW_MS, async () => await task(signal))
    } catch (error) {
      log.warn({ err: error, task: name }, 'a periodic task failed; trying again after its interval')
    }
  })
}

/** @returns whether the task may start: no process has started it for `minAgeMs` */
async function claimTask ({ periodicTask }: Database, name: string, minAgeMs: number): Promise<boolean> {
  const now = new Date()
  const data = { name, startedAt: now }
  const { count: isFirst } = await periodicTask.createMany({ data, skipDuplicates: true })
  if (isFirst > 0) return true
  const where = { name, startedAt: { lte: new Date(now.getTime() - minAgeMs) } }
  return (await periodicTask.updateMany({ where, data })).count > 0
}
