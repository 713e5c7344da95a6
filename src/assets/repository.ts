import { Prisma, type Asset, type PrismaClient } from '../generated/prisma/client.ts'
import { UnauthorizedError } from '../errors.ts'
import { isUuid } from '../identifiers.ts'
import type { Page } from '../pagination.ts'

// The rows. Whose they are is part of every statement; what isn't the caller's is as good as not there.

export type NewAsset = Omit<Asset, 'id' | 'createdAt'>

/** @throws {UnauthorizedError} when the user has been deleted meanwhile */
export async function createAsset (database: PrismaClient, asset: NewAsset): Promise<Asset> {
  try {
    return await database.asset.create({ data: asset })
  } catch (error) {
    if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2003') throw new UnauthorizedError({ cause: error })
    throw error
  }
}

/** Newest first, one more than the page holds: whether there is one tells whether there is a next page. */
export async function listAssets (database: PrismaClient, userId: number, page: Page): Promise<Asset[]> {
  return await database.asset.findMany({
    where: page.before === undefined ? { userId } : { userId, id: { lt: page.before } },
    orderBy: { id: 'desc' },
    take: page.limit + 1
  })
}

export async function findAsset (database: PrismaClient, userId: number, id: string): Promise<Asset | undefined> {
  if (!isUuid(id)) return undefined
  return await database.asset.findFirst({ where: { id, userId } }) ?? undefined
}

/** @returns the storage key of the asset that was deleted, undefined when there was none */
export async function deleteAsset (database: PrismaClient, userId: number, id: string): Promise<string | undefined> {
  if (!isUuid(id)) return undefined
  const rows = await database.$queryRaw<{ storage_key: string }[]>`
    DELETE FROM assets WHERE id = ${id}::uuid AND user_id = ${userId} RETURNING storage_key`
  return rows[0]?.storage_key
}

/** Those of the keys that have a row, whoever owns it. */
export async function referencedKeys (database: PrismaClient, keys: readonly string[]): Promise<Set<string>> {
  const rows = await database.asset.findMany({ where: { storageKey: { in: [...keys] } }, select: { storageKey: true } })
  return new Set(rows.map((row) => row.storageKey))
}

/** No connection; Prisma's codes for no connection and for refused data; SQLSTATEs by which PostgreSQL undoes a statement. */
const WITHOUT_EFFECT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|P100[013]|P20(00|02|03|11|24)|(22|23|40|42|53|55)[0-9A-Z]{3}|57014|57P03)$/

/**
 * Whether a failed insert can't have left a row, nor leave one later. A statement that timed out, or whose connection
 * broke, may still commit.
 */
export function hasNoRow (error: unknown): boolean {
  for (let current = error, depth = 0; current instanceof Error && depth < 8; current = current.cause, depth++) {
    const { code } = current as { code?: unknown }
    if (current instanceof UnauthorizedError || current instanceof Prisma.PrismaClientValidationError) return true
    if (typeof code === 'string' && WITHOUT_EFFECT.test(code)) return true
    // pg-pool's own words: the wait for a connection ran out before anything was sent.
    if (current.message.includes('timeout exceeded when trying to connect')) return true
  }
  return false
}
