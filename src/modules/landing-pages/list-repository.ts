import type { Database } from '../../infra/postgres/database.ts'
import { NEWEST, type Page } from '../../http/pagination.ts'
import { statement } from '../../infra/postgres/statement.ts'
import type { LandingPage } from './landing-page-repository.ts'
import { START_LENGTH } from './label.ts'
import { STEP_MS } from './read-count-repository.ts'

/** A page without its document. */
interface MeasuredPage {
  readonly id: string
  readonly publicId: string
  /** The first characters of the document. */
  readonly start: string
  readonly byteSize: number
  readonly version: bigint
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** A page without its document, and how often it is read. */
export interface PageSummary extends MeasuredPage {
  /** The reads in each of the hours, with 304s. */
  readonly reads: readonly number[]
}

/** A list with more bytes of documents ends early, with a link to the rest. */
const MAX_LIST_BYTES = 512 * 1024

/** Prisma can't measure documents, nor read only their beginnings. */
const MEASURE = statement<MeasuredPage>(`
  SELECT id, public_id AS "publicId", left(current_data, :startLength::integer) AS start,
    octet_length(current_data) AS "byteSize", version, created_at AS "createdAt", updated_at AS "updatedAt"
  FROM landing_pages WHERE user_id = :userId::integer AND id < :before::uuid
  ORDER BY id DESC LIMIT :limit::integer + 1`)

/**
 * Lists pages, newest first. Returns fewer than `limit` pages if the documents are large. `nextBefore` is the
 * `before` of the next list; it is undefined when there are no more pages.
 */
export async function listPages (
  database: Database,
  userId: number,
  { before = NEWEST, limit }: Page
): Promise<{ pages: LandingPage[], nextBefore: string | undefined }> {
  const measured = await database.run(MEASURE, { userId, before, limit, startLength: 0 })
  let bytes = 0
  const ids = measured.slice(0, limit)
    .filter(({ byteSize }, index) => (bytes += byteSize) <= MAX_LIST_BYTES || index === 0)
    .map(({ id }) => id)
  const pages = await database.landingPage.findMany({
    where: { id: { in: ids }, userId },
    omit: { usedAssets: true },
    orderBy: { id: 'desc' }
  })
  return { pages, nextBefore: ids.length < measured.length ? ids.at(-1) : undefined }
}

/** Hours (UTC), from the start of the first to the start of the last one. */
export interface Hours {
  readonly first: Date
  readonly last: Date
}

/**
 * Lists an owner's pages, newest first, and one more if there is a next part. `hours` are those whose reads
 * are counted.
 */
export async function listSummaries (
  database: Database,
  userId: number,
  { before = NEWEST, limit }: Page,
  { first, last }: Hours
): Promise<PageSummary[]> {
  const measured = await database.run(MEASURE, { userId, before, limit, startLength: START_LENGTH })
  const counts = await database.landingPageReadsHourly.findMany({
    where: { pageId: { in: measured.map(({ id }) => id) }, at: { gte: first, lte: last } }
  })
  const indexOf = (hour: Date) => (hour.getTime() - first.getTime()) / STEP_MS.hour
  const pages = measured.map((page) => ({ ...page, reads: new Array<number>(indexOf(last) + 1).fill(0) }))
  const readsOf = new Map(pages.map(({ id, reads }) => [id, reads]))
  for (const { pageId, at, reads, notModified } of counts) {
    const ofPage = readsOf.get(pageId) as number[]
    ofPage[indexOf(at)] = Number(reads + notModified)
  }
  return pages
}
