import { unlessMissing, type Database } from '../../infra/postgres/database.ts'
import type { LandingPage as PageRow, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7, randomPublicId } from '../../infra/system/identifiers.ts'
import { UnauthorizedError } from '../../errors.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import { ownerSql, type Caller } from '../accounts/index.ts'
import type { WriteConditions } from './etag.ts'
import { AUTHORSHIP } from './revision-repository.ts'
import { labelOf, summarySql } from './summary-sql.ts'
import { findKeysOf, REFERENCED_ASSETS } from './references/reference-repository.ts'

/** A Landing Page as it is stored. `currentData` is the document's text, byte for byte as it was sent. */
export type LandingPage = Readonly<
  Pick<PageRow, 'id' | 'publicId' | 'currentData' | 'contentHash' | 'version' | 'createdAt' | 'updatedAt'>
>

/** What the public read needs of a page. */
export type PublicPage = Pick<
  LandingPage,
  'publicId' | 'currentData' | 'contentHash' | 'version' | 'updatedAt'
>

/** A page for the public read, without its document if that is too large. */
export interface FoundPage extends Omit<PublicPage, 'currentData'> {
  readonly currentData: string | null
}

/** A page without its document, for writes, whose documents are known. */
type WrittenPage = Omit<LandingPage, 'currentData'>

const WRITTEN = `pages.id, public_id AS "publicId", pages.content_hash AS "contentHash", pages.version,
  created_at AS "createdAt", pages.updated_at AS "updatedAt"`
/** Everything that If-Match and If-None-Match may name a page by. */
const NAMES = "ARRAY['*', content_hash, content_hash || '.' || version]::text[]"
/** A page of an owner, if the preconditions are true. They are null if missing. */
const OWN_VERSION =
  `id = :id::uuid AND user_id = :userId::integer AND (:ifMatch::text[] IS NULL OR :ifMatch::text[] && ${NAMES})
  AND (:ifNoneMatch::text[] IS NULL OR NOT :ifNoneMatch::text[] && ${NAMES})
  AND (:unmodifiedSince::timestamptz IS NULL OR date_trunc('second', updated_at) <= :unmodifiedSince::timestamptz)`

/** Hot. Also stores which assets of the owner the document names, and the summary. */
const CREATE = statement<WrittenPage>(`
  WITH created AS (
    INSERT INTO landing_pages AS pages (id, user_id, public_id, current_data, content_hash, created_at,
      updated_at, authored_version, author_type, author_name, used_assets, used_assets_version,
      indexed_version)
    SELECT :id::uuid, owner.id, :publicId, :document, :contentHash, :now::timestamptz, :now::timestamptz,
      1, :authorType, :authorName, used.ids, 1, 1
    FROM (${ownerSql(':userId::integer')}) owner, (${REFERENCED_ASSETS}) used
    RETURNING ${WRITTEN}
  ), ${summarySql('created', { pageId: 'id', publicId: '"publicId"', updatedAt: '"updatedAt"' })}
  SELECT id, "publicId", "contentHash", version, "createdAt", "updatedAt" FROM created`)

const CHANGES = {
  current_data: ':document',
  content_hash: ':contentHash',
  version: 'pages.version + 1',
  // The clock of the replica that wrote last may be ahead.
  updated_at: 'GREATEST(pages.updated_at, :now::timestamptz)',
  authored_version: 'pages.version + 1',
  author_type: ':authorType',
  author_name: ':authorName',
  restored_from: ':restoredFrom::bigint'
}
const unlessSame = (column: string, value: string): string =>
  `CASE WHEN pages.content_hash = :contentHash THEN pages.${column} ELSE ${value} END`

/**
 * A write keeps the version that it replaces (docs/adr/0020-revisions.md), and stores which assets of the
 * owner the document names. The same bytes change nothing else.
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
    FROM replaced WHERE content_hash <> :contentHash
  ), used AS MATERIALIZED (${used}), written AS (
    UPDATE landing_pages pages
    SET ${
    Object.entries(CHANGES).map(([column, value]) => `${column} = ${unlessSame(column, value)}`).join(', ')
  },
      used_assets = used.ids, used_assets_version = ${unlessSame('version', CHANGES.version)},
      indexed_version = ${unlessSame('version', CHANGES.version)}
    FROM replaced, used WHERE pages.id = replaced.id
    RETURNING ${WRITTEN}
  ), ${summarySql('written', { pageId: 'id', publicId: '"publicId"', updatedAt: '"updatedAt"' })}
  SELECT id, "publicId", "contentHash", version, "createdAt", "updatedAt" FROM written`)

/** Hot. */
const REPLACE = replaceSql(REFERENCED_ASSETS)
/** Hot: without keys, a plan without a look at the assets takes two thirds of the time. */
const REPLACE_WITHOUT_KEYS = replaceSql("SELECT '{}'::uuid[] AS ids")

/** Hot. PostgreSQL knows the size of a document without reading it, so it reads none that is too large. */
const FIND_PUBLIC = statement<FoundPage>(`
  SELECT public_id AS "publicId",
    CASE WHEN octet_length(current_data) <= :maxBytes::integer THEN current_data END AS "currentData",
    content_hash AS "contentHash", version, updated_at AS "updatedAt"
  FROM landing_pages WHERE public_id = ANY (:publicIds::text[])
    AND NOT EXISTS (SELECT FROM account_deletions deletion WHERE deletion.user_id = landing_pages.user_id)`)

/** For the command line. `ORDER BY user_id, id` makes PostgreSQL use the index of both. */
const LIST_OF_USER = statement<Pick<LandingPage, 'id' | 'publicId'>>(`
  SELECT id, public_id AS "publicId" FROM landing_pages
  WHERE user_id = :userId::integer AND id > :after::uuid ORDER BY user_id, id LIMIT :limit::integer`)

/** For the command line. Locks in the order of ids, as the other statements that lock several pages do. */
const DELETE_PAGES = statement<{ id: string }>(`
  WITH locked AS (
    SELECT id FROM landing_pages WHERE id = ANY (:ids::uuid[]) OR public_id = :publicId ORDER BY id FOR UPDATE
  )
  DELETE FROM landing_pages pages USING locked WHERE pages.id = locked.id RETURNING pages.id`)

/** The owner of a page, and who is named as the author of the new version. */
export type Writer = Pick<Caller, 'userId' | 'author'>

/** @throws {UnauthorizedError} when the user has been deleted in the meantime */
export async function createPage (
  database: Database,
  { userId, author }: Writer,
  document: string
): Promise<LandingPage> {
  const [page] = await database.run(CREATE, {
    id: uuidv7(),
    userId,
    publicId: randomPublicId(),
    ...writtenValues(author, document),
    keys: await findKeysOf(database, userId, document)
  })
  if (page === undefined) throw new UnauthorizedError()
  return { ...page, currentData: document }
}

const writtenValues = (author: Caller['author'], document: string) => ({
  document,
  contentHash: contentHash(document),
  label: labelOf(document),
  now: new Date(),
  authorType: author.type,
  authorName: author.name
})

export const findPage = async (
  database: PrismaClient,
  userId: number,
  id: string
): Promise<LandingPage | null> =>
  await database.landingPage.findFirst({ where: { id, userId }, omit: { usedAssets: true } })

/**
 * Replaces the document. The same bytes change nothing. Returns null when there is no such page, or a
 * condition is false.
 *
 * @param restoredFrom the version that the document is from, if it is restored
 */
export async function replacePage (
  database: Database,
  { userId, author }: Writer,
  id: string,
  document: string,
  conditions: WriteConditions,
  restoredFrom?: bigint
): Promise<LandingPage | null> {
  const keys = await findKeysOf(database, userId, document)
  const [page] = await database.run(keys.length === 0 ? REPLACE_WITHOUT_KEYS : REPLACE, {
    id,
    userId,
    ...conditions,
    ...writtenValues(author, document),
    restoredFrom: restoredFrom ?? null,
    keys
  })
  return page === undefined ? null : { ...page, currentData: document }
}

/** Deletes a page and returns its public id. Returns null in the same cases as replacePage(). */
export async function deletePage (
  database: PrismaClient,
  userId: number,
  id: string,
  { ifMatch, ifNoneMatch, unmodifiedSince }: WriteConditions
): Promise<string | null> {
  const conditions = [
    ...ifMatch === null ? [] : [isNamedBy(ifMatch)],
    ...ifNoneMatch === null ? [] : [{ NOT: isNamedBy(ifNoneMatch) }],
    ...unmodifiedSince === null ? [] : [{ updatedAt: { lt: new Date(unmodifiedSince.getTime() + 1000) } }]
  ]
  const where = { id, userId, AND: conditions }
  const page = await unlessMissing(database.landingPage.delete({ where, select: { publicId: true } }))
  return page?.publicId ?? null
}

/** A condition of Prisma: a page has one of these tags. No page has an empty one. */
const isNamedBy = (tags: readonly string[]) => ({
  // Prisma ignores an empty OR, and empty objects in it.
  OR: ['', ...tags].map((tag) => {
    if (tag === '*') return { contentHash: { not: '' } }
    const [contentHash = '', version] = tag.split('.')
    return { contentHash, ...version !== undefined && { version: BigInt(version) } }
  })
})

/**
 * Finds pages of any owners, for the public read. The result has no order, and no pages that don't exist.
 *
 * @param maxBytes `currentData` of a larger document is null
 */
export const findPublicPages = async (
  database: StatementRunner,
  publicIds: readonly string[],
  maxBytes: number
): Promise<FoundPage[]> => await database.run(FIND_PUBLIC, { publicIds, maxBytes })

/** Deletes the page of any owner, for the command line. @returns its id; undefined when there is none */
export const deleteAnyPage = async (
  database: StatementRunner,
  publicId: string
): Promise<string | undefined> => (await database.run(DELETE_PAGES, { ids: [], publicId }))[0]?.id

/** Lists pages of a user for the deletion of the account, the oldest first, those after an id. */
export const listPagesOf = async (
  database: StatementRunner,
  userId: number,
  after: string,
  limit: number
): Promise<Pick<LandingPage, 'id' | 'publicId'>[]> =>
  await database.run(LIST_OF_USER, { userId, after, limit })

/** Deletes pages. The caller must publish the deletions. */
export async function deletePages (database: StatementRunner, ids: readonly string[]): Promise<void> {
  await database.run(DELETE_PAGES, { ids, publicId: null })
}
