import { Prisma, type Asset, type PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { UnauthorizedError } from '../../errors.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import type { Page } from '../../http/pagination.ts'

// All statements use Prisma, except the one of the command line, which also sends it to a running service.
// They are not hot, because an upload takes far longer than its statement. The statements of the owner's
// routes are restricted to the owner's rows.

export type NewAsset = Omit<Asset, 'id' | 'createdAt'>

const DELETE_OF_ANY_OWNER = statement<{ id: string, storageKey: string }>(`
  DELETE FROM assets WHERE id::text = lower($1) OR storage_key = $1
  RETURNING id, storage_key AS "storageKey"`)

const FOREIGN_KEY_VIOLATION = 'P2003'
const NOT_FOUND = 'P2025'

const isKnownError = (error: unknown, code: string): boolean =>
  error instanceof Prisma.PrismaClientKnownRequestError && error.code === code

/** @throws {UnauthorizedError} when the user has been deleted in the meantime */
export async function createAsset (database: PrismaClient, asset: NewAsset): Promise<Asset> {
  try {
    return await database.asset.create({ data: asset })
  } catch (error) {
    if (isKnownError(error, FOREIGN_KEY_VIOLATION)) throw new UnauthorizedError({ cause: error })
    throw error
  }
}

/** Lists assets, newest first. Returns one asset more than `page.limit` if there is a next page. */
export async function listAssets (database: PrismaClient, userId: number, page: Page): Promise<Asset[]> {
  return await database.asset.findMany({
    where: page.before === undefined ? { userId } : { userId, id: { lt: page.before } },
    orderBy: { id: 'desc' },
    take: page.limit + 1
  })
}

export async function findAsset (
  database: PrismaClient,
  userId: number,
  id: string
): Promise<Asset | undefined> {
  return await database.asset.findFirst({ where: { id, userId } }) ?? undefined
}

/** Returns the name that the client gave to a file; undefined when there is no such asset. */
export async function findFilename (database: PrismaClient, storageKey: string): Promise<string | undefined> {
  return (await database.asset.findUnique({ where: { storageKey }, select: { filename: true } }))?.filename
}

/** Deletes an asset and returns its storage key; undefined when there is none. */
export async function deleteAsset (
  database: PrismaClient,
  userId: number,
  id: string
): Promise<string | undefined> {
  try {
    return (await database.asset.delete({ where: { id, userId }, select: { storageKey: true } })).storageKey
  } catch (error) {
    if (isKnownError(error, NOT_FOUND)) return undefined
    throw error
  }
}

/**
 * Deletes the asset of any owner, for the command line.
 *
 * @param name its id, or the name of its file in its URL
 * @returns undefined when there is none
 */
export async function deleteAnyAsset (
  database: StatementRunner,
  name: string
): Promise<{ readonly id: string, readonly storageKey: string } | undefined> {
  const rows = await database.run(DELETE_OF_ANY_OWNER, [name])
  return rows[0]
}

/** Returns the keys that have a row, whose owner may be any user. */
export async function referencedKeys (database: PrismaClient, keys: readonly string[]): Promise<Set<string>> {
  const rows = await database.asset.findMany({
    where: { storageKey: { in: [...keys] } },
    select: { storageKey: true }
  })
  return new Set(rows.map((row) => row.storageKey))
}

/** Error codes of Node, Prisma and PostgreSQL (SQLSTATE) of statements that certainly had no effect. */
const WITHOUT_EFFECT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|P100[013]|P20(00|02|03|11|24)|(22|23|40|42|53|55)[0-9A-Z]{3}|57014|57P03)$/

/** Tells whether a failed insert certainly had no effect. After a timeout it may still commit. */
export function isInsertWithoutEffect (error: unknown): boolean {
  for (
    let current = error, depth = 0;
    current instanceof Error && depth < 8;
    current = current.cause, depth++
  ) {
    const { code } = current as { code?: unknown }
    if (current instanceof UnauthorizedError || current instanceof Prisma.PrismaClientValidationError) {
      return true
    }
    if (typeof code === 'string' && WITHOUT_EFFECT.test(code)) return true
    // pg-pool had no free connection, so nothing was sent. Its error has no code.
    if (current.message.includes('timeout exceeded when trying to connect')) return true
  }
  return false
}
