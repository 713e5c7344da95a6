import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/postgres/uuid.ts'
import { UnauthorizedError } from '../../errors.ts'
import { randomPublicId } from '../../infra/system/identifiers.ts'
import { NEWEST, type Page } from '../../http/pagination.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import { ownerSql, type Caller } from '../accounts/index.ts'
import type { WriteConditions } from './etag.ts'
import { AUTHORSHIP } from './revision-repository.ts'
import { findKeysOf, usedAssetsSql } from './uses/use-repository.ts'

// All statements are hot, so they are prepared SQL, which is two to three times as fast as Prisma's queries
// (`npm run bench:queries`). Prisma also has no conditional write that returns the row.

/** A Landing Page as it is stored. */
export interface LandingPage {
  readonly id: string
  readonly publicId: string
  /** The document's text, byte for byte as it was sent. */
  readonly currentData: string
  readonly contentHash: string
  readonly version: bigint
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** What the public read needs of a page. */
export type PublicPage = Pick<
  LandingPage,
  'publicId' | 'currentData' | 'contentHash' | 'version' | 'updatedAt'
>

/** A page for the public read, without its document if that is too large. */
export interface FoundPage extends Omit<PublicPage, 'currentData'> {
  readonly currentData: string | null
}

/** A list with more bytes of documents ends early, with a link to the rest. */
const MAX_LIST_BYTES = 512 * 1024

/** A page without its document, for writes, whose documents are known. */
type WrittenPage = Omit<LandingPage, 'currentData'>

const WRITTEN = `pages.id, public_id AS "publicId", pages.content_hash AS "contentHash", pages.version,
  created_at AS "createdAt", pages.updated_at AS "updatedAt"`
const RECORD = `${WRITTEN}, current_data AS "currentData"`
/** Everything that If-Match and If-None-Match may name a page by. */
const NAMES = "ARRAY['*', content_hash, content_hash || '.' || version]::text[]"
/** The page ($1) of an owner ($2) if its preconditions are true ($3 to $5, null if missing). */
const OWN_VERSION =
  `id = $1::uuid AND user_id = $2::integer AND ($3::text[] IS NULL OR $3::text[] && ${NAMES})
  AND ($4::text[] IS NULL OR NOT $4::text[] && ${NAMES})
  AND ($5::timestamptz IS NULL OR date_trunc('second', updated_at) <= $5::timestamptz)`

/** Stores which assets of the owner ($2) the document names, of the storage keys $9. */
const CREATE = statement<WrittenPage>(`
  INSERT INTO landing_pages AS pages (id, user_id, public_id, current_data, content_hash, created_at, updated_at,
    authored_version, author_type, author_name, used_assets, used_assets_version)
  SELECT $1::uuid, owner.id, $3, $4, $5, $6::timestamptz, $6::timestamptz, 1, $7, $8, used.ids, 1
  FROM (${ownerSql('$2::integer')}) owner, (${usedAssetsSql('$9', '$2')}) used
  RETURNING ${WRITTEN}`)

const FIND = statement<
  LandingPage
>(`SELECT ${RECORD} FROM landing_pages pages WHERE id = $1::uuid AND user_id = $2::integer`)

/** PostgreSQL knows the size of a text without reading it, so it reads only the documents that fit. */
const LIST = statement<Omit<LandingPage, 'currentData'> & { currentData: string | null }>(`
  SELECT id, "publicId", CASE WHEN place <= $3::integer AND (place = 1 OR bytes <= ${MAX_LIST_BYTES}) THEN "currentData" END AS "currentData",
    "contentHash", version, "createdAt", "updatedAt"
  FROM (
    SELECT *, row_number() OVER newest AS place, sum(octet_length("currentData")) OVER newest AS bytes
    FROM (
      SELECT ${RECORD} FROM landing_pages pages
      WHERE user_id = $1::integer AND id < $2::uuid
      ORDER BY id DESC LIMIT $3::integer + 1
    ) pages
    WINDOW newest AS (ORDER BY id DESC ROWS UNBOUNDED PRECEDING)
  ) measured
  ORDER BY id DESC`)

const CHANGES = {
  current_data: '$9',
  content_hash: '$10',
  version: 'pages.version + 1',
  // The clock of the replica that wrote last may be ahead.
  updated_at: 'GREATEST(pages.updated_at, $6::timestamptz)',
  authored_version: 'pages.version + 1',
  author_type: '$7',
  author_name: '$8',
  restored_from: '$12::bigint'
}
const unlessSame = (column: string, value: string): string =>
  `CASE WHEN pages.content_hash = $10 THEN pages.${column} ELSE ${value} END`

/**
 * A write keeps the version that it replaces (docs/adr/0020-revisions.md), and stores which assets of the
 * owner the document names, of the storage keys $11. The same bytes change nothing else.
 *
 * $6 is the current time, $7 and $8 are the type and the name of the author, $9 and $10 the document and its
 * hash, $12 the version that is restored, or null.
 */
const replaceSql = (used: string) =>
  statement<WrittenPage>(`
  WITH replaced AS (
    SELECT id, version, current_data, content_hash, updated_at, ${AUTHORSHIP}
    FROM landing_pages WHERE ${OWN_VERSION} FOR NO KEY UPDATE
  ), kept AS (
    INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size, created_at,
      author_type, author_name, restored_from)
    SELECT id, version, current_data, content_hash, octet_length(current_data), updated_at, "authorType",
      "authorName", "restoredFrom"
    FROM replaced WHERE content_hash <> $10
  ), used AS MATERIALIZED (${used})
  UPDATE landing_pages pages
  SET ${
    Object.entries(CHANGES).map(([column, value]) => `${column} = ${unlessSame(column, value)}`).join(', ')
  },
    used_assets = used.ids, used_assets_version = ${unlessSame('version', CHANGES.version)}
  FROM replaced, used WHERE pages.id = replaced.id
  RETURNING ${WRITTEN}`)

const REPLACE = replaceSql(usedAssetsSql('$11', '$2'))
/** For a document without keys: a plan without a look at the assets is some percent faster. */
const REPLACE_WITHOUT_KEYS = replaceSql('SELECT $11::uuid[] AS ids')

const DELETE = statement<
  Pick<LandingPage, 'publicId'>
>(`DELETE FROM landing_pages WHERE ${OWN_VERSION} RETURNING public_id AS "publicId"`)

/** Like LIST, it doesn't read documents that are too large ($2). */
const FIND_PUBLIC = statement<FoundPage>(`
  SELECT public_id AS "publicId", CASE WHEN octet_length(current_data) <= $2::integer THEN current_data END AS "currentData",
    content_hash AS "contentHash", version, updated_at AS "updatedAt"
  FROM landing_pages WHERE public_id = ANY ($1::text[])`)

const DELETE_OF_ANY_OWNER = statement<
  { id: string }
>('DELETE FROM landing_pages WHERE public_id = $1 RETURNING id')

/**
 * Locks in the order of ids, as the other statements that lock several pages do. Also returns pages that
 * another process is deleting: otherwise a batch that is gone would look like the end of the list.
 */
const DELETE_OF_USER = statement<Pick<LandingPage, 'publicId'>>(`
  WITH batch AS (
    SELECT id, public_id FROM landing_pages WHERE user_id = $1::integer ORDER BY id LIMIT $2::integer
  ), locked AS (
    SELECT pages.id FROM landing_pages pages JOIN batch ON pages.id = batch.id
    ORDER BY pages.id FOR UPDATE OF pages
  ), deleted AS (
    DELETE FROM landing_pages pages USING locked WHERE pages.id = locked.id
  )
  SELECT public_id AS "publicId" FROM batch`)

const parametersOf = ({ ifMatch, ifNoneMatch, unmodifiedSince }: WriteConditions) =>
  [ifMatch, ifNoneMatch, unmodifiedSince] as const

/** The owner of a page, and who is named as the author of the new version. */
export type Writer = Pick<Caller, 'userId' | 'author'>

/**
 * Landing Pages in PostgreSQL. Each method is one statement, unless a document has thousands of words that
 * look like storage keys. All but findPublic() check the owner.
 */
export class LandingPageRepository {
  readonly #database: Database

  constructor (database: Database) {
    this.#database = database
  }

  /** @throws {UnauthorizedError} when the user has been deleted in the meantime */
  async create ({ userId, author }: Writer, document: string): Promise<LandingPage> {
    const keys = await findKeysOf(this.#database, userId, document)
    const rows = await this.#database.run(CREATE, [uuidv7(), userId, randomPublicId(), document,
      contentHash(document), new Date(), author.type, author.name, keys])
    if (rows[0] === undefined) throw new UnauthorizedError()
    return { ...rows[0], currentData: document }
  }

  async find (userId: number, id: string): Promise<LandingPage | null> {
    const rows = await this.#database.run(FIND, [id, userId])
    return rows[0] ?? null
  }

  /**
   * Lists pages, newest first. Returns fewer than `limit` pages if the documents are large. `nextBefore` is
   * the `before` of the next list; it is undefined when there are no more pages.
   */
  async list (
    userId: number,
    { before = NEWEST, limit }: Page
  ): Promise<{ pages: LandingPage[], nextBefore: string | undefined }> {
    const rows = await this.#database.run(LIST, [userId, before, limit])
    const pages = rows.filter((row): row is LandingPage => row.currentData !== null)
    return { pages, nextBefore: pages.length < rows.length ? pages.at(-1)?.id : undefined }
  }

  /**
   * Replaces the document. The same bytes change nothing. Returns null when there is no such page, or a
   * condition is false.
   *
   * @param restoredFrom the version that the document is from, if it is restored
   */
  async replace (
    { userId, author }: Writer,
    id: string,
    document: string,
    conditions: WriteConditions,
    restoredFrom?: bigint
  ): Promise<LandingPage | null> {
    const keys = await findKeysOf(this.#database, userId, document)
    const rows = await this.#database.run(keys.length === 0 ? REPLACE_WITHOUT_KEYS : REPLACE, [id, userId,
      ...parametersOf(conditions), new Date(), author.type, author.name, document, contentHash(document),
      keys, restoredFrom ?? null])
    return rows[0] === undefined ? null : { ...rows[0], currentData: document }
  }

  /** Deletes the page and returns its public id. Returns null in the same cases as replace(). */
  async delete (userId: number, id: string, conditions: WriteConditions): Promise<string | null> {
    const rows = await this.#database.run(DELETE, [id, userId, ...parametersOf(conditions)])
    return rows[0]?.publicId ?? null
  }

  /**
   * Finds pages of any owners, for the public read. The result has no order, and no pages that don't exist.
   *
   * @param maxBytes `currentData` of a larger document is null
   */
  async findPublic (publicIds: readonly string[], maxBytes: number): Promise<FoundPage[]> {
    return await this.#database.run(FIND_PUBLIC, [publicIds, maxBytes])
  }
}

/** Deletes the page of any owner, for the command line. @returns its id; undefined when there is none */
export async function deletePage (database: StatementRunner, publicId: string): Promise<string | undefined> {
  const rows = await database.run(DELETE_OF_ANY_OWNER, [publicId])
  return rows[0]?.id
}

/**
 * Deletes pages of a user, for the deletion of the account. The caller must publish the deletions.
 *
 * @returns the public ids; fewer than `limit` when there are no more pages
 */
export async function deletePagesOf (
  database: StatementRunner,
  userId: number,
  limit: number
): Promise<string[]> {
  return (await database.run(DELETE_OF_USER, [userId, limit])).map(({ publicId }) => publicId)
}
