import type { FastifyInstance } from 'fastify'
import { runPeriodically, whileRenewing, type PeriodicTaskOptions } from '../system/periodic-task.ts'
import type { Database } from './database.ts'

/** A running task says so this often, so that no other process starts it meanwhile. */
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
