import type { Database } from '../../../infra/postgres/database.ts'
import type { PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
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

/** Prisma can't query a function, which the deletion of an asset calls, too. */
const FIND = statement<ReferencingPage & { count: number }>(`
  SELECT id, public_id AS "publicId", (count(*) OVER ())::integer AS count
  FROM pages_using(:assetId::uuid, :userId::integer) ORDER BY id DESC LIMIT ${MAX_REFERENCES}`)

/** Finds the pages of a user that use an asset; undefined if the references of a page are unknown. */
export async function findKnownReferences (
  database: Database,
  userId: number,
  assetId: string
): Promise<AssetReferences | undefined> {
  if (await database.unindexedPage.findFirst({ where: { userId } }) !== null) return undefined
  const rows = await database.run(FIND, { userId, assetId })
  return { pages: rows.map(({ id, publicId }) => ({ id, publicId })), count: rows[0]?.count ?? 0 }
}
