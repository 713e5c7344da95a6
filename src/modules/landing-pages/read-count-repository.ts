import type { LandingPageReadsHourly, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { deleteOlder } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS
/** The length of an hour and a day (UTC), in milliseconds. */
export const STEP_MS = { hour: HOUR_MS, day: DAY_MS }

/** The reads of some pages in an hour, as arrays of the same length. */
export interface ReadReport {
  /** Identifies the process that counted the reads. */
  readonly processId: string
  /** Greater than the numbers of the process' earlier reports. */
  readonly number: number
  /** The start of the hour, in milliseconds since 1970. */
  readonly hour: number
  readonly publicIds: readonly string[]
  /** 200 */
  readonly reads: readonly number[]
  /** 304 */
  readonly notModified: readonly number[]
}

export type ReadCount = Pick<LandingPageReadsHourly, 'at' | 'reads' | 'notModified'>

/** Hours or days (UTC), from the first to the last one. */
export interface ReadCountRange {
  readonly per: 'hour' | 'day'
  /** The start of the first one. */
  readonly first: Date
  /** The start of the last one. */
  readonly last: Date
}

const add = (table: string, at: string) => `
  INSERT INTO ${table} AS stored (page_id, at, reads, not_modified)
  SELECT id, ${at}::timestamptz, reads, not_modified FROM pages
  ON CONFLICT (page_id, at) DO UPDATE SET reads = stored.reads + EXCLUDED.reads,
    not_modified = stored.not_modified + EXCLUDED.not_modified`

/** Hot. */
const STORE = statement(`
  WITH report AS ( -- empty if the report was stored before
    INSERT INTO read_reports (process_id, number) VALUES (:processId::uuid, :number::bigint)
    ON CONFLICT (process_id) DO UPDATE SET number = EXCLUDED.number, reported_at = now()
    WHERE read_reports.number < EXCLUDED.number
    RETURNING number
  ), pages AS (
    SELECT page.id, counted.reads, counted.not_modified
    FROM report, unnest(:publicIds::text[], :reads::bigint[], :notModified::bigint[])
      AS counted (public_id, reads, not_modified)
    JOIN landing_pages page USING (public_id)
    ORDER BY page.id FOR KEY SHARE OF page SKIP LOCKED -- against deadlocks, and skips pages being deleted
  ), hourly AS (${add('landing_page_reads_hourly', ':hour')})
  ${add('landing_page_reads_daily', ':day')}`)

/**
 * Adds the counts of a report, without those of pages that don't exist any more. After an error, the same
 * report can be stored again: it is counted once.
 */
export async function storeReads (database: StatementRunner, report: ReadReport): Promise<void> {
  const { hour } = report
  await database.run(STORE, { ...report, hour: new Date(hour), day: new Date(hour - hour % DAY_MS) })
}

/** Returns the read counts of an owner's page, oldest first; undefined without such a page. */
export async function listReads (
  database: PrismaClient,
  userId: number,
  pageId: string,
  { per, first, last }: ReadCountRange
): Promise<ReadCount[] | undefined> {
  if (await database.landingPage.count({ where: { id: pageId, userId, deletedAt: null } }) === 0) {
    return undefined
  }
  const query = { where: { pageId, at: { gte: first, lte: last } } }
  const rows = per === 'hour' ? await database.landingPageReadsHourly.findMany(query)
    : await database.landingPageReadsDaily.findMany(query)
  const stored = new Map(rows.map((row) => [row.at.getTime(), row]))
  const counts: ReadCount[] = []
  for (let at = first.getTime(); at <= last.getTime(); at += STEP_MS[per]) {
    counts.push(stored.get(at) ?? { at: new Date(at), reads: 0n, notModified: 0n })
  }
  return counts
}

/**
 * Deletes old counts of all pages, in small batches, and the numbers of processes that no longer report.
 *
 * @param hoursSince hours that began before this time are deleted
 * @param daysSince days that began before this time are deleted
 * @returns the number of deleted counts
 */
export async function pruneReads (
  database: PrismaClient,
  { hoursSince, daysSince }: { hoursSince: Date, daysSince: Date },
  signal?: AbortSignal
): Promise<number> {
  const hours = await deleteOlder(database.landingPageReadsHourly, 'at', hoursSince, signal)
  const days = await deleteOlder(database.landingPageReadsDaily, 'at', daysSince, signal)
  await database.readReport.deleteMany({ where: { reportedAt: { lt: hoursSince } } })
  return hours + days
}
