import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { IS_AS_READ, readValues, type LandingPage, type ReadVersion,
  type Writer } from './landing-page-repository.ts'
import { queueSql, QUEUED_KEYS, type Queued } from './outbox-repository.ts'

// What removes pages for good.

/** A page that was removed for good. */
export type RemovedPage = Pick<LandingPage, 'id' | 'publicId'> & Queued

/** Webhooks have been told of the deletion of those in the trash. */
const DELETIONS = `SELECT 'page.deleted' AS type, user_id AS "userId", id, "publicId", version + 1 AS version,
    NULL AS "contentHash", :authorType AS "authorType", :authorName AS "authorName",
    row_number() OVER () AS number
  FROM removed WHERE deleted_at IS NULL`
const QUEUED_DELETIONS = queueSql(
  DELETIONS,
  '(:messageIds::uuid[])[number]',
  '(events IS NULL OR :tellsWebhooks::boolean AND change.type = ANY (events))'
)

/** One statement removes pages and queues the messages about them. */
const REMOVE = statement<RemovedPage>(`
  WITH locked AS (
    SELECT id FROM landing_pages WHERE (id = ANY (:ids::uuid[]) OR public_id = :publicId)
      AND (:deletedBefore::timestamptz IS NULL OR deleted_at < :deletedBefore)
      AND user_id = coalesce(:userId::integer, user_id) AND ${IS_AS_READ}
      AND (deleted_at IS NOT NULL) = coalesce(:wasDeleted::boolean, deleted_at IS NOT NULL)
    ORDER BY id FOR UPDATE -- as the other statements that lock several pages
  ), removed AS (
    DELETE FROM landing_pages pages USING locked WHERE pages.id = locked.id
    RETURNING pages.id, public_id AS "publicId", user_id, version, deleted_at
  ), ${QUEUED_DELETIONS}
  SELECT id, "publicId", ${QUEUED_KEYS} FROM removed`)

/** @param values those of REMOVE that say which pages, besides their ids, and who has removed them */
const remove = async (
  database: StatementRunner,
  ids: readonly string[],
  values: Readonly<Record<string, unknown>>
): Promise<RemovedPage[]> =>
  await database.run(REMOVE, {
    ...readValues(null),
    publicId: null,
    deletedBefore: null,
    userId: null,
    authorType: null,
    authorName: null,
    wasDeleted: null,
    tellsWebhooks: false, // they were told of the trash, or the account goes, too
    ...values,
    ids,
    messageIds: Array.from({ length: ids.length + 1 }, uuidv7),
    purges: database.purges ?? false
  })

/**
 * Removes a page for good. Returns null in the same cases as replacePage().
 *
 * @param wasDeleted whether the page has to be in the trash
 */
export const removePage = async (
  database: StatementRunner,
  { userId, author }: Writer,
  id: string,
  read: ReadVersion,
  wasDeleted: boolean
): Promise<RemovedPage | null> => {
  const writer = { userId, authorType: author.type, authorName: author.name }
  const values = { ...writer, ...readValues(read), wasDeleted, tellsWebhooks: true }
  return (await remove(database, [id], values))[0] ?? null
}

/** Deletes the page of any owner, for the command line. @returns its id; undefined when there is none */
export const deleteAnyPage = async (
  database: StatementRunner,
  publicId: string
): Promise<string | undefined> => (await remove(database, [], { publicId, tellsWebhooks: true }))[0]?.id

/**
 * Deletes pages. The caller must publish the deletions.
 *
 * @param deletedBefore only those that were put into the trash before this time
 * @returns the public ids of the deleted pages
 */
export const deletePages = async (
  database: StatementRunner,
  ids: readonly string[],
  deletedBefore: Date | null = null
): Promise<string[]> => (await remove(database, ids, { deletedBefore })).map(({ publicId }) => publicId)

/** Pages that one statement removes. Few, because each may have many large versions. */
const PURGED_PAGES = 10

/**
 * Removes the pages of all owners for good that were put into the trash before a time, in small batches.
 *
 * @param onRemoved called with the public ids of each batch
 */
export async function purgePages (
  database: Database,
  deletedBefore: Date,
  onRemoved: (publicIds: string[]) => Promise<void>,
  signal?: AbortSignal
): Promise<number> {
  let sum = 0
  // Each batch starts where the last one ended: during a backup, PostgreSQL would read removed rows again.
  for (let after = new Date(0); signal?.aborted !== true;) {
    const old = await database.landingPage.findMany({
      where: { deletedAt: { gte: after, lt: deletedBefore } },
      orderBy: { deletedAt: 'asc' },
      take: PURGED_PAGES,
      select: { id: true, deletedAt: true }
    })
    if (old.length === 0) break
    after = old.at(-1)?.deletedAt ?? after
    const publicIds = await deletePages(database, old.map(({ id }) => id), deletedBefore)
    await onRemoved(publicIds)
    sum += publicIds.length
  }
  return sum
}
