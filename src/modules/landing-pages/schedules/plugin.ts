import fp from 'fastify-plugin'
import { runPeriodically } from '../../../infra/system/periodic-task.ts'
import { clock } from '../../../infra/system/clock.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { ScheduleRunner } from './runner.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Call it after a schedule was set, so that its time is known. Other processes find it within 5 s. */
    wakeSchedules: () => void
  }
}

/** Interval between checks for schedules that other processes have set. */
const CHECK_INTERVAL_MS = 5_000

/** Publishes and unpublishes pages at the times of their schedules. */
export default fp(async (app) => {
  let timer: NodeJS.Timeout | undefined
  let checksAt = Infinity
  /** Checks after this time, unless a check comes earlier. */
  const checkIn = (ms: number) => {
    if (checksAt <= clock.now() + ms) return
    checksAt = clock.now() + ms
    clearTimeout(timer)
    timer = setTimeout(async () => await check(), ms).unref() // never rejects
  }
  const runner = new ScheduleRunner(app, checkIn)
  app.addHook('onClose', async () => await runner.idle()) // after the last check
  const check = runPeriodically(app, { intervalMs: CHECK_INTERVAL_MS }, async (signal) => {
    clearTimeout(timer)
    checksAt = Infinity
    await runner.check(signal)
  })
  app.decorate('wakeSchedules', () => checkIn(0))
  app.addHook('onReady', async () => checkIn(0))

  addMetrics(app.metrics, {
    landfall_scheduled_changes_total: [
      'Pages that this process has published or unpublished at the time of their schedule, by result',
      () => runner.results,
      { label: 'result' }
    ],
    landfall_schedules_late_seconds: [
      'How late the oldest scheduled change was at the last check',
      () => runner.lateSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'schedules', dependencies: ['database', 'metrics', 'document-cache'] })
