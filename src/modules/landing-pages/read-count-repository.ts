import { OLDEST } from '../../http/pagination.ts'
import type { Database } from '../../infra/postgres/database.ts'
import type { PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
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

/** The reads of a page in an hour or on a day. */
export interface ReadCount {
  /** The start of the hour or day (UTC). */
  readonly at: Date
  readonly reads: bigint
  readonly notModified: bigint
}

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

/**
 * Hot. A report has no effect if its number isn't greater than the last one of its process. To avoid
 * deadlocks, pages are locked before their counts, by ascending id, and pages that are being deleted are
 * skipped.
 */
const STORE = statement(`
  WITH report AS (
    INSERT INTO read_reports (process_id, number) VALUES (:processId::uuid, :number::bigint)
    ON CONFLICT (process_id) DO UPDATE SET number = EXCLUDED.number, reported_at = now()
    WHERE read_reports.number < EXCLUDED.number
    RETURNING number
  ), pages AS (
    SELECT page.id, counted.reads, counted.not_modified
    FROM report, unnest(:publicIds::text[], :reads::bigint[], :notModified::bigint[])
      AS counted (public_id, reads, not_modified)
    JOIN landing_pages page USING (public_id)
    ORDER BY page.id FOR KEY SHARE OF page SKIP LOCKED
  ), hourly AS (${add('landing_page_reads_hourly', ':hour')})
  ${add('landing_page_reads_daily', ':day')}`)

/** Pages that one statement looks at. Most have one hour and one day to delete. */
const PRUNED_PAGES = 1000
/** Counts of each table that one statement deletes. */
const PRUNED_COUNTS = 1000

/**
 * Rows that are locked are left for the next time, so it never waits for a deletion, nor in a deadlock.
 * MATERIALIZED, because a nested loop would run the subquery for each row.
 */
const deleteOld = (name: string, table: string, since: string) => `
  old_${name} AS MATERIALIZED (
    SELECT page_id, at FROM pages JOIN ${table} ON page_id = id WHERE at < ${since}::timestamptz
    LIMIT ${PRUNED_COUNTS} FOR UPDATE OF ${table} SKIP LOCKED
  ), ${name} AS (
    DELETE FROM ${table} counted USING old_${name} old WHERE counted.page_id = old.page_id AND counted.at =
      old.at
    RETURNING 1
  )`

/** Prisma can neither skip locked rows nor limit what it deletes. */
const PRUNE = statement<{ lastId: string | null, hours: number, days: number }>(`
  WITH pages AS (
    SELECT id FROM landing_pages WHERE id > :after::uuid ORDER BY id LIMIT ${PRUNED_PAGES}
  ), ${deleteOld('hourly', 'landing_page_reads_hourly', ':hoursSince')},
  ${deleteOld('daily', 'landing_page_reads_daily', ':daysSince')}
  SELECT (SELECT id FROM pages ORDER BY id DESC LIMIT 1) AS "lastId",
    (SELECT count(*) FROM hourly)::integer AS hours, (SELECT count(*) FROM daily)::integer AS days`)

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
  if (await database.landingPage.count({ where: { id: pageId, userId } }) === 0) return undefined
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
  database: Database,
  { hoursSince, daysSince }: { hoursSince: Date, daysSince: Date },
  signal?: AbortSignal
): Promise<number> {
  let sum = 0
  let after = OLDEST
  while (signal?.aborted !== true) {
    const [batch] = await database.run(PRUNE, { after, hoursSince, daysSince })
    if (batch === undefined || batch.lastId === null) break
    sum += batch.hours + batch.days
    // After a full batch, the same pages may have more.
    if (batch.hours < PRUNED_COUNTS && batch.days < PRUNED_COUNTS) after = batch.lastId
  }
  await database.readReport.deleteMany({ where: { reportedAt: { lt: hoursSince } } })
  return sum
}
