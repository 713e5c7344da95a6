import type { Database } from '../../infra/postgres/database.ts'
import type { LandingPage as PageRow, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { isUniqueViolation, statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7, randomPublicId } from '../../infra/system/identifiers.ts'
import { InvalidError, UnauthorizedError } from '../../errors.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import { ownerSql, type Caller } from '../accounts/index.ts'
import { labelOf } from './label.ts'
import { findPageByKey, IS_AS_READ, readValues, type LandingPage, type ReadVersion,
  type Writer } from './landing-page-repository.ts'
import { queueSql, QUEUED_KEYS, type Queued } from './outbox-repository.ts'
import { findKeysOf, REFERENCED_ASSETS, summarySql } from './references/reference-repository.ts'
import { keepSql, REPLACED } from './revision-repository.ts'

// Writes of pages. Each is one statement.

/** A page after a write, with the messages that were queued about it. */
export type WrittenPage = LandingPage & Queued
/** What a statement returns when its caller has the document already. */
type WrittenRow = Omit<WrittenPage, 'currentData'>

const WRITTEN = `pages.id, public_id AS "publicId", pages.content_hash AS "contentHash", pages.version,
  pages.published, pages.key, pages.key_changed_at AS "keyChangedAt", created_at AS "createdAt",
  pages.updated_at AS "updatedAt"`
/** The columns of a part of a WITH that returns WRITTEN. */
const RETURNED =
  'id, "publicId", "contentHash", version, published, key, "keyChangedAt", "createdAt", "updatedAt"'
const OWN_VERSION = `id = :id::uuid AND user_id = :userId::integer AND ${IS_AS_READ}`
/** What a message says about the version that the caller has written. */
const CHANGE =
  `:userId::integer AS "userId", id, "publicId", version, "contentHash", :authorType AS "authorType",
  :authorName AS "authorName"`
// What statements that write a page need of its schedule. They have locked the page. Their functions see what
// others have committed meanwhile (prisma/migrations/20261125231255_schedules).

/** A condition: the write isn't of a schedule, or the time of the schedule has come. `publishes` is SQL. */
const isDueSql = (pageId: string, publishes: string): string =>
  `(NOT :isSchedule::boolean OR is_schedule_due(${pageId}, ${publishes}))`

/** The new value of `scheduled_version` in a new version. */
const SCHEDULED_VERSION =
  'CASE WHEN :isSchedule::boolean THEN pages.version + 1 ELSE pages.scheduled_version END'

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
  ), ${summarySql('created')},
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
const CHANGED_KEY = `key = CASE WHEN :setsKey::boolean THEN :key ELSE pages.key END,
      key_changed_at = CASE WHEN :setsKey::boolean AND pages.key IS DISTINCT FROM :key
        THEN GREATEST(now(), GREATEST(pages.updated_at, pages.key_changed_at) + interval '1 ms')
        ELSE pages.key_changed_at END`
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
 */
const replaceSql = (used: string, publishes = false) => {
  const isSame = `pages.content_hash = :contentHash${publishes ? ' AND pages.published' : ''}`
  const isTaken = publishes ? ' AND EXISTS (SELECT FROM taken)' : ''
  const unlessSame = (column: string, value: string): string =>
    `CASE WHEN ${isSame} THEN pages.${column} ELSE ${value} END`
  const changes = Object.entries({ ...CHANGES, ...publishes && { scheduled_version: SCHEDULED_VERSION } })
    .map(([column, value]) => `${column} = ${unlessSame(column, value)}`).join(', ')
  const queued = queueSql(`SELECT 'page.published' AS type, ${CHANGE}
      FROM written WHERE published AND version > (SELECT version FROM replaced)`)
  return statement<WrittenRow>(`
  WITH replaced AS ( -- the version that was current, and its lock
    SELECT ${REPLACED} FROM landing_pages WHERE deleted_at IS NULL AND ${OWN_VERSION} FOR NO KEY UPDATE
  ), ${publishes ? TAKEN_DRAFT : ''}kept AS ( -- in the history
    ${keepSql('replaced pages')} WHERE NOT (${isSame})${isTaken}
  ), used AS MATERIALIZED (${used}), written AS (
    UPDATE landing_pages pages
    SET ${changes}, ${CHANGED_KEY},
      published = ${publishes ? 'true' : 'pages.published'}, used_assets = used.ids,
      used_assets_version = ${unlessSame('version', CHANGES.version)},
      indexed_version = ${unlessSame('version', CHANGES.version)}
    FROM replaced, used WHERE pages.id = replaced.id${isTaken}
    RETURNING ${WRITTEN}
  ), ${summarySql('written')}, ${queued}
  SELECT ${RETURNED}, ${QUEUED_KEYS} FROM written${publishes ? ', end_schedule(id, true, false)' : ''}`)
}

/** Hot. */
const REPLACE = replaceSql(REFERENCED_ASSETS)
/** Hot: without keys, a plan without a look at the assets takes two thirds of the time. */
const REPLACE_WITHOUT_KEYS = replaceSql("SELECT '{}'::uuid[] AS ids")
/** One statement, so that the draft is published and gone, and its schedule with it, or nothing happens. */
const PUBLISH_DRAFT = replaceSql(REFERENCED_ASSETS, true)

const NEW_STATE = `CASE WHEN :deletedAt::timestamptz IS NOT NULL THEN 'page.deleted'
    WHEN published THEN 'page.published' ELSE 'page.unpublished' END`
const QUEUED_STATE = queueSql(`SELECT ${NEW_STATE} AS type, ${CHANGE} FROM written`)

/** One statement, as REPLACE is, for a new version with the same document in another state. */
const CHANGE_STATE = statement<WrittenPage>(`
  WITH locked AS ( -- the page, if it is not yet in the new state
    SELECT ${REPLACED} FROM landing_pages WHERE ${OWN_VERSION} AND (deleted_at IS NOT NULL) = :wasDeleted::boolean
      AND published = coalesce(NOT :published::boolean, published) FOR NO KEY UPDATE
  ), replaced AS MATERIALIZED ( -- after the lock, because another process may have made the scheduled change
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
  ), resorted AS ( -- lists are sorted by the last change
    UPDATE landing_page_summaries SET updated_at = written."updatedAt" FROM written
    WHERE page_id = written.id AND :deletedAt::timestamptz IS NULL
  ), unlisted AS ( -- pages in the trash are in no list
    DELETE FROM landing_page_summaries USING written
    WHERE page_id = written.id AND :deletedAt::timestamptz IS NOT NULL
  ), ${QUEUED_STATE}
  SELECT id, "publicId", "currentData", "contentHash", version,
    published AND :deletedAt::timestamptz IS NULL AS published, key, "keyChangedAt", "createdAt", "updatedAt",
    ${QUEUED_KEYS}
  FROM written, end_schedule(id, :published IS TRUE OR :deletedAt IS NOT NULL,
    :published IS FALSE OR :deletedAt IS NOT NULL)`)

/** Another page has the key. `PUT …/by-key/:key` then tries again, and replaces that page's document. */
export class KeyTakenError extends InvalidError {}

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
  const written = database.run(CREATE, {
    id: uuidv7(),
    userId,
    publicId: randomPublicId(),
    published,
    key,
    ...await writtenValues(database, userId, author, document)
  })
  const [page] = await unlessKeyTaken(database, userId, key, written)
  if (page === undefined) throw new UnauthorizedError()
  return { ...page, currentData: document }
}

const KEY_INDEX = 'landing_pages_user_id_key_idx'

/** Waits for a write with a key. @throws {KeyTakenError} if another page has the key */
async function unlessKeyTaken<Row> (
  database: PrismaClient,
  userId: number,
  key: string | null | undefined,
  write: Promise<Row>
): Promise<Row> {
  try {
    return await write
  } catch (error) {
    const { constraint } = error as { constraint?: string }
    if (!isUniqueViolation(error) || constraint !== KEY_INDEX || key == null) throw error
    const holder = await findPageByKey(database, userId, key)
    throw new KeyTakenError([holder === null ? KEY_TAKEN : describeTaken(holder)])
  }
}

const KEY_TAKEN = 'Key has already been taken'
/** The error for a key that a page has. */
export const describeTaken = ({ id, deletedAt }: Pick<PageRow, 'id' | 'deletedAt'>): string =>
  `${KEY_TAKEN} by page ${id}${deletedAt === null ? '' : ', which is in the trash'}`

const writtenValues = async (
  database: Database,
  userId: number,
  author: Caller['author'],
  document: string
) => ({
  document,
  contentHash: contentHash(document),
  label: labelOf(document),
  keys: await findKeysOf(database, userId, document),
  ...changeValues(database, author)
})

/** Who makes a change, and what its messages need. */
const changeValues = (database: StatementRunner, { type, name }: Caller['author']) => ({
  purges: database.purges ?? false,
  authorType: type,
  authorName: name,
  messageId: uuidv7()
})

/** What a write may change with the document. */
export interface Replacement {
  /** The key; null for none, undefined for the one that the page has. */
  readonly key?: string | null | undefined
  /** The version that the document is from, if it is restored. */
  readonly restoredFrom?: bigint
  /** Whether the document is the draft, which is taken away, and the page is published. */
  readonly isDraft?: boolean
}

/**
 * Replaces the document. The same bytes change nothing. Returns null when there is no such page, it is not as
 * it was read, or the draft that is published has another document now.
 *
 * @throws {KeyTakenError} when another page has the key
 */
export async function replacePage (
  database: Database,
  { userId, author, isSchedule = false }: Writer,
  id: string,
  document: string,
  read: ReadVersion,
  { key, restoredFrom, isDraft = false }: Replacement = {}
): Promise<WrittenPage | null> {
  const values = await writtenValues(database, userId, author, document)
  const sql = isDraft ? PUBLISH_DRAFT : values.keys.length === 0 ? REPLACE_WITHOUT_KEYS : REPLACE
  const written = database.run(sql, {
    id,
    userId,
    isSchedule,
    ...readValues(read),
    ...values,
    setsKey: key !== undefined,
    key: key ?? null,
    restoredFrom: restoredFrom ?? null
  })
  const [page] = await unlessKeyTaken(database, userId, key, written)
  return page === undefined ? null : { ...page, currentData: document }
}

/** What changes about a page besides its document. */
export type StateChange = 'publish' | 'unpublish' | 'delete' | 'undelete'

/**
 * Publishes or unpublishes a page, puts it into the trash or takes it out again. A deleted page is returned
 * as unpublished. Returns null when there is no such page, it is not as it was read, or it is in the state
 * already. Afterwards, a page from the trash has to be indexed.
 */
export async function changeState (
  database: StatementRunner,
  { userId, author, isSchedule = false }: Writer,
  id: string,
  change: StateChange,
  read: ReadVersion
): Promise<WrittenPage | null> {
  const [page] = await database.run(CHANGE_STATE, {
    id,
    userId,
    isSchedule,
    ...readValues(read),
    wasDeleted: change === 'undelete',
    published: change === 'publish' ? true : change === 'unpublish' ? false : null,
    deletedAt: change === 'delete' ? new Date() : null,
    ...changeValues(database, author)
  })
  return page ?? null
}
