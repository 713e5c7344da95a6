import type { Database } from '../../infra/postgres/database.ts'
import { OLDEST } from '../../http/pagination.ts'
import { statement } from '../../infra/postgres/statement.ts'

// All statements are prepared SQL, because a revision is a row of one of two tables: the current version is
// in landing_pages, the earlier ones are in landing_page_revisions. No list reads a document.

/** A version of a page, without its document. */
export interface Revision {
  readonly version: bigint
  readonly contentHash: string
  readonly byteSize: number
  readonly createdAt: Date
  readonly authorType: 'user' | 'api_key'
  readonly authorName: string
  readonly restoredFrom: bigint | null
}

/** The document of a version. */
export interface RevisionDocument {
  readonly document: string
  readonly contentHash: string
  readonly createdAt: Date
}

/** Greater than every version. A list without a cursor begins here. */
const NEWEST = 2n ** 63n - 1n

/** The page ($1) of an owner ($2). */
const OWN_PAGE = 'landing_pages WHERE id = $1::uuid AND user_id = $2::integer'

/** Of the current version in landing_pages. A version that an older release wrote is the owner's. */
export const AUTHORSHIP =
  `CASE WHEN authored_version = version THEN author_type ELSE 'user' END AS "authorType",
    CASE WHEN authored_version = version THEN author_name ELSE (SELECT email FROM users WHERE users.id = user_id) END
      AS "authorName",
    CASE WHEN authored_version = version THEN restored_from END AS "restoredFrom"`

const LIST = statement<Revision>(`
  SELECT version, content_hash AS "contentHash", octet_length(current_data) AS "byteSize", updated_at AS "createdAt",
    ${AUTHORSHIP}
  FROM ${OWN_PAGE} AND version < $3::bigint
  UNION ALL
  (SELECT version, content_hash, byte_size, created_at, author_type, author_name, restored_from
  FROM landing_page_revisions
  WHERE page_id = $1::uuid AND version < $3::bigint AND EXISTS (SELECT FROM ${OWN_PAGE})
  ORDER BY version DESC LIMIT $4::integer + 1)
  ORDER BY version DESC LIMIT $4::integer + 1`)

const FIND = statement<RevisionDocument>(`
  SELECT current_data AS document, content_hash AS "contentHash", updated_at AS "createdAt"
  FROM ${OWN_PAGE} AND version = $3::bigint
  UNION ALL
  SELECT document, content_hash, created_at FROM landing_page_revisions
  WHERE page_id = $1::uuid AND version = $3::bigint AND EXISTS (SELECT FROM ${OWN_PAGE})`)

/** How many earlier versions of a page are kept. All limits apply at once. */
export interface RevisionLimits {
  readonly maxCount: number
  readonly maxBytes: number
  /** Versions that were replaced before this time are removed; undefined for no limit. */
  readonly replacedSince: Date | undefined
}

/** Pages that one statement looks at. Each may have about a hundred versions. */
const PRUNED_PAGES = 100
/** Versions that one statement deletes. Each may have a megabyte. */
const PRUNED_VERSIONS = 100

/**
 * `expired` has the newest version of each page that is beyond a limit, as all older ones are. To find it, at
 * most $2 + 1 versions are read, so that a page with a million doesn't make the statement slow. A version was
 * replaced when the next newer one was written. The oldest are deleted first: without newer ones, they would
 * fit into $3. SKIP LOCKED, because the deletion of an account locks versions in another order. MATERIALIZED,
 * because a nested loop would run a subquery for each row.
 */
const PRUNE = statement<{ lastId: string | null, deleted: number }>(`
  WITH pages AS (
    SELECT id, updated_at FROM landing_pages WHERE id > $1::uuid ORDER BY id LIMIT ${PRUNED_PAGES}
  ), versions AS (
    SELECT id, version, row_number() OVER newest AS place, sum(byte_size) OVER newest AS bytes,
      lag(created_at, 1, updated_at) OVER newest AS replaced_at
    FROM pages CROSS JOIN LATERAL (
      SELECT version, byte_size, created_at FROM landing_page_revisions WHERE page_id = id
      ORDER BY version DESC LIMIT $2::bigint + 1
    ) revision
    WINDOW newest AS (PARTITION BY id ORDER BY version DESC ROWS UNBOUNDED PRECEDING)
  ), expired AS MATERIALIZED (
    SELECT id, max(version) AS newest FROM versions
    WHERE place > $2::bigint OR bytes > $3::bigint OR replaced_at < $4::timestamptz GROUP BY id
  ), oldest AS MATERIALIZED (
    SELECT id, version FROM expired CROSS JOIN LATERAL (
      SELECT version FROM landing_page_revisions WHERE page_id = id AND version <= newest
      ORDER BY version LIMIT ${PRUNED_VERSIONS}
    ) revision LIMIT ${PRUNED_VERSIONS}
  ), locked AS MATERIALIZED (
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

/** The versions of pages in PostgreSQL. All methods but prune() are one statement that checks the owner. */
export class RevisionRepository {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  /**
   * Lists versions, newest first.
   *
   * @param before only versions that are older than this one
   * @returns none if there is no such page; `hasMore` says whether older versions follow
   */
  async list (
    userId: number,
    id: string,
    { before = NEWEST, limit }: { before?: bigint | undefined, limit: number }
  ): Promise<{ revisions: Revision[], hasMore: boolean }> {
    const rows = await this.#database.run(LIST, [id, userId, before, limit])
    return { revisions: rows.slice(0, limit), hasMore: rows.length > limit }
  }

  /** Finds the document of a version. Returns null if there is no such page, or it hasn't this version. */
  async find (userId: number, id: string, version: bigint): Promise<RevisionDocument | null> {
    const rows = await this.#database.run(FIND, [id, userId, version])
    return rows[0] ?? null
  }

  /**
   * Deletes versions beyond the limits, of all owners' pages, in small batches.
   *
   * @returns the number of deleted versions
   */
  async prune ({ maxCount, maxBytes, replacedSince }: RevisionLimits, signal?: AbortSignal): Promise<number> {
    let sum = 0
    let after = OLDEST
    while (signal?.aborted !== true) {
      const [batch] = await this.#database.run(PRUNE, [after, maxCount, maxBytes, replacedSince ?? null])
      if (batch === undefined || batch.lastId === null) break
      sum += batch.deleted
      // After a full batch, the same pages may have more. Locked versions wait for the next hour.
      if (batch.deleted < PRUNED_VERSIONS) after = batch.lastId
    }
    return sum
  }
}
