import type { Asset, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { UnauthorizedError } from '../../errors.ts'
import { unlessMissing, type Transaction } from '../../infra/postgres/database.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { isUuid, uuidv7 } from '../../infra/system/identifiers.ts'
import { containsSql, listSql, NEWEST_FIRST, splitRows,
  type WalkedRow } from '../../infra/postgres/walk-sql.ts'
import { MAX_LIMIT, OLDEST, cursorAfter, cursorValue, type SortedPage } from '../../http/pagination.ts'
import { ownerSql } from '../accounts/index.ts'
import { possibleKeysAt, possibleOriginals } from './storage/storage-key.ts'
import type { Dimensions } from './upload/orientation.ts'

export type NewAsset = Omit<Asset, 'id' | 'createdAt' | 'noVariantsReason' | 'variantFailures'>

/** Why a picture has no variants. */
export type NoVariantsReason = 'too_large' | 'unreadable' | 'too_costly'

/** An asset's row and file. */
export type OwnedFile = Pick<Asset, 'id' | 'storageKey'>

const COLUMNS =
  `id, user_id AS "userId", storage_key AS "storageKey", filename, content_type AS "contentType",
  byte_size AS "byteSize", checksum, width, height, created_at AS "createdAt",
  no_variants_reason AS "noVariantsReason", variant_failures AS "variantFailures"`

/** One statement: Prisma can't lock the owner, so an account that is being deleted would get a new asset. */
const CREATE = statement<Asset>(`
  INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum, width, height)
  SELECT :id::uuid, owner.id, :storageKey, :filename, :contentType, :byteSize::bigint, :checksum,
    :width::integer, :height::integer
  FROM (${ownerSql(':userId::integer')}) owner
  RETURNING ${COLUMNS}`)

export const ASSET_SORTS = {
  created: 'newest first',
  filename: 'by name, A to Z',
  byte_size: 'largest first'
}

/** The media types of each type of assets, as patterns of LIKE. `other` has all that are left. */
const TYPES = {
  image: ['image/%'],
  audio: ['audio/%'],
  video: ['video/%'],
  font: ['font/%', 'application/font-%', 'application/vnd.ms-fontobject', 'application/x-font-%'],
  document: [
    'application/pdf',
    'text/%',
    'application/epub+zip',
    'application/msword',
    'application/rtf',
    'application/vnd.ms-excel%',
    'application/vnd.ms-powerpoint%',
    'application/vnd.ms-word%',
    'application/vnd.oasis.opendocument.%',
    'application/vnd.openxmlformats-officedocument.%'
  ]
}
export const ASSET_TYPES = [...Object.keys(TYPES), 'other'] as AssetType[]
type AssetType = keyof typeof TYPES | 'other'

const SEARCH_FORM = 'search_form(filename) COLLATE "C"'
const WALK = { table: 'assets', columns: `${COLUMNS}, ${SEARCH_FORM} AS "searchForm"` }

/** The rows of a page of the list, and what says where the next one begins. */
const MATCHES = listSql(
  [{
    ...WALK,
    when: ":sort::text = 'created'",
    order: ['id'],
    after: [':id::uuid'],
    direction: NEWEST_FIRST
  }, {
    ...WALK,
    when: ":sort::text = 'filename'",
    order: [SEARCH_FORM, 'id'],
    after: [':searchForm::text', ':id::uuid'],
    direction: 'ASC'
  }, {
    ...WALK,
    when: ":sort::text = 'byte_size'",
    order: ['byte_size', 'id'],
    after: [':byteSize::bigint', ':id::uuid'],
    direction: 'DESC'
  }],
  `(${containsSql('"searchForm"')}
    AND (:types::text[] IS NULL OR ("contentType" LIKE ANY (:types::text[])) <> :isOther::boolean))`,
  MAX_LIMIT
)

/** Prisma can't walk along an index. */
const LIST = statement<Asset & WalkedRow & { searchForm: string }>(`
  SELECT id, "userId", "storageKey", filename, "contentType", "byteSize", checksum, width, height, "createdAt",
    "noVariantsReason", "variantFailures", "searchForm", "isMatch", "isScanEnd"
  FROM ${MATCHES} listed ORDER BY number`)

/** @throws {UnauthorizedError} when the user has been deleted in the meantime */
export async function createAsset (database: StatementRunner, asset: NewAsset): Promise<Asset> {
  const [row] = await database.run(CREATE, { ...asset, id: uuidv7() })
  if (row === undefined) throw new UnauthorizedError()
  return row
}

/** Lists assets, all or those of a type. `next` is the cursor of the next part, if there is one. */
export async function listAssets (
  database: StatementRunner,
  userId: number,
  page: SortedPage<keyof typeof ASSET_SORTS>,
  type: AssetType | undefined
): Promise<{ rows: Asset[], next: string | undefined }> {
  const { sort, q, limit, after: { id } } = page
  const rows = await database.run(LIST, {
    userId,
    sort,
    q,
    limit,
    id,
    searchForm: cursorValue(page, 'filename'),
    byteSize: cursorValue(page, 'byte_size'),
    types: type === undefined ? null : type === 'other' ? Object.values(TYPES).flat() : TYPES[type],
    isOther: type === 'other'
  })
  return splitRows(
    rows,
    limit,
    ({ id, byteSize, searchForm }) =>
      cursorAfter(sort, id, sort === 'filename' ? searchForm : byteSize.toString())
  )
}

/** Finds the asset at a URL; none for a text that can't be one. */
export async function findAssetsAt (database: PrismaClient, userId: number, url: string): Promise<Asset[]> {
  const keys = possibleKeysAt(url)
  return keys.length === 0 ? []
    : await database.asset.findMany({ where: { userId, storageKey: { in: keys } } })
}

export async function findAsset (
  database: Transaction,
  userId: number,
  id: string
): Promise<Asset | undefined> {
  return await database.asset.findFirst({ where: { id, userId } }) ?? undefined
}

/** Returns the name that the client gave to a file; undefined when there is no such asset. */
export async function findFilename (database: PrismaClient, storageKey: string): Promise<string | undefined> {
  return (await database.asset.findUnique({ where: { storageKey }, select: { filename: true } }))?.filename
}

/** Finds the picture, of any owner, that a variant is made from. */
export async function findOriginal (database: PrismaClient, stem: string): Promise<Asset | undefined> {
  return await database.asset.findFirst({ where: { storageKey: { in: possibleOriginals(stem) } } }) ??
    undefined
}

/** Stores what the bytes of a picture have shown: other dimensions, or why it has no variants. */
export async function updatePicture (
  { asset }: PrismaClient,
  storageKey: string,
  data: Dimensions | { readonly noVariantsReason: NoVariantsReason }
): Promise<void> {
  await asset.updateMany({ where: { storageKey }, data })
}

/**
 * Counts an attempt that took too much processor time or memory, and gives up after `max` of them.
 *
 * @returns whether it was the attempt number `max`, so that the picture has no variants from now on
 */
export async function countVariantFailure (
  database: PrismaClient,
  storageKey: string,
  max: number
): Promise<boolean> {
  const [asset] = await database.asset.updateManyAndReturn({
    where: { storageKey, noVariantsReason: null },
    data: { variantFailures: { increment: 1 } },
    select: { variantFailures: true }
  })
  const isLast = asset !== undefined && asset.variantFailures >= max
  if (isLast) await updatePicture(database, storageKey, { noVariantsReason: 'too_costly' })
  return isLast
}

/**
 * Finds an asset, and locks it until the end of the transaction. Writes of pages that name it wait, and those
 * under way are waited for.
 */
export async function lockAsset (
  transaction: Transaction,
  userId: number,
  id: string
): Promise<Asset | undefined> {
  // Prisma has no locks.
  await transaction.$queryRaw`SELECT id FROM assets WHERE id = ${id}::uuid AND user_id = ${userId} FOR UPDATE`
  return await findAsset(transaction, userId, id)
}

/** Deletes an asset and returns its storage key; undefined when there is none. */
export async function deleteAsset (
  database: Transaction,
  userId: number,
  id: string
): Promise<string | undefined> {
  const where = { id, userId }
  return (await unlessMissing(database.asset.delete({ where, select: { storageKey: true } })))?.storageKey
}

/**
 * Deletes the asset of any owner, for the command line.
 *
 * @param name its id, or the name of its file in its URL
 * @returns undefined when there is none
 */
export async function deleteAnyAsset (database: PrismaClient, name: string): Promise<OwnedFile | undefined> {
  const where = isUuid(name) ? { id: name } : { storageKey: name }
  return await unlessMissing(database.asset.delete({ where, select: { id: true, storageKey: true } }))
}

/** Lists the assets of a user for the deletion of the account, the oldest first, those after an id. */
export const listAssetsOf = async (
  { asset }: PrismaClient,
  userId: number,
  { after = OLDEST, limit }: { readonly after?: string | undefined, readonly limit: number }
): Promise<OwnedFile[]> =>
  await asset.findMany({
    where: { userId, id: { gt: after } },
    orderBy: { id: 'asc' },
    take: limit,
    select: { id: true, storageKey: true }
  })

export async function deleteAssets ({ asset }: PrismaClient, ids: string[]): Promise<void> {
  await asset.deleteMany({ where: { id: { in: ids } } })
}

/** Returns the keys that have a row, whose owner may be any user. */
export async function referencedKeys (database: PrismaClient, keys: readonly string[]): Promise<Set<string>> {
  const rows = await database.asset.findMany({
    where: { storageKey: { in: [...keys] } },
    select: { storageKey: true }
  })
  return new Set(rows.map((row) => row.storageKey))
}
