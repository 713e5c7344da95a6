import type { FastifyInstance } from 'fastify'
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

/**
 * Works off a queue in PostgreSQL until the app closes. Several processes may do so at the same time.
 *
 * @returns a function that starts to work on due rows at once, unless enough work is under way
 */
export function runQueue (app: FastifyInstance, options: QueueOptions): () => void {
  const { name, maxRunning, limitMs, claim } = options
  const runs = new Set<Promise<void>>()
  const interrupt = new AbortController()
  let isStopping = false
  let isFailing = false

  const start = (): void => {
    if (isStopping || runs.size >= maxRunning) return
    const run = workOff().finally(() => runs.delete(run))
    runs.add(run)
  }

  const workOff = async (): Promise<void> => {
    try {
      while (await workOnNext());
      isFailing = false
    } catch (error) {
      // The claims lapse. An outage of PostgreSQL is logged elsewhere; another error is logged once.
      if (!isFailing && !isDatabaseUnavailable(error)) {
        app.log.warn({ err: error }, `the queue of ${name} failed; trying again`)
      }
      isFailing = true
    }
  }

  const workOnNext = async (): Promise<boolean> => {
    if (isStopping) return false
    const limit = timeLimit(limitMs)
    const work = await claim()
    if (work === undefined) return false // no row is due
    start() // another row may be due
    await work(AbortSignal.any([limit, interrupt.signal]))
    return true
  }

  runPeriodically(app, options, async () => start())
  // A shutdown interrupts work that takes too long. Its rows stay in the queue.
  app.addHook('preClose', async () => {
    isStopping = true
    setTimeout(() => interrupt.abort(), SHUTDOWN_LIMIT_MS).unref()
  })
  app.addHook('onClose', async () => {
    await Promise.all(runs) // the database closes after this hook
  })
  return start
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
