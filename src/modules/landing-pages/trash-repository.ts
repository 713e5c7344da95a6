import { cursorAfter, valueOf, type SortedPage } from '../../http/sorted-lists.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { START_LENGTH } from './label.ts'
import { deletePages } from './landing-page-repository.ts'

/** A page in the trash. */
export interface DeletedPage {
  readonly id: string
  readonly publicId: string
  readonly key: string | null
  /** The first characters of the document, in which the label is. */
  readonly start: string
  readonly byteSize: number
  readonly published: boolean
  readonly deletedAt: Date
}

/**
 * Prisma can't measure documents, nor read only their beginnings. With `user_id =` a generic plan expects
 * few rows and sorts all of an owner with many; with this range it walks along the index.
 */
const LIST = statement<DeletedPage>(`
  SELECT id, public_id AS "publicId", key, left(current_data, ${START_LENGTH}) AS start,
    octet_length(current_data) AS "byteSize", published, deleted_at AS "deletedAt"
  FROM landing_pages
  WHERE deleted_at IS NOT NULL AND user_id >= :userId::integer
    AND (user_id, deleted_at, id) < (:userId::integer, :deletedAt::timestamptz, :id::uuid)
  ORDER BY user_id DESC, deleted_at DESC, id DESC LIMIT :limit::integer + 1`)

/** Lists the pages of an owner that are in the trash, with the cursor of the next part if there is one. */
export async function listTrash (
  database: StatementRunner,
  userId: number,
  page: SortedPage<'updated'>
): Promise<{ pages: DeletedPage[], next: string | undefined }> {
  const { limit, sort, after: { id } } = page
  const found = await database.run(LIST, {
    userId,
    limit,
    id,
    deletedAt: new Date(Number(valueOf(page, sort)))
  })
  const pages = found.slice(0, limit)
  const last = pages.at(-1)
  const hasNext = last !== undefined && found.length > limit
  return { pages, next: hasNext ? cursorAfter(sort, last.id, String(last.deletedAt.getTime())) : undefined }
}

/** Pages that one statement removes. Few, because each may have many large versions. */
const PURGED_PAGES = 10

/**
 * Removes pages for good that were put into the trash before a time, of all owners, in small batches.
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
  // Goes on after the last batch, because a backup would keep the rows that are removed.
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
