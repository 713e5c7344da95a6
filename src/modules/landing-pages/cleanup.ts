import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { deleteOlder } from '../../infra/postgres/database.ts'
import { runInOneProcess } from '../../infra/postgres/shared-work.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { deleteOldPurges } from './outbox-repository.ts'
import { pruneReads } from './read-count-repository.ts'
import { pruneRevisions } from './revision-repository.ts'
import { purgePages } from './trash-repository.ts'

const HOUR_MS = 60 * 60 * 1000
/** A start has more urgent work, but a service may restart more often than every hour. */
const FIRST_AFTER_MS = 5 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/** How long read counts by hour are kept, and those by day. */
const HOURS_KEPT_MS = 35 * DAY_MS
const DAYS_KEPT_MS = 2 * 366 * DAY_MS

/**
 * Removes versions beyond the limits of the settings, old read counts, expired preview links, old purges of
 * the CDN, and pages that were long in the trash.
 *
 * @returns how many versions, counts and pages it removed
 */
export async function cleanUpPages (
  { config, database, documents }: FastifyInstance,
  signal?: AbortSignal
): Promise<{ revisions: number, counts: number, pages: number }> {
  const { REVISIONS_MAX: maxCount, REVISIONS_MAX_BYTES: maxBytes, REVISIONS_DAYS: days } = config
  const publishRemovals = async (publicIds: readonly string[]) => await documents.publishDeletions(publicIds)
  const now = Date.now()
  const replacedSince = days === 0 ? null : new Date(now - days * DAY_MS)
  const limits = { maxCount, maxBytes, replacedSince }
  await deleteOlder(database.previewLink, 'expiresAt', await database.now(), signal)
  await deleteOldPurges(database, signal)
  const ages = { hoursSince: new Date(now - HOURS_KEPT_MS), daysSince: new Date(now - DAYS_KEPT_MS) }
  return {
    revisions: await pruneRevisions(database, limits, signal),
    counts: await pruneReads(database, ages, signal),
    pages: await purgePages(database, new Date(now - config.TRASH_DAYS * DAY_MS), publishRemovals, signal)
  }
}

/** Cleans up every hour, in one process. */
export default fp(async (app) => {
  const cleanups = { ok: 0, failed: 0 }
  const removed = { revisions: 0, counts: 0, pages: 0 }
  addMetrics(app.metrics, {
    landfall_page_cleanups_total: [
      'Cleanups of earlier versions, old read counts and the trash, by result',
      () => cleanups,
      { label: 'result' }
    ],
    landfall_removed_revisions_total: [
      'Earlier versions removed because of their number, age or size',
      () => removed.revisions
    ],
    landfall_removed_read_counts_total: [
      'Read counts removed because of their age, one per page and hour or day',
      () => removed.counts
    ],
    landfall_purged_pages_total: [
      'Pages removed for good because of their time in the trash',
      () => removed.pages
    ]
  })

  const times = { intervalMs: HOUR_MS, extraAfterMs: FIRST_AFTER_MS }
  runInOneProcess(app, { name: 'page_cleanup', ...times }, async (signal) => {
    const last = await cleanUpPages(app, signal).catch((error: unknown) => {
      cleanups.failed++
      throw error
    })
    for (const kind of ['revisions', 'counts', 'pages'] as const) removed[kind] += last[kind]
    cleanups.ok++
  })
}, { name: 'page-cleanup', dependencies: ['database', 'metrics', 'document-cache'] })
