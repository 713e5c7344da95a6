import type { FastifyInstance } from 'fastify'
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
 * Removes versions beyond the limits of the settings, and old counts of reads.
 *
 * @returns how many of each it removed
 */
export async function cleanUpPages (
  { config, database }: FastifyInstance,
  signal?: AbortSignal
): Promise<{ revisions: number, counts: number }> {
  const { REVISIONS_MAX: maxCount, REVISIONS_MAX_BYTES: maxBytes, REVISIONS_DAYS: days } = config
  const now = Date.now()
  const replacedSince = days === 0 ? undefined : new Date(now - days * DAY_MS)
  const limits = { maxCount, maxBytes, replacedSince }
  const ages = { hoursSince: new Date(now - HOURS_KEPT_MS), daysSince: new Date(now - DAYS_KEPT_MS) }
  return {
    revisions: await new RevisionRepository(database).prune(limits, signal),
    counts: await new ReadCountRepository(database).prune(ages, signal)
  }
}

/** Removes old versions and counts every hour. Failures are logged. */
export default fp(async (app) => {
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
      const removed = await cleanUpPages(app, signal)
      prunedRevisions += removed.revisions
      prunedCounts += removed.counts
      cleanups.ok++
    } catch (error) {
      cleanups.failed++
      app.log.warn(
        { err: error },
        'the cleanup of old versions and counts failed; the next one will try again'
      )
    }
  })
}, { name: 'page-cleanup', dependencies: ['database', 'metrics'] })
