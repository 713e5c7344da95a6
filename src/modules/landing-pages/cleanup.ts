import fp from 'fastify-plugin'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter } from '../../infra/telemetry/metrics.ts'
import { RevisionRepository } from './revision-repository.ts'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

/** Removes versions beyond the limits of the settings, at start and every hour. Failures are logged. */
export default fp(async (app) => {
  const { REVISIONS_MAX: maxCount, REVISIONS_MAX_BYTES: maxBytes, REVISIONS_DAYS: days } = app.config
  const revisions = new RevisionRepository(app.database)
  const cleanups = { ok: 0, failed: 0 }
  let pruned = 0
  addCounter(
    app.metrics,
    {
      name: 'landfall_page_cleanups_total',
      help: 'Cleanups of old versions, by result'
    },
    () => cleanups,
    'result'
  )
  addCounter(app.metrics, {
    name: 'landfall_pruned_revisions_total',
    help: 'Versions of documents removed because of their number, age or size'
  }, () => pruned)

  runPeriodically(app, HOUR_MS, async (signal) => {
    try {
      const replacedSince = days === 0 ? undefined : new Date(Date.now() - days * DAY_MS)
      pruned += await revisions.prune({ maxCount, maxBytes, replacedSince }, signal)
      cleanups.ok++
    } catch (error) {
      cleanups.failed++
      app.log.warn({ err: error }, 'the cleanup of old versions failed; the next one will try again')
    }
  }).catch(() => {}) // never rejects
}, { name: 'page-cleanup', dependencies: ['database', 'metrics'] })
