import { NEWEST, type Page } from '../../http/pagination.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'

/** A page without its document, and how often it is read. */
export interface PageSummary {
  readonly id: string
  readonly publicId: string
  /** The first characters of the document. */
  readonly start: string
  readonly byteSize: number
  readonly version: bigint
  readonly createdAt: Date
  readonly updatedAt: Date
  /** Hours with reads. */
  readonly hours: readonly Date[]
  /** The reads in each of these hours, with 304s. */
  readonly reads: readonly number[]
}

/** Characters of a document that are read. PostgreSQL reads no more of a large one from the disk. */
export const START_LENGTH = 16 * 1024

/** Prisma can't measure documents, nor read their beginnings. */
const LIST = statement<PageSummary>(`
  SELECT id, public_id AS "publicId", left(current_data, ${START_LENGTH}) AS start,
    octet_length(current_data) AS "byteSize", version, created_at AS "createdAt", updated_at AS "updatedAt",
    counted.hours, counted.reads
  FROM landing_pages page
  CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(at), '{}') AS hours,
      coalesce(array_agg((reads + not_modified)::double precision), '{}') AS reads
    FROM landing_page_reads_hourly
    WHERE page_id = page.id AND at BETWEEN :first::timestamptz AND :last::timestamptz
  ) counted
  WHERE user_id = :userId::integer AND id < :before::uuid
  ORDER BY id DESC LIMIT :limit::integer + 1`)

/** Hours (UTC), from the start of the first to the start of the last one. */
export interface Hours {
  readonly first: Date
  readonly last: Date
}

/**
 * Lists an owner's pages, newest first, and one more if there is a next part. `hours` are those whose reads
 * are counted.
 */
export const listSummaries = async (
  database: StatementRunner,
  userId: number,
  { before = NEWEST, limit }: Page,
  hours: Hours
): Promise<PageSummary[]> => await database.run(LIST, { userId, before, limit, ...hours })
