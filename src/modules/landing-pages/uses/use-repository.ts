import { statement, type StatementRunner } from '../../../infra/postgres/statement.ts'
import { findStorageKeys } from './storage-keys.ts'

// Which pages use an asset, because their document names it (docs/adr/0025-uses-of-assets.md). Prisma can't
// lock rows or compare columns, so all statements are SQL.

/**
 * Returns a SELECT of the `ids` of an owner's assets with some storage keys. If an asset is deleted at the
 * same time, one waits for the other: the write doesn't find the asset, or the deletion finds the page. The
 * order avoids deadlocks with statements that delete several assets.
 *
 * @param keys a placeholder
 * @param userId a placeholder
 */
export const usedAssetsSql = (keys: string, userId: string): string =>
  `SELECT coalesce(array_agg(id), '{}') AS ids FROM (
    SELECT id FROM assets WHERE storage_key = ANY (${keys}::text[]) AND user_id = ${userId}::integer
    ORDER BY id FOR KEY SHARE
  ) asset`

/** A condition on a row of `landing_pages`: an older release wrote the document. */
const IS_UNKNOWN = 'used_assets_version IS DISTINCT FROM version'

const KEEP_EXISTING = statement<{ key: string }>(`
  SELECT storage_key AS key FROM assets WHERE storage_key = ANY ($1::text[]) AND user_id = $2::integer`)

/** The most pages that are listed for an asset. */
export const MAX_USES = 100

const FIND_USES = statement<
  { hasUnknown: boolean, count: number | null, id: string | null, publicId: string }
>(`
  SELECT "hasUnknown", count, id, "publicId"
  FROM (SELECT EXISTS (SELECT FROM landing_pages WHERE user_id = $1::integer AND ${IS_UNKNOWN}) AS "hasUnknown") owner
  LEFT JOIN LATERAL (
    SELECT id, public_id AS "publicId", (count(*) OVER ())::integer AS count
    FROM landing_pages WHERE user_id = $1::integer AND $2::uuid = ANY (used_assets)
    ORDER BY id DESC LIMIT ${MAX_USES}
  ) page ON true
  ORDER BY id DESC`)

/** Limits of one statement: pages that it looks at, and bytes of documents. It returns at least one. */
const PAGES_PER_STATEMENT = 1000
const MAX_BYTES = 512 * 1024

/** `unknown` is how many of the pages have unknown uses, also those whose documents are not returned. */
const unknownSql = (condition: string) =>
  statement<UnknownPage & { lastId: string | null, unknown: number }>(`
  WITH pages AS (
    SELECT id, user_id, version, current_data, ${IS_UNKNOWN} AS is_unknown FROM landing_pages
    WHERE id > $1::uuid AND ${condition} ORDER BY id LIMIT ${PAGES_PER_STATEMENT}
  ), unknown AS (
    SELECT id, user_id, version, current_data, row_number() OVER oldest AS place,
      sum(octet_length(current_data)) OVER oldest AS bytes
    FROM pages WHERE is_unknown WINDOW oldest AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
  )
  SELECT (SELECT id FROM pages ORDER BY id DESC LIMIT 1) AS "lastId",
    (SELECT count(*) FROM unknown)::integer AS unknown, page.id, user_id AS "userId", version,
    current_data AS document
  FROM (SELECT) one LEFT JOIN unknown page ON place = 1 OR bytes <= ${MAX_BYTES}
  ORDER BY page.id`)

const FIND_UNKNOWN = unknownSql('true')
const FIND_UNKNOWN_OF_USER = unknownSql('user_id = $2::integer')

/** A page that is being written isn't waited for. If an older release writes it, it stays unknown. */
const FILL = statement<{ id: string }>(`
  WITH page AS (
    SELECT id FROM landing_pages WHERE id = $1::uuid AND version = $2::bigint FOR NO KEY UPDATE SKIP LOCKED
  ), used AS MATERIALIZED (${usedAssetsSql('$3', '$4')})
  UPDATE landing_pages pages SET used_assets = used.ids, used_assets_version = pages.version
  FROM page, used WHERE pages.id = page.id RETURNING pages.id`)

/** A page that uses an asset. */
export interface UsingPage {
  readonly id: string
  readonly publicId: string
}

/** The pages that use an asset. */
export interface AssetUses {
  /** The newest ones, at most 100, newest first. */
  readonly pages: readonly UsingPage[]
  /** Of all pages that use it. */
  readonly count: number
}

/** A page whose uses are unknown. */
export interface UnknownPage {
  readonly id: string
  readonly userId: number
  readonly version: bigint
  readonly document: string
}

/** Returns what may be storage keys of a user's assets in a document. */
export const findKeysOf = async (
  database: StatementRunner,
  userId: number,
  document: string
): Promise<string[]> =>
  await findStorageKeys(
    document,
    async (keys) => (await database.run(KEEP_EXISTING, [keys, userId])).map(({ key }) => key)
  )

/** Finds the pages of a user that use an asset; undefined if the uses of a page are unknown. */
export async function findKnownUses (
  database: StatementRunner,
  userId: number,
  assetId: string
): Promise<AssetUses | undefined> {
  const rows = await database.run(FIND_USES, [userId, assetId])
  if (rows[0]?.hasUnknown !== false) return undefined
  const pages = rows.flatMap(({ id, publicId }) => id === null ? [] : [{ id, publicId }])
  return { pages, count: rows[0].count ?? 0 }
}

/**
 * Finds pages whose uses are unknown, in the order of ids.
 *
 * @param after only pages with a greater id
 * @param userId only pages of this user; undefined for all
 * @returns `next` is the `after` of the next batch; undefined after the last one
 */
export async function findUnknownPages (
  database: StatementRunner,
  after: string,
  userId: number | undefined
): Promise<{ pages: UnknownPage[], next: string | undefined }> {
  const rows = userId === undefined ? await database.run(FIND_UNKNOWN, [after])
    : await database.run(FIND_UNKNOWN_OF_USER, [after, userId])
  const pages = rows.filter(({ id }) => id !== null)
  const [first] = rows
  const isWhole = pages.length === first?.unknown
  return { pages, next: (isWhole ? first.lastId : pages.at(-1)?.id) ?? undefined }
}

/** Stores which assets a page uses, unless it has been written or deleted since. Changes nothing else. */
export async function fillUses (database: StatementRunner, page: UnknownPage): Promise<boolean> {
  const { id, userId, version, document } = page
  const keys = await findKeysOf(database, userId, document)
  return (await database.run(FILL, [id, version, keys, userId])).length > 0
}
