import type { PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { findStorageKeys } from './storage-keys.ts'

// Which pages use an asset, because its storage key is in their document
// (docs/adr/0025-references-to-assets.md).

/**
 * A SELECT of the `ids` of an owner's assets (`:userId`) with some storage keys (`:keys`). If an asset is
 * deleted at the same time, one waits for the other: the write doesn't find the asset, or the deletion finds
 * the page. The order avoids deadlocks with statements that delete several assets.
 */
export const REFERENCED_ASSETS = `SELECT coalesce(array_agg(id), '{}') AS ids FROM (
    SELECT id FROM assets WHERE storage_key = ANY (:keys::text[]) AND user_id = :userId::integer
    ORDER BY id FOR KEY SHARE
  ) asset`

/** The most pages that are listed for an asset. */
export const MAX_REFERENCES = 100
/** Pages that one query looks at. */
const PAGES_PER_QUERY = 200

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

/** A page whose references are unknown, because an older release wrote its document. */
export interface UnknownPage {
  readonly id: string
  readonly userId: number
  readonly version: bigint
}

const isUnknown = ({ landingPage: { fields } }: PrismaClient) => ({
  OR: [{ usedAssetsVersion: null }, { usedAssetsVersion: { not: { equals: fields.version } } }]
})

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
  database: PrismaClient,
  userId: number,
  assetId: string
): Promise<AssetReferences | undefined> {
  const unknown = await database.landingPage.findFirst({
    where: { userId, ...isUnknown(database) },
    select: { id: true }
  })
  if (unknown !== null) return undefined
  const where = { userId, usedAssets: { has: assetId } }
  const pages = await database.landingPage.findMany({
    where,
    select: { id: true, publicId: true },
    orderBy: { id: 'desc' },
    take: MAX_REFERENCES
  })
  const count = pages.length < MAX_REFERENCES ? pages.length : await database.landingPage.count({ where })
  return { pages, count }
}

/**
 * Finds pages whose references are unknown, in the order of ids.
 *
 * @param after only pages with a greater id
 * @param userId only pages of this user; undefined for all
 * @returns `next` is the `after` of the next batch; undefined after the last one
 */
export async function findUnknownPages (
  database: PrismaClient,
  after: string,
  userId: number | undefined
): Promise<{ pages: UnknownPage[], next: string | undefined }> {
  const pages = await database.landingPage.findMany({
    where: { userId, id: { gt: after } },
    select: { id: true, userId: true, version: true, usedAssetsVersion: true },
    orderBy: { id: 'asc' },
    take: PAGES_PER_QUERY
  })
  return { pages: pages.filter((page) => page.usedAssetsVersion !== page.version), next: pages.at(-1)?.id }
}

/**
 * Stores which assets a page uses, unless it has been written or deleted since. Changes nothing else. It
 * needs no locks: a deletion with a condition needs pages that are all known.
 */
export async function storeReferences (
  database: PrismaClient,
  { id, userId, version }: UnknownPage
): Promise<boolean> {
  const page = await database.landingPage.findFirst({ where: { id, version }, select: { currentData: true } })
  if (page === null) return false
  const keys = await findKeysOf(database, userId, page.currentData)
  const assets = keys.length === 0 ? []
    : await database.asset.findMany({ where: { userId, storageKey: { in: keys } }, select: { id: true } })
  const { count } = await database.landingPage.updateMany({
    where: { id, version },
    data: { usedAssets: assets.map((asset) => asset.id), usedAssetsVersion: version }
  })
  return count > 0
}
