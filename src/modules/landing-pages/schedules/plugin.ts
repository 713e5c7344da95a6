import fp from 'fastify-plugin'
import { runPeriodically } from '../../../infra/system/periodic-task.ts'
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
  const runner = new ScheduleRunner(app)
  let timer: NodeJS.Timeout | undefined
  let isAwake = false
  const run = runPeriodically(app, { intervalMs: CHECK_INTERVAL_MS }, async (signal) => {
    isAwake = false
    clearTimeout(timer)
    const waitMs = await runner.run(signal)
    if (waitMs !== undefined && !signal.aborted) timer = setTimeout(wake, waitMs).unref()
  })
  const wake = () => {
    if (isAwake) return // a run is about to begin
    isAwake = true
    run().catch(() => {}) // never rejects
  }
  app.decorate('wakeSchedules', wake)
  app.addHook('onReady', async () => wake())

  addMetrics(app.metrics, {
    landfall_scheduled_changes_total: [
      'Pages that this process has published or unpublished at the time of their schedule, by result',
      () => runner.results,
      { label: 'result' }
    ],
    landfall_schedules_late_seconds: [
      'How late the oldest scheduled change is that could not be made',
      () => runner.lateSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'schedules', dependencies: ['database', 'metrics', 'document-cache'] })
