import type { LandingPageRevision, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { OLDEST } from '../../http/pagination.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'

// A revision is a row of one of two tables: the current version is in landing_pages, the earlier ones are in
// landing_page_revisions. A write moves a version from the first to the second, so reads look in that order.

/** A version of a page, without its document. */
export type Revision = Readonly<Omit<LandingPageRevision, 'pageId' | 'document' | 'authorType'>> & {
  readonly authorType: 'user' | 'api_key'
}

export type RevisionDocument = Pick<LandingPageRevision, 'document' | 'contentHash' | 'createdAt'>

const OWN_PAGE =
  'landing_pages WHERE id = :pageId::uuid AND user_id = :userId::integer AND deleted_at IS NULL'

/** Of the current version in landing_pages. A version that an older release wrote is the owner's. */
export const AUTHORSHIP =
  `CASE WHEN authored_version = version THEN author_type ELSE 'user' END AS "authorType",
    CASE WHEN authored_version = version THEN author_name ELSE (SELECT email FROM users WHERE users.id =
      user_id) END
      AS "authorName",
    CASE WHEN authored_version = version THEN restored_from END AS "restoredFrom"`

/** Of the current version in landing_pages. */
const SCHEDULED = 'coalesce(scheduled_version = version, false) AS scheduled'

/** What `keepSql` needs of a version in landing_pages. */
export const REPLACED =
  `id, version, current_data, content_hash, updated_at, published, deleted_at, ${AUTHORSHIP}, ${SCHEDULED}`

/**
 * Adds replaced versions to the history.
 *
 * @param replaced the part of the WITH that has them
 */
export const keepSql = (replaced: string): string =>
  `INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size, created_at,
      author_type, author_name, restored_from, published, scheduled)
    SELECT id, version, current_data, content_hash, octet_length(current_data), updated_at, "authorType",
      "authorName", "restoredFrom", published AND deleted_at IS NULL, scheduled
    FROM ${replaced}`

/** One statement: Prisma would read the current document to measure it. */
const LIST = statement<Revision>(`
  SELECT version, content_hash AS "contentHash", octet_length(current_data) AS "byteSize",
    updated_at AS "createdAt", ${AUTHORSHIP}, published, ${SCHEDULED}
  FROM ${OWN_PAGE} AND version < :before::bigint
  UNION ALL
  (SELECT version, content_hash, byte_size, created_at, author_type, author_name, restored_from,
    published, scheduled
  FROM landing_page_revisions
  WHERE page_id = :pageId::uuid AND version < :before::bigint AND EXISTS (SELECT FROM ${OWN_PAGE})
  ORDER BY version DESC LIMIT :limit::integer + 1)
  ORDER BY version DESC LIMIT :limit::integer + 1`)

/** How many earlier versions of a page are kept. All limits apply at once. */
export interface RevisionLimits {
  readonly maxCount: number
  readonly maxBytes: number
  /** Versions that were replaced before this time are removed; null for no limit. */
  readonly replacedSince: Date | null
}

/** Pages that one statement looks at. Each may have about a hundred versions. */
const PRUNED_PAGES = 100
/** Versions that one statement deletes. Each may have a megabyte. */
const PRUNED_VERSIONS = 100

// Prisma has no window functions, and can't skip locked rows. MATERIALIZED, because a nested loop would run a
// subquery for each row.
const PRUNE = statement<{ lastId: string | null, deleted: number }>(`
  WITH pages AS (
    SELECT id, updated_at FROM landing_pages WHERE id > :after::uuid ORDER BY id LIMIT ${PRUNED_PAGES}
  ), versions AS (
    SELECT id, version, row_number() OVER newest AS place, sum(byte_size) OVER newest AS bytes,
      lag(created_at, 1, updated_at) OVER newest AS replaced_at -- when the next newer one was written
    FROM pages CROSS JOIN LATERAL (
      SELECT version, byte_size, created_at FROM landing_page_revisions WHERE page_id = id
      ORDER BY version DESC LIMIT :maxCount::bigint + 1 -- so a page with a million takes no longer
    ) revision
    WINDOW newest AS (PARTITION BY id ORDER BY version DESC ROWS UNBOUNDED PRECEDING)
  ), expired AS MATERIALIZED ( -- the newest version beyond a limit; all older ones are, too
    SELECT id, max(version) AS newest FROM versions
    WHERE place > :maxCount::bigint OR bytes > :maxBytes::bigint OR replaced_at < :replacedSince::timestamptz
      GROUP BY id
  ), oldest AS MATERIALIZED ( -- these first: without newer ones, they would fit into the size
    SELECT id, version FROM expired CROSS JOIN LATERAL (
      SELECT version FROM landing_page_revisions WHERE page_id = id AND version <= newest
      ORDER BY version LIMIT ${PRUNED_VERSIONS}
    ) revision LIMIT ${PRUNED_VERSIONS}
  ), locked AS MATERIALIZED ( -- a deletion of the account locks versions in another order, so they are skipped
    SELECT page_id, revision.version FROM oldest
    JOIN landing_page_revisions revision ON page_id = id AND revision.version = oldest.version
    LIMIT ${PRUNED_VERSIONS} FOR UPDATE OF revision SKIP LOCKED
  ), deleted AS (
    DELETE FROM landing_page_revisions revision USING locked
    WHERE revision.page_id = locked.page_id AND revision.version = locked.version
    RETURNING 1
  )
  SELECT (SELECT id FROM pages ORDER BY id DESC LIMIT 1) AS "lastId",
    (SELECT count(*) FROM deleted)::integer AS deleted`)

/**
 * Lists versions, newest first: one more than `limit` if there are more.
 *
 * @param before only versions that are older than this one
 * @returns none if there is no such page
 */
export const listRevisions = async (
  database: StatementRunner,
  userId: number,
  pageId: string,
  { before, limit }: { readonly before: bigint, readonly limit: number }
): Promise<Revision[]> => await database.run(LIST, { pageId, userId, before, limit })

/** Finds the document of a version. Returns null if there is no such page, or it hasn't this version. */
export async function findRevision (
  database: PrismaClient,
  userId: number,
  pageId: string,
  version: bigint
): Promise<RevisionDocument | null> {
  // The table of revisions has only the older versions. A version moves there when it is replaced.
  const current = await database.landingPage.findFirst({
    where: { id: pageId, userId, deletedAt: null, version },
    select: { currentData: true, contentHash: true, updatedAt: true }
  })
  if (current !== null) {
    return { document: current.currentData, contentHash: current.contentHash, createdAt: current.updatedAt }
  }
  return await database.landingPageRevision.findFirst({
    where: { pageId, version, page: { userId, deletedAt: null } },
    select: { document: true, contentHash: true, createdAt: true }
  })
}

/**
 * Deletes versions beyond the limits, of all owners' pages, in small batches.
 *
 * @returns the number of deleted versions
 */
export async function pruneRevisions (
  database: StatementRunner,
  { maxCount, maxBytes, replacedSince }: RevisionLimits,
  signal?: AbortSignal
): Promise<number> {
  let sum = 0
  let after = OLDEST
  while (signal?.aborted !== true) {
    const [batch] = await database.run(PRUNE, { after, maxCount, maxBytes, replacedSince })
    if (batch === undefined || batch.lastId === null) break
    sum += batch.deleted
    // After a full batch, the same pages may have more. Locked versions wait for the next hour.
    if (batch.deleted < PRUNED_VERSIONS) after = batch.lastId
  }
  return sum
}
