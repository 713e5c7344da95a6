import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { uuidv7 } from '../../infra/system/identifiers.ts'
import { NO_CONDITIONS, type WriteConditions } from './etag.ts'
import { MEETS_CONDITIONS, type LandingPage, type Writer } from './landing-page-repository.ts'
import { queueSql, QUEUED_KEYS, type Queued } from './outbox-repository.ts'

// What removes pages for good.

/** A page that was removed for good. */
type RemovedPage = Pick<LandingPage, 'id' | 'publicId'> & Queued

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
      AND user_id = coalesce(:userId::integer, user_id) AND ${MEETS_CONDITIONS}
      AND (deleted_at IS NOT NULL) = coalesce(:wasDeleted::boolean, deleted_at IS NOT NULL)
    ORDER BY id FOR UPDATE -- as the other statements that lock several pages
  ), removed AS (
    DELETE FROM landing_pages pages USING locked WHERE pages.id = locked.id
    RETURNING pages.id, public_id AS "publicId", user_id, version, deleted_at
  ), ${QUEUED_DELETIONS}
  SELECT id, "publicId", ${QUEUED_KEYS} FROM removed`)

/** Which pages are removed: those with the ids, and that with the public id. */
interface Removal extends Partial<WriteConditions> {
  readonly ids?: readonly string[]
  readonly publicId?: string
  readonly deletedBefore?: Date | null
  /** The owner, whose webhooks hear of it. */
  readonly writer?: Writer
  /** Whether the pages have to be in the trash. */
  readonly wasDeleted?: boolean
}

const remove = async (
  database: StatementRunner,
  { ids = [], publicId, deletedBefore = null, writer, wasDeleted, ...conditions }: Removal
): Promise<RemovedPage[]> =>
  await database.run(REMOVE, {
    ids,
    publicId: publicId ?? null,
    deletedBefore,
    userId: writer?.userId ?? null,
    authorType: writer?.author.type ?? null,
    authorName: writer?.author.name ?? null,
    wasDeleted: wasDeleted ?? null,
    ...NO_CONDITIONS,
    ...conditions,
    // Other pages are from the trash, or their account goes, too.
    tellsWebhooks: writer !== undefined || publicId !== undefined,
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
  writer: Writer,
  id: string,
  conditions: WriteConditions,
  wasDeleted: boolean
): Promise<RemovedPage | null> =>
  (await remove(database, { ids: [id], writer, wasDeleted, ...conditions }))[0] ?? null

/** Deletes the page of any owner, for the command line. @returns its id; undefined when there is none */
export const deleteAnyPage = async (
  database: StatementRunner,
  publicId: string
): Promise<string | undefined> => (await remove(database, { publicId }))[0]?.id

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
): Promise<string[]> => (await remove(database, { ids, deletedBefore })).map(({ publicId }) => publicId)

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
