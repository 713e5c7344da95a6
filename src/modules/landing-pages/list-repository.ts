import { MAX_LIMIT, cursorAfter, cursorValue, type SortedPage } from '../../http/pagination.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { statement } from '../../infra/postgres/statement.ts'
import { containsSql, listSql, NEWEST_FIRST, splitRows,
  type WalkedRow } from '../../infra/postgres/walk-sql.ts'
import type { LandingPage } from './landing-page-repository.ts'
import { START_LENGTH } from './label.ts'
import type { Schedule } from './schedule-repository.ts'
import { STEP_MS } from './read-count-repository.ts'

/** A page without its document. */
export interface ListedPage
  extends
    Pick<LandingPage, 'id' | 'publicId' | 'key' | 'version' | 'published' | 'createdAt' | 'updatedAt'>,
    Schedule,
    WalkedRow
{
  readonly label: string | null
  /** The first characters of the document, in which the label is. Null if the label is known. */
  readonly start: string | null
  readonly byteSize: number
  readonly hasDraft: boolean
  /** What the list is sorted by, if it is a time. In the trash, when the page was deleted. */
  readonly sortedAt: Date | null
  readonly searchText: string | null
}

/** A page without its document, and how often it is read. */
export interface PageSummary extends ListedPage {
  /** The reads in each of the hours, with 304s. */
  readonly reads: readonly number[]
}

/** What lists of pages are sorted by. */
export const PAGE_SORTS = {
  created: 'newest first',
  updated: 'latest change first',
  label: 'by label, A to Z; pages without one first'
}
export type PageListPage = SortedPage<keyof typeof PAGE_SORTS | 'changed'>

/** A list with more bytes of documents ends early, with a link to the rest. */
const MAX_LIST_BYTES = 512 * 1024

const SUMMARIES = {
  table: 'landing_page_summaries',
  columns: 'page_id AS id, search_text AS "searchText", updated_at AS "sortedAt", false AS "isDeleted"'
}

/** The summary has the label. Pages in the trash have none. */
const HAS_LABEL = 'indexed_version = version AND stored.page_id IS NOT NULL'

/** The rows of a page of the list, and what says where the next one begins. */
const MATCHES = listSql(
  [{
    when: ":sort::text = 'created' AND :q::text IS NULL",
    table: 'landing_pages',
    columns: `id, NULL::text AS "searchText", NULL::timestamptz AS "sortedAt",
        deleted_at IS NOT NULL AS "isDeleted"`,
    order: ['id'],
    after: [':id::uuid'],
    direction: 'DESC'
  }, {
    ...SUMMARIES,
    when: ":sort::text = 'created' AND :q::text IS NOT NULL",
    order: ['page_id'],
    after: [':id::uuid'],
    direction: NEWEST_FIRST
  }, {
    ...SUMMARIES,
    when: ":sort::text = 'updated'",
    order: ['updated_at', 'page_id'],
    after: [':updatedAt::timestamptz', ':id::uuid'],
    direction: 'DESC'
  }, {
    ...SUMMARIES,
    when: ":sort::text = 'changed'",
    order: ['updated_at', 'page_id'],
    after: [':updatedAt::timestamptz', ':id::uuid'],
    direction: 'ASC'
  }, {
    ...SUMMARIES,
    when: ":sort::text = 'label'",
    order: ['search_text', 'page_id'],
    after: [':searchText::text', ':id::uuid'],
    direction: 'ASC'
  }, {
    when: ":sort::text = 'deleted' AND deleted_at IS NOT NULL",
    table: 'landing_pages',
    columns: 'id, NULL::text AS "searchText", deleted_at AS "sortedAt", false AS "isDeleted"',
    order: ['deleted_at', 'id'],
    after: [':updatedAt::timestamptz', ':id::uuid'],
    direction: 'DESC'
  }],
  `NOT "isDeleted" AND ${containsSql('"searchText"')}`,
  MAX_LIMIT
)

/** Prisma can't walk along an index, measure documents, nor read only their beginnings. */
const LIST = statement<ListedPage>(`
  SELECT found.id, "isMatch", "isScanEnd", "sortedAt", "searchText", public_id AS "publicId",
    pages.key, CASE WHEN ${HAS_LABEL} THEN label END AS label,
    CASE WHEN ${HAS_LABEL} THEN NULL ELSE left(current_data, :startLength::integer) END AS start,
    octet_length(current_data) AS "byteSize", version, published,
    EXISTS (SELECT FROM landing_page_drafts draft WHERE draft.page_id = found.id) AS "hasDraft",
    publish_at AS "publishAt", unpublish_at AS "unpublishAt", created_at AS "createdAt",
    GREATEST(pages.updated_at, key_changed_at) AS "updatedAt"
  FROM ${MATCHES} found JOIN landing_pages pages ON pages.id = found.id
    LEFT JOIN landing_page_summaries stored ON stored.page_id = pages.id
    LEFT JOIN landing_page_schedules schedule ON schedule.page_id = pages.id
  ORDER BY number`)

/** Lists pages, with the cursor of the next part if there is one. */
async function list (
  database: Database,
  userId: number,
  page: PageListPage,
  startLength: number,
  isTrash = false
): Promise<{ rows: ListedPage[], next: string | undefined }> {
  const { sort, q, limit, after: { id } } = page
  const rows = await database.run(LIST, {
    userId,
    sort: isTrash ? 'deleted' : sort,
    q,
    limit,
    id,
    updatedAt: new Date(Number(cursorValue(page, sort === 'changed' ? sort : 'updated'))),
    searchText: cursorValue(page, 'label'),
    startLength
  })
  return splitRows(rows, limit, (row) => cursorOfRow(page, row))
}

const cursorOfRow = ({ sort }: PageListPage, { id, sortedAt, searchText }: ListedPage): string =>
  cursorAfter(
    sort,
    id,
    (sort === 'updated' || sort === 'changed' ? sortedAt?.getTime().toString() : searchText) ?? ''
  )

/** Lists pages. Returns fewer than `limit` pages if the documents are large. `next` is the next cursor. */
export async function listPages (
  database: Database,
  userId: number,
  page: PageListPage
): Promise<{ pages: LandingPage[], next: string | undefined }> {
  const { rows, next } = await list(database, userId, page, 0)
  let bytes = 0
  const shown = rows.filter(({ byteSize }, index) => (bytes += byteSize) <= MAX_LIST_BYTES || index === 0)
  const ids = shown.map(({ id }) => id)
  const pages = await database.landingPage.findMany({
    where: { id: { in: ids }, userId },
    omit: { usedAssets: true }
  })
  return {
    pages: pages.sort((one, other) => ids.indexOf(one.id) - ids.indexOf(other.id)),
    next: shown.length < rows.length ? cursorOfRow(page, shown.at(-1) as ListedPage) : next
  }
}

/** Hours (UTC), from the start of the first to the start of the last one. */
export interface Hours {
  readonly first: Date
  readonly last: Date
}

/** Lists pages without their documents. `hours` are those whose reads are counted. */
export async function listSummaries (
  database: Database,
  userId: number,
  page: PageListPage,
  { first, last }: Hours
): Promise<{ pages: PageSummary[], next: string | undefined }> {
  const { rows, next } = await list(database, userId, page, START_LENGTH)
  const counts = await database.landingPageReadsHourly.findMany({
    where: { pageId: { in: rows.map(({ id }) => id) }, at: { gte: first, lte: last } }
  })
  const indexOf = (hour: Date) => (hour.getTime() - first.getTime()) / STEP_MS.hour
  const pages = rows.map((row) => ({ ...row, reads: new Array<number>(indexOf(last) + 1).fill(0) }))
  const readsOf = new Map(pages.map(({ id, reads }) => [id, reads]))
  for (const { pageId, at, reads, notModified } of counts) {
    const ofPage = readsOf.get(pageId) as number[]
    ofPage[indexOf(at)] = Number(reads + notModified)
  }
  return { pages, next }
}

/** Lists the pages of an owner that are in the trash, the last deleted one first. */
export const listTrash = async (
  database: Database,
  userId: number,
  page: SortedPage<'updated'>
): Promise<{ rows: ListedPage[], next: string | undefined }> =>
  await list(database, userId, page, START_LENGTH, true)
