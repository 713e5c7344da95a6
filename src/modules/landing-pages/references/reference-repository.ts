import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import type { PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { labelOf } from '../label.ts'
import { findStorageKeys } from './storage-keys.ts'

// Which pages use an asset, because its storage key is in their document or draft
// (docs/adr/0025-references-to-assets.md).

/**
 * A SELECT of the `ids` of an owner's assets (`:userId`) with some storage keys (`:keys`). If an asset is
 * deleted at the same time, one waits for the other: the write doesn't find the asset, or the deletion finds
 * the page. The order avoids deadlocks with statements that delete several assets.
 */
export const REFERENCED_ASSETS = `SELECT coalesce(array_agg(id), '{}') AS ids FROM (
    SELECT id FROM assets
    WHERE storage_key = ANY (:keys::text[])
      AND user_id IS NOT DISTINCT FROM :userId::integer -- as "=", but no plan reads all assets of the owner
    ORDER BY id FOR KEY SHARE
  ) asset`

/** The most pages that are listed for an asset. */
export const MAX_REFERENCES = 100

/** A page that uses an asset. */
export interface ReferencingPage {
  readonly id: string
  readonly publicId: string
}

/** The pages that use an asset. */
export interface AssetReferences {
  /** The newest ones, at most `MAX_REFERENCES`, newest first. */
  readonly pages: readonly ReferencingPage[]
  /** Of all pages that use it. */
  readonly count: number
}

/** Returns what may be storage keys of a user's assets in a document. */
export const findKeysOf = async (
  database: PrismaClient,
  userId: number,
  document: string
): Promise<string[]> =>
  await findStorageKeys(document, async (keys) => {
    const assets = await database.asset.findMany({
      where: { userId, storageKey: { in: keys } },
      select: { storageKey: true }
    })
    return assets.map(({ storageKey }) => storageKey)
  })

/** Finds the pages of a user that use an asset; undefined if the references of a page are unknown. */
export async function findKnownReferences (
  database: Transaction,
  userId: number,
  assetId: string
): Promise<AssetReferences | undefined> {
  if (await database.unindexedPage.findFirst({ where: { userId } }) !== null) return undefined
  const rows = await database.$queryRaw<(ReferencingPage & { count: number })[]>`
    SELECT id, public_id AS "publicId", (count(*) OVER ())::integer AS count
    FROM pages_using(${assetId}::uuid, ${userId}::integer) ORDER BY id DESC LIMIT ${MAX_REFERENCES}`
  return { pages: rows.map(({ id, publicId }) => ({ id, publicId })), count: rows[0]?.count ?? 0 }
}

// What lists of pages search and sort by (landing_page_summaries). Each write of a page keeps it.

/** Characters of the text to search. An entry of an index may have 2,700 bytes. */
const MAX_SEARCH_LENGTH = 300

/**
 * A part of a WITH that stores the summary of a page with `:label`.
 *
 * @param page the part of the WITH that has the page's id, "publicId", key, "updatedAt" and "keyChangedAt"
 */
export const summarySql = (page: string): string =>
  `summarized AS (
    INSERT INTO landing_page_summaries AS stored (page_id, user_id, label, search_text, updated_at)
    SELECT id, :userId::integer, :label::text,
      left(search_form(coalesce(:label::text, '')), ${MAX_SEARCH_LENGTH}) || chr(10) || lower("publicId") ||
        coalesce(chr(10) || key, ''),
      GREATEST("updatedAt", "keyChangedAt")
    FROM ${page}
    ON CONFLICT (page_id) DO UPDATE SET label = EXCLUDED.label, search_text = EXCLUDED.search_text,
      updated_at = EXCLUDED.updated_at
    WHERE (stored.label, stored.updated_at) IS DISTINCT FROM (EXCLUDED.label, EXCLUDED.updated_at)
  )`

// The references and summaries of documents that an older release wrote.

const PAGES_PER_QUERY = 200

// One statement: while it has the page's lock, an older release can't write another version.
const STORE = statement<{ pageId: string }>(`
  WITH used AS MATERIALIZED (${REFERENCED_ASSETS}), page AS ( -- if it still has the version that was read
    UPDATE landing_pages SET used_assets = used.ids, used_assets_version = version, indexed_version = version
    FROM used WHERE id = :pageId::uuid AND version = :version::bigint
    RETURNING id, public_id AS "publicId", key, updated_at AS "updatedAt", key_changed_at AS "keyChangedAt", deleted_at
  ), ${summarySql('page WHERE deleted_at IS NULL')}
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
