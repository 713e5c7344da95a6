import { OLDEST } from '../../http/pagination.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'

// Storing is hot, so it is prepared SQL. So is the rest: Prisma can't fill gaps or delete in batches.

const DAY_MS = 24 * 60 * 60 * 1000

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
 * A report has no effect if its number isn't greater than the last one of its process. To avoid deadlocks,
 * pages are locked before their counts, by ascending id, and a page that is being deleted is skipped.
 */
const STORE = statement(`
  WITH report AS (
    INSERT INTO read_reports (process_id, number) VALUES ($1::uuid, $2::bigint)
    ON CONFLICT (process_id) DO UPDATE SET number = EXCLUDED.number, reported_at = now()
    WHERE read_reports.number < EXCLUDED.number
    RETURNING number
  ), pages AS (
    SELECT page.id, counted.reads, counted.not_modified
    FROM report, unnest($5::text[], $6::bigint[], $7::bigint[]) AS counted (public_id, reads, not_modified)
    JOIN landing_pages page USING (public_id)
    ORDER BY page.id FOR KEY SHARE OF page SKIP LOCKED
  ), hourly AS (${add('landing_page_reads_hourly', '$3')})
  ${add('landing_page_reads_daily', '$4')}`)

const list = (table: string, hours: number) =>
  statement<ReadCount>(`
  SELECT step.at, COALESCE(counted.reads, 0) AS reads, COALESCE(counted.not_modified, 0) AS "notModified"
  FROM landing_pages page
  CROSS JOIN generate_series($3::timestamptz, $4::timestamptz, interval '${hours} hours') AS step (at)
  LEFT JOIN ${table} counted ON counted.page_id = page.id AND counted.at = step.at
  WHERE page.id = $1::uuid AND page.user_id = $2::integer
  ORDER BY step.at`)

const LIST = {
  hour: list('landing_page_reads_hourly', 1),
  day: list('landing_page_reads_daily', 24) // a day has 24 hours in UTC
}

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
    DELETE FROM ${table} counted USING old_${name} old WHERE counted.page_id = old.page_id AND counted.at = old.at
    RETURNING 1
  )`

const PRUNE = statement<{ lastId: string | null, hours: number, days: number }>(`
  WITH pages AS (
    SELECT id FROM landing_pages WHERE id > $1::uuid ORDER BY id LIMIT ${PRUNED_PAGES}
  ), ${deleteOld('hourly', 'landing_page_reads_hourly', '$2')},
  ${deleteOld('daily', 'landing_page_reads_daily', '$3')}
  SELECT (SELECT id FROM pages ORDER BY id DESC LIMIT 1) AS "lastId",
    (SELECT count(*) FROM hourly)::integer AS hours, (SELECT count(*) FROM daily)::integer AS days`)

const PRUNE_REPORTS = statement(`
  DELETE FROM read_reports WHERE process_id IN (
    SELECT process_id FROM read_reports WHERE reported_at < $1::timestamptz FOR UPDATE SKIP LOCKED
  )`)

/** Read counts in PostgreSQL. */
export class ReadCountRepository {
  readonly #database: StatementRunner

  constructor (database: StatementRunner) {
    this.#database = database
  }

  /**
   * Adds the counts of a report, without those of pages that don't exist any more. After an error, the same
   * report can be stored again: it is counted once.
   */
  async store ({ processId, number, hour, publicIds, reads, notModified }: ReadReport): Promise<void> {
    const day = new Date(hour - hour % DAY_MS)
    await this.#database.run(STORE, [processId, number, new Date(hour), day, publicIds, reads, notModified])
  }

  /** Returns the read counts of an owner's page, oldest first; undefined without such a page. */
  async list (
    userId: number,
    id: string,
    { per, first, last }: ReadCountRange
  ): Promise<ReadCount[] | undefined> {
    const counts = await this.#database.run(LIST[per], [id, userId, first, last])
    return counts.length > 0 ? counts : undefined // a range has at least one hour or day
  }

  /**
   * Deletes old counts of all pages, in small batches, and the numbers of processes that no longer report.
   *
   * @param hoursSince hours that began before this time are deleted
   * @param daysSince days that began before this time are deleted
   * @returns the number of deleted counts
   */
  async prune (
    { hoursSince, daysSince }: { hoursSince: Date, daysSince: Date },
    signal?: AbortSignal
  ): Promise<number> {
    let sum = 0
    let after = OLDEST
    while (signal?.aborted !== true) {
      const [batch] = await this.#database.run(PRUNE, [after, hoursSince, daysSince])
      if (batch === undefined || batch.lastId === null) break
      sum += batch.hours + batch.days
      // After a full batch, the same pages may have more.
      if (batch.hours < PRUNED_COUNTS && batch.days < PRUNED_COUNTS) after = batch.lastId
    }
    await this.#database.run(PRUNE_REPORTS, [hoursSince])
    return sum
  }
}
