import fp from 'fastify-plugin'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter } from '../../infra/telemetry/metrics.ts'
import { ReadCountRepository } from './read-count-repository.ts'
import { RevisionRepository } from './revision-repository.ts'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/** How long counts of reads by hour are kept, and those by day. */
const HOURS_KEPT_MS = 35 * DAY_MS
const DAYS_KEPT_MS = 2 * 366 * DAY_MS

/**
 * Removes versions beyond the limits of the settings, and old counts of reads, at start and every hour.
 * Failures are logged.
 */
export default fp(async (app) => {
  const { REVISIONS_MAX: maxCount, REVISIONS_MAX_BYTES: maxBytes, REVISIONS_DAYS: days } = app.config
  const revisions = new RevisionRepository(app.database)
  const counts = new ReadCountRepository(app.database)
  const cleanups = { ok: 0, failed: 0 }
  let [prunedRevisions, prunedCounts] = [0, 0]
  addCounter(
    app.metrics,
    {
      name: 'landfall_page_cleanups_total',
      help: 'Cleanups of old versions and counts of reads, by result'
    },
    () => cleanups,
    'result'
  )
  addCounter(app.metrics, {
    name: 'landfall_pruned_revisions_total',
    help: 'Versions of documents removed because of their number, age or size'
  }, () => prunedRevisions)
  addCounter(app.metrics, {
    name: 'landfall_pruned_read_counts_total',
    help: 'Counts of reads removed because of their age, one per page and hour or day'
  }, () => prunedCounts)

  runPeriodically(app, HOUR_MS, async (signal) => {
    try {
      const now = Date.now()
      const replacedSince = days === 0 ? undefined : new Date(now - days * DAY_MS)
      prunedRevisions += await revisions.prune({ maxCount, maxBytes, replacedSince }, signal)
      prunedCounts += await counts.prune({
        hoursSince: new Date(now - HOURS_KEPT_MS),
        daysSince: new Date(now - DAYS_KEPT_MS)
      }, signal)
      cleanups.ok++
    } catch (error) {
      cleanups.failed++
      app.log.warn(
        { err: error },
        'the cleanup of old versions and counts failed; the next one will try again'
      )
    }
  }).catch(() => {}) // never rejects
}, { name: 'page-cleanup', dependencies: ['database', 'metrics'] })
