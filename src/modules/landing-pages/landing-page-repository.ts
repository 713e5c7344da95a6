import type { Database } from '../../infra/postgres/database.ts'
import type { LandingPage as PageRow, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { isUniqueViolation, statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7, randomPublicId } from '../../infra/system/identifiers.ts'
import { InvalidError, UnauthorizedError } from '../../errors.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import { ownerSql, type Caller } from '../accounts/index.ts'
import type { WriteConditions } from './etag.ts'
import type { Queued } from './outbox/outbox-repository.ts'
import { queueSql, QUEUED_KEYS, stateSql, type QueueOptions } from './outbox/outbox-sql.ts'
import { keepSql, REPLACED } from './revision-repository.ts'
import { isDueSql, SCHEDULED_VERSION } from './schedule-sql.ts'
import { labelOf, summarySql } from './summary-sql.ts'
import { findKeysOf, REFERENCED_ASSETS } from './references/reference-repository.ts'

/** A Landing Page as it is stored. `currentData` is the document's text, byte for byte as it was sent. */
export type LandingPage = Readonly<
  Pick<
    PageRow,
    | 'id'
    | 'publicId'
    | 'currentData'
    | 'contentHash'
    | 'version'
    | 'published'
    | 'key'
    | 'keyChangedAt'
    | 'createdAt'
    | 'updatedAt'
  >
>

/** The key of a new page is another page's. */
export class KeyTakenError extends InvalidError {}

/** What the public read needs of a page. */
export type PublicPage = Pick<
  LandingPage,
  'publicId' | 'currentData' | 'contentHash' | 'version' | 'published' | 'updatedAt'
>

/** A page for the public read, without its document if that is too large, or if readers don't get it. */
export interface FoundPage extends Omit<PublicPage, 'currentData'> {
  readonly currentData: string | null
}

/** A page after a write, with the messages that were queued about it. */
export type WrittenPage = LandingPage & Queued
/** For writes whose documents are known. */
type WrittenRow = Omit<WrittenPage, 'currentData'>

const WRITTEN = `pages.id, public_id AS "publicId", pages.content_hash AS "contentHash", pages.version,
  pages.published, pages.key, pages.key_changed_at AS "keyChangedAt", created_at AS "createdAt",
  pages.updated_at AS "updatedAt"`
/** The columns of a part of a WITH that returns WRITTEN. */
const RETURNED =
  'id, "publicId", "contentHash", version, published, key, "keyChangedAt", "createdAt", "updatedAt"'
/** Of a part of a WITH that returns WRITTEN. */
const SUMMARY = { pageId: 'id', publicId: '"publicId"', updatedAt: 'GREATEST("updatedAt", "keyChangedAt")' }
/** Everything that If-Match and If-None-Match may name a page by. etag.ts makes the same tag of a record. */
const NAMES = `ARRAY['*', content_hash, content_hash || '.' || version ||
  coalesce('.' || round(extract(epoch FROM key_changed_at) * 1000), '')]::text[]`
/** A page of an owner, if the preconditions are true. They are null if missing. */
const OWN_VERSION =
  `id = :id::uuid AND user_id = :userId::integer AND (:ifMatch::text[] IS NULL OR :ifMatch::text[] && ${NAMES})
  AND (:ifNoneMatch::text[] IS NULL OR NOT :ifNoneMatch::text[] && ${NAMES})
  AND (:unmodifiedSince::timestamptz IS NULL
    OR date_trunc('second', GREATEST(updated_at, key_changed_at)) <= :unmodifiedSince::timestamptz)`
/** What a message says about the version that the caller has written. */
const CHANGE =
  `:userId::integer AS "userId", id, "publicId", version, "contentHash", :authorType AS "authorType",
  :authorName AS "authorName"`
const OWN_LIVE_VERSION = `deleted_at IS NULL AND ${OWN_VERSION}`

/** Hot. Also stores which assets of the owner the document names, and the summary. */
const CREATE = statement<WrittenRow>(`
  WITH created AS (
    INSERT INTO landing_pages AS pages (id, user_id, public_id, current_data, content_hash, published, key, created_at,
      updated_at, authored_version, author_type, author_name, used_assets, used_assets_version,
      indexed_version)
    SELECT :id::uuid, owner.id, :publicId, :document, :contentHash, :published::boolean, :key,
      now(), now(), 1, :authorType, :authorName, used.ids, 1, 1
    FROM (${ownerSql(':userId::integer')}) owner, (${REFERENCED_ASSETS}) used
    RETURNING ${WRITTEN}
  ), ${summarySql('created', SUMMARY)},
  ${queueSql(`SELECT 'page.published' AS type, ${CHANGE} FROM created WHERE published`)}
  SELECT ${RETURNED}, ${QUEUED_KEYS} FROM created`)

const CHANGES = {
  current_data: ':document',
  content_hash: ':contentHash',
  version: 'pages.version + 1',
  // The clock of PostgreSQL, or of the process if an older release wrote last, may have been ahead.
  updated_at: 'GREATEST(pages.updated_at, pages.key_changed_at, now())',
  authored_version: 'pages.version + 1',
  author_type: ':authorType',
  author_name: ':authorName',
  restored_from: ':restoredFrom::bigint'
}
/** Another key changes only the record, which no reader gets: not the version, nor when it was written. */
const CHANGED_KEY = `key = :key, key_changed_at = CASE WHEN pages.key IS NOT DISTINCT FROM :key
        THEN pages.key_changed_at
        ELSE GREATEST(now(), GREATEST(pages.updated_at, pages.key_changed_at) + interval '1 ms') END,`
/** The draft, if it is still the document. Statements lock a page, then its schedule, then its draft. */
const TAKEN_DRAFT = `taken AS (
    DELETE FROM landing_page_drafts USING replaced
    WHERE page_id = replaced.id AND landing_page_drafts.content_hash = :contentHash
      AND ${isDueSql('replaced.id', 'true')}
    RETURNING page_id
  ), `

/**
 * A write keeps the version that it replaces (docs/adr/0020-revisions.md), and stores which assets of the
 * owner the document names. The same bytes change nothing else.
 *
 * @param used a subquery with the `ids` of the assets that the document names
 * @param publishes whether the document is the draft, which is taken away, and the page is published
 * @param setsKey whether the key is replaced, too
 */
const replaceSql = (used: string, { publishes = false, setsKey = false } = {}) => {
  const isSame = `pages.content_hash = :contentHash${publishes ? ' AND pages.published' : ''}`
  const isTaken = publishes ? ' AND EXISTS (SELECT FROM taken)' : ''
  const unlessSame = (column: string, value: string): string =>
    `CASE WHEN ${isSame} THEN pages.${column} ELSE ${value} END`
  return statement<WrittenRow>(`
  WITH replaced AS (
    SELECT ${REPLACED} FROM landing_pages WHERE ${OWN_LIVE_VERSION} FOR NO KEY UPDATE
  ), ${publishes ? TAKEN_DRAFT : ''}kept AS (
    ${keepSql('replaced pages')} WHERE NOT (${isSame})${isTaken}
  ), used AS MATERIALIZED (${used}), written AS (
    UPDATE landing_pages pages
    SET ${
    Object.entries(CHANGES).map(([column, value]) => `${column} = ${unlessSame(column, value)}`).join(', ')
  },
      published = ${publishes ? 'true' : 'pages.published'},${
    publishes ? ` scheduled_version = ${unlessSame('scheduled_version', SCHEDULED_VERSION)},` : ''
  }${setsKey ? CHANGED_KEY : ''} used_assets = used.ids,
      used_assets_version = ${unlessSame('version', CHANGES.version)},
      indexed_version = ${unlessSame('version', CHANGES.version)}
    FROM replaced, used WHERE pages.id = replaced.id${isTaken}
    RETURNING ${WRITTEN}
  ), ${summarySql('written', SUMMARY)},
  ${
    queueSql(`SELECT 'page.published' AS type, ${CHANGE}
      FROM written WHERE published AND version > (SELECT version FROM replaced)`)
  }
  SELECT ${RETURNED}, ${QUEUED_KEYS} FROM written${publishes ? ', end_schedule(id, true, false)' : ''}`)
}

/** Hot. */
const REPLACE = replaceSql(REFERENCED_ASSETS)
/** Hot: without keys, a plan without a look at the assets takes two thirds of the time. */
const REPLACE_WITHOUT_KEYS = replaceSql("SELECT '{}'::uuid[] AS ids")
/** One statement, so that the draft is published and gone, and its schedule with it, or nothing happens. */
const PUBLISH_DRAFT = replaceSql(REFERENCED_ASSETS, { publishes: true })
/** One statement, so that document and key are both written, or neither. */
const REPLACE_WITH_KEY = replaceSql(REFERENCED_ASSETS, { setsKey: true })

/** One statement, as REPLACE is, for a new version with the same document in another state. */
const CHANGE_STATE = statement<WrittenPage>(`
  WITH locked AS (
    SELECT ${REPLACED} FROM landing_pages WHERE ${OWN_VERSION} AND (deleted_at IS NOT NULL) = :wasDeleted::boolean
      AND published = coalesce(NOT :published::boolean, published) FOR NO KEY UPDATE
  ), replaced AS MATERIALIZED (
    SELECT * FROM locked WHERE ${isDueSql('id', ':published::boolean')}
  ), kept AS (${keepSql('replaced')}), written AS (
    UPDATE landing_pages pages
    SET version = pages.version + 1, published = coalesce(:published::boolean, pages.published),
      deleted_at = :deletedAt::timestamptz, updated_at = ${CHANGES.updated_at},
      authored_version = pages.version + 1, author_type = :authorType, author_name = :authorName,
      restored_from = NULL, scheduled_version = ${SCHEDULED_VERSION}, used_assets_version =
        CASE WHEN used_assets_version = pages.version THEN pages.version + 1 ELSE used_assets_version END,
      indexed_version =
        CASE WHEN indexed_version = pages.version AND NOT :wasDeleted::boolean THEN pages.version + 1 END
    FROM replaced WHERE pages.id = replaced.id
    RETURNING ${WRITTEN}, pages.current_data AS "currentData"
  ), resorted AS (
    UPDATE landing_page_summaries SET updated_at = written."updatedAt" FROM written
    WHERE page_id = written.id AND :deletedAt::timestamptz IS NULL
  ), unlisted AS (
    DELETE FROM landing_page_summaries USING written
    WHERE page_id = written.id AND :deletedAt::timestamptz IS NOT NULL
  ), ${
  queueSql(`SELECT ${
    stateSql(':deletedAt::timestamptz IS NOT NULL', 'published')
  } AS type, ${CHANGE} FROM written`)
}
  SELECT id, "publicId", "currentData", "contentHash", version,
    published AND :deletedAt::timestamptz IS NULL AS published, key, "keyChangedAt", "createdAt", "updatedAt",
    ${QUEUED_KEYS}
  FROM written, end_schedule(id, :published IS TRUE OR :deletedAt IS NOT NULL,
    :published IS FALSE OR :deletedAt IS NOT NULL)`)

const IS_PUBLIC = 'published AND deleted_at IS NULL'

/** Hot. PostgreSQL knows the size of a document without reading it, so it reads none that is too large. */
const FIND_PUBLIC = statement<FoundPage>(`
  SELECT public_id AS "publicId",
    CASE WHEN ${IS_PUBLIC} AND octet_length(current_data) <= :maxBytes::integer THEN current_data END
      AS "currentData",
    content_hash AS "contentHash", version, ${IS_PUBLIC} AS published, updated_at AS "updatedAt"
  FROM landing_pages WHERE public_id = ANY (:publicIds::text[])
    AND NOT EXISTS (SELECT FROM account_deletions deletion WHERE deletion.user_id = landing_pages.user_id)`)

/** For the command line. `ORDER BY user_id, id` makes PostgreSQL use the index of both. */
const LIST_OF_USER = statement<Pick<LandingPage, 'id' | 'publicId'>>(`
  SELECT id, public_id AS "publicId" FROM landing_pages
  WHERE user_id = :userId::integer AND id > :after::uuid ORDER BY user_id, id LIMIT :limit::integer`)

/** The message about a page that is removed without the trash. Its version is the one after the last. */
const removalSql = (authorType: string, authorName: string, options?: QueueOptions): string =>
  queueSql(
    `SELECT 'page.deleted' AS type, user_id AS "userId", id, "publicId", version + 1 AS version,
    NULL AS "contentHash", ${authorType} AS "authorType", ${authorName} AS "authorName",
    row_number() OVER () AS number FROM removed WHERE deleted_at IS NULL`,
    options
  )

/** One statement: it removes a page of the owner and queues its message. */
const REMOVE = statement<Pick<LandingPage, 'publicId'> & Queued>(`
  WITH removed AS (
    DELETE FROM landing_pages pages WHERE ${OWN_VERSION} AND (deleted_at IS NOT NULL) = :wasDeleted::boolean
    RETURNING id, public_id AS "publicId", user_id, version, deleted_at
  ), ${removalSql(':authorType', ':authorName')}
  SELECT "publicId", ${QUEUED_KEYS} FROM removed`)

/**
 * One statement: it locks in the order of ids, as the other statements that lock several pages do. Webhooks
 * hear only of the page that an operator names: the others are from the trash, or their account goes, too.
 */
const DELETE_PAGES = statement<Pick<LandingPage, 'id' | 'publicId'>>(`
  WITH locked AS (
    SELECT id FROM landing_pages WHERE (id = ANY (:ids::uuid[]) OR public_id = :publicId)
      AND (:deletedBefore::timestamptz IS NULL OR deleted_at < :deletedBefore) ORDER BY id FOR UPDATE
  ), removed AS (
    DELETE FROM landing_pages pages USING locked WHERE pages.id = locked.id
    RETURNING pages.id, public_id AS "publicId", user_id, version, deleted_at
  ), ${
  removalSql('NULL', 'NULL', {
    id: '(:messageIds::uuid[])[number]',
    isWanted: '(events IS NULL OR "publicId" = :publicId AND change.type = ANY (events))'
  })
}
  SELECT id, "publicId" FROM removed`)

/** The owner of a page, and who is named as the author of the new version. */
export interface Writer extends Pick<Caller, 'userId' | 'author'> {
  /** Whether a schedule writes. Then nothing happens before its time, and nothing twice. */
  readonly isSchedule?: boolean
}

/** What owners set beside the document. */
export interface PageFields {
  readonly published?: boolean | undefined
  readonly key?: string | null | undefined
}

/**
 * @throws {UnauthorizedError} when the user has been deleted in the meantime
 * @throws {KeyTakenError} when another page has the key
 */
export async function createPage (
  database: Database,
  { userId, author }: Writer,
  document: string,
  { published = true, key = null }: PageFields = {}
): Promise<WrittenPage> {
  const keys = await findKeysOf(database, userId, document)
  const [page] = await unlessKeyTaken(
    database,
    userId,
    key,
    database.run(CREATE, {
      id: uuidv7(),
      userId,
      publicId: randomPublicId(),
      published,
      key,
      ...writtenValues(database, author, document),
      keys
    })
  )
  if (page === undefined) throw new UnauthorizedError()
  return { ...page, currentData: document }
}

const KEY_INDEX = 'landing_pages_user_id_key_idx'

/** Waits for a write with a key. @throws {KeyTakenError} if another page has the key */
async function unlessKeyTaken<Row> (
  database: PrismaClient,
  userId: number,
  key: string | null,
  write: Promise<Row>
): Promise<Row> {
  try {
    return await write
  } catch (error) {
    const { constraint } = error as { constraint?: string }
    if (!isUniqueViolation(error) || constraint !== KEY_INDEX || key === null) throw error
    const holder = await findPageByKey(database, userId, key)
    throw new KeyTakenError([holder === null ? KEY_TAKEN : describeTaken(holder)])
  }
}

const KEY_TAKEN = 'Key has already been taken'
/** The error for a key that a page has. */
export const describeTaken = ({ id, deletedAt }: Pick<PageRow, 'id' | 'deletedAt'>): string =>
  `${KEY_TAKEN} by page ${id}${deletedAt === null ? '' : ', which is in the trash'}`

const writtenValues = (database: StatementRunner, author: Caller['author'], document: string) => ({
  document,
  contentHash: contentHash(document),
  label: labelOf(document),
  ...changeValues(database, author)
})

/** Who makes a change, the id of the messages about it, and whether the CDN gets one. */
const changeValues = ({ purges = false }: StatementRunner, { type, name }: Caller['author']) => ({
  purges,
  authorType: type,
  authorName: name,
  messageId: uuidv7()
})

/** @param isDeleted whether the page has to be in the trash */
export const findPage = async (
  database: PrismaClient,
  userId: number,
  id: string,
  isDeleted = false
): Promise<LandingPage | null> =>
  await database.landingPage.findFirst({
    where: { id, userId, deletedAt: deletedAtOf(isDeleted) },
    omit: { usedAssets: true }
  })

/** Finds the page with a key, also in the trash. */
export const findPageByKey = async (
  database: PrismaClient,
  userId: number,
  key: string
): Promise<LandingPage & Pick<PageRow, 'deletedAt'> | null> =>
  await database.landingPage.findFirst({ where: { userId, key }, omit: { usedAssets: true } })

/** A condition of Prisma: a page is in the trash, or isn't. */
const deletedAtOf = (isDeleted: boolean) => isDeleted ? { not: null } : null

/**
 * Replaces the document. The same bytes change nothing. Returns null when there is no such page, or a
 * condition is false.
 *
 * @throws {KeyTakenError} when another page has the key
 */
export async function replacePage (
  database: Database,
  writer: Writer,
  id: string,
  document: string,
  conditions: WriteConditions,
  { key, restoredFrom }: ReplacedFields = {}
): Promise<WrittenPage | null> {
  const { userId } = writer
  const keys = await findKeysOf(database, userId, document)
  const replacement = { id, document, conditions, key, restoredFrom, keys }
  if (key !== undefined) {
    const written = runReplacement(database, REPLACE_WITH_KEY, writer, replacement)
    return await unlessKeyTaken(database, userId, key, written)
  }
  const sql = keys.length === 0 ? REPLACE_WITHOUT_KEYS : REPLACE
  return await runReplacement(database, sql, writer, replacement)
}

/** What a write may change with the document. */
export interface ReplacedFields {
  /** The key; null for none, undefined for the one that the page has. */
  readonly key?: string | null | undefined
  /** The version that the document is from, if it is restored. */
  readonly restoredFrom?: bigint | undefined
}

interface Replacement extends ReplacedFields {
  readonly id: string
  readonly document: string
  readonly conditions: WriteConditions
  /** What may be storage keys of assets in the document. */
  readonly keys: readonly string[]
}

async function runReplacement (
  database: Database,
  sql: typeof REPLACE,
  { userId, author, isSchedule = false }: Writer,
  { id, document, conditions, key, restoredFrom, keys }: Replacement
): Promise<WrittenPage | null> {
  const [page] = await database.run(sql, {
    id,
    userId,
    isSchedule,
    ...conditions,
    ...writtenValues(database, author, document),
    key: key ?? null,
    restoredFrom: restoredFrom ?? null,
    keys
  })
  return page === undefined ? null : { ...page, currentData: document }
}

/**
 * Publishes a document that is the page's draft. Returns null when there is no such page, a condition is
 * false, or the draft has another document now.
 */
export async function publishDraft (
  database: Database,
  writer: Writer,
  id: string,
  document: string,
  conditions: WriteConditions
): Promise<WrittenPage | null> {
  const keys = await findKeysOf(database, writer.userId, document)
  return await runReplacement(database, PUBLISH_DRAFT, writer, { id, document, conditions, keys })
}

/** What changes about a page besides its document. */
export type StateChange = 'publish' | 'unpublish' | 'delete' | 'undelete'

/**
 * Publishes or unpublishes a page, puts it into the trash or takes it out again. A deleted page is returned
 * as unpublished. Returns null when there is no such page, a condition is false, or the page is in the state
 * already. Afterwards, a page from the trash has to be indexed.
 */
export async function changeState (
  database: StatementRunner,
  { userId, author, isSchedule = false }: Writer,
  id: string,
  change: StateChange,
  conditions: WriteConditions
): Promise<WrittenPage | null> {
  const [page] = await database.run(CHANGE_STATE, {
    id,
    userId,
    isSchedule,
    ...conditions,
    wasDeleted: change === 'undelete',
    published: change === 'publish' ? true : change === 'unpublish' ? false : null,
    deletedAt: change === 'delete' ? new Date() : null,
    ...changeValues(database, author)
  })
  return page ?? null
}

/**
 * Removes a page for good. Returns null in the same cases as replacePage().
 *
 * @param wasDeleted whether the page has to be in the trash
 */
export async function removePage (
  database: StatementRunner,
  { userId, author }: Writer,
  id: string,
  conditions: WriteConditions,
  wasDeleted: boolean
): Promise<Pick<WrittenPage, 'publicId' | 'queued'> | null> {
  const values = { id, userId, ...conditions, wasDeleted, ...changeValues(database, author) }
  return (await database.run(REMOVE, values))[0] ?? null
}

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
): Promise<string | undefined> => (await runDeletion(database, { publicId }))[0]?.id

const runDeletion = async (
  database: StatementRunner,
  { ids = [], publicId = null, deletedBefore = null }: {
    readonly ids?: readonly string[]
    readonly publicId?: string | null
    readonly deletedBefore?: Date | null
  }
): Promise<Pick<LandingPage, 'id' | 'publicId'>[]> =>
  await database.run(DELETE_PAGES, {
    ids,
    publicId,
    deletedBefore,
    messageIds: Array.from({ length: ids.length + 1 }, uuidv7),
    purges: database.purges ?? false
  })

/** Lists pages of a user for the deletion of the account, the oldest first, those after an id. */
export const listPagesOf = async (
  database: StatementRunner,
  userId: number,
  after: string,
  limit: number
): Promise<Pick<LandingPage, 'id' | 'publicId'>[]> =>
  await database.run(LIST_OF_USER, { userId, after, limit })

/**
 * Deletes pages. The caller must publish the deletions.
 *
 * @param deletedBefore only those that were put into the trash before this time
 * @returns the public ids of the deleted pages
 */
export async function deletePages (
  database: StatementRunner,
  ids: readonly string[],
  deletedBefore: Date | null = null
): Promise<string[]> {
  const rows = await runDeletion(database, { ids, deletedBefore })
  return rows.map(({ publicId }) => publicId)
}
