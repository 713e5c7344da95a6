import type { Database } from '../../../infra/postgres/database.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { labelOf, summarySql } from '../summary-sql.ts'
import { findKeysOf, REFERENCED_ASSETS } from './reference-repository.ts'

// The references and summaries of documents that an older release wrote.

const PAGES_PER_QUERY = 200

// One statement: while it has the page's lock, an older release can't write another version.
const STORE = statement<{ pageId: string }>(`
  WITH used AS MATERIALIZED (${REFERENCED_ASSETS}), page AS (
    UPDATE landing_pages SET used_assets = used.ids, used_assets_version = version, indexed_version = version
    FROM used WHERE id = :pageId::uuid AND version = :version::bigint
    RETURNING id, public_id, key, GREATEST(updated_at, key_changed_at) AS updated_at, deleted_at
  ), ${
  summarySql('page WHERE deleted_at IS NULL', {
    pageId: 'id',
    publicId: 'public_id',
    updatedAt: 'updated_at'
  })
}
  DELETE FROM unindexed_pages USING page WHERE page_id = page.id RETURNING page_id AS "pageId"`)

/** Finds pages that aren't indexed, in the order of ids. @param userId of all users if undefined */
export async function findUnindexedPages (
  database: Database,
  after: string,
  userId: number | undefined
): Promise<string[]> {
  const pages = await database.unindexedPage.findMany({
    where: { userId, pageId: { gt: after } },
    orderBy: userId === undefined ? { pageId: 'asc' } : [{ userId: 'asc' }, { pageId: 'asc' }],
    take: PAGES_PER_QUERY,
    select: { pageId: true }
  })
  return pages.map(({ pageId }) => pageId)
}

/** Stores references and summary of a page. @returns false if it has been written or deleted meanwhile */
export async function indexPage (database: Database, pageId: string): Promise<boolean> {
  const page = await database.landingPage.findUnique({
    where: { id: pageId },
    select: { userId: true, version: true, currentData: true }
  })
  if (page === null) {
    await database.unindexedPage.deleteMany({ where: { pageId } })
    return false
  }
  const { userId, version, currentData } = page
  const keys = await findKeysOf(database, userId, currentData)
  return (await database.run(STORE, { pageId, userId, version, keys, label: labelOf(currentData) })).length >
    0
}
