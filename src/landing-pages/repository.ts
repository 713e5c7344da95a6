import type { Database } from '../database/client.ts'
import { statement } from '../database/statement.ts'
import { uuidv7 } from '../database/uuid.ts'
import { UnauthorizedError } from '../errors.ts'
import { randomPublicId } from '../identifiers.ts'
import type { Page } from '../pagination.ts'
import { contentHash } from './document.ts'
import type { TagList } from './etag.ts'

/** A Landing Page as it is stored. */
export interface LandingPage {
  readonly id: string
  readonly publicId: string
  /** The document's text, as it was sent. */
  readonly currentData: string
  readonly contentHash: string
  readonly version: bigint
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** A list answers with whole documents; past this many bytes of them it ends early, with a link to the rest. */
const MAX_LIST_BYTES = 2 * 1024 * 1024

/** Newer than every page: where a list begins. */
const NEWEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const RECORD = `id, public_id AS "publicId", current_data AS "currentData", content_hash AS "contentHash", version,
  created_at AS "createdAt", updated_at AS "updatedAt"`
/** Whose page it must be, and which of its versions when there is an If-Match. */
const OWN_VERSION = 'id = $1::uuid AND user_id = $2::integer AND ($3::text[] IS NULL OR content_hash = ANY ($3::text[]))'

const CREATE = statement<LandingPage>(`
  INSERT INTO landing_pages (id, user_id, public_id, current_data, content_hash, created_at, updated_at)
  VALUES ($1::uuid, $2::integer, $3, $4, $5, $6::timestamptz, $6::timestamptz)
  RETURNING ${RECORD}`)

const FIND = statement<LandingPage>(`SELECT ${RECORD} FROM landing_pages WHERE id = $1::uuid AND user_id = $2::integer`)

/** The size of a text is known without reading it, so that only the documents that fit are read. */
const LIST = statement<Omit<LandingPage, 'currentData'> & { currentData: string | null }>(`
  SELECT id, "publicId", CASE WHEN place <= $3::integer AND (place = 1 OR bytes <= ${MAX_LIST_BYTES}) THEN "currentData" END AS "currentData",
    "contentHash", version, "createdAt", "updatedAt"
  FROM (
    SELECT *, row_number() OVER newest AS place, sum(octet_length("currentData")) OVER newest AS bytes
    FROM (
      SELECT ${RECORD} FROM landing_pages
      WHERE user_id = $1::integer AND id < $2::uuid
      ORDER BY id DESC LIMIT $3::integer + 1
    ) pages
    WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
  ) measured
  ORDER BY id DESC`)

/** The time never goes back, nor before created_at: another replica's clock may be ahead of this one's. */
const REPLACE = statement<LandingPage>(`
  UPDATE landing_pages SET current_data = $4, content_hash = $5, version = version + 1, updated_at = GREATEST(updated_at, $6::timestamptz)
  WHERE ${OWN_VERSION}
  RETURNING ${RECORD}`)

const DELETE = statement<Pick<LandingPage, 'publicId'>>(`DELETE FROM landing_pages WHERE ${OWN_VERSION} RETURNING public_id AS "publicId"`)

const FIND_PUBLIC = statement<Pick<LandingPage, 'currentData' | 'contentHash' | 'version' | 'updatedAt'>>(`
  SELECT current_data AS "currentData", content_hash AS "contentHash", version, updated_at AS "updatedAt"
  FROM landing_pages WHERE public_id = $1`)

/** SQLSTATE of a foreign key that names nothing; a page has one. */
const NO_SUCH_USER = '23503'

/** The hashes that If-Match restricts a write to; null when any version of the page will do. */
const requiredHashes = (ifMatch: TagList | undefined): string[] | null =>
  ifMatch === undefined || ifMatch === '*' ? null : [...ifMatch]

/** Landing Pages in PostgreSQL, each call one statement. The owner is part of all of them but the public read. */
export class LandingPageRepository {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  /** @throws {UnauthorizedError} when the user has been deleted meanwhile */
  async create (userId: number, document: string): Promise<LandingPage> {
    try {
      const rows = await this.#database.run(CREATE, [uuidv7(), userId, randomPublicId(), document, contentHash(document), new Date()])
      return rows[0] as LandingPage
    } catch (error) {
      if ((error as { code?: unknown }).code === NO_SUCH_USER) throw new UnauthorizedError({ cause: error })
      throw error
    }
  }

  async find (userId: number, id: string): Promise<LandingPage | null> {
    const rows = await this.#database.run(FIND, [id, userId])
    return rows[0] ?? null
  }

  /**
   * Newest first, and fewer than asked for when the documents are large. `nextBefore` is where the next list goes on,
   * undefined when nothing older is left.
   */
  async list (userId: number, { before = NEWEST, limit }: Page): Promise<{ pages: LandingPage[], nextBefore: string | undefined }> {
    const rows = await this.#database.run(LIST, [userId, before, limit])
    const pages = rows.filter((row): row is LandingPage => row.currentData !== null)
    return { pages, nextBefore: pages.length < rows.length ? pages.at(-1)?.id : undefined }
  }

  /** Replaces the document. Null when there is no such page, or none of the versions that If-Match names. */
  async replace (userId: number, id: string, document: string, ifMatch: TagList | undefined): Promise<LandingPage | null> {
    const rows = await this.#database.run(REPLACE, [id, userId, requiredHashes(ifMatch), document, contentHash(document), new Date()])
    return rows[0] ?? null
  }

  /** Deletes the page and gives its public id; null as with replace(). */
  async delete (userId: number, id: string, ifMatch: TagList | undefined): Promise<string | null> {
    const rows = await this.#database.run(DELETE, [id, userId, requiredHashes(ifMatch)])
    return rows[0]?.publicId ?? null
  }

  /** Any owner's page, for the public read. */
  async findPublic (publicId: string): Promise<Pick<LandingPage, 'currentData' | 'contentHash' | 'version' | 'updatedAt'> | null> {
    const rows = await this.#database.run(FIND_PUBLIC, [publicId])
    return rows[0] ?? null
  }
}
