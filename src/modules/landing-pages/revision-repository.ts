import type { Database } from '../../infra/postgres/database.ts'
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

const LIST = statement<Revision>(`
  SELECT version, content_hash AS "contentHash", octet_length(current_data) AS "byteSize", updated_at AS "createdAt",
    CASE WHEN authored_version = version THEN author_type ELSE 'user' END AS "authorType",
    CASE WHEN authored_version = version THEN author_name ELSE (SELECT email FROM users WHERE users.id = user_id) END
      AS "authorName",
    CASE WHEN authored_version = version THEN restored_from END AS "restoredFrom"
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

/** The versions of Landing Pages in PostgreSQL. Each method is one statement and checks the owner. */
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
}
