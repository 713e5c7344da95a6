import type { PrismaClient } from '../generated/prisma/client.ts'

/**
 * What tells this database from others: the random id of the migration that was applied first. It comes along to copies
 * and to databases that are restored from backups.
 *
 * @throws {Error} when the database was not made by migrations
 */
export async function databaseId (database: PrismaClient): Promise<string> {
  const [first] = await database.$queryRaw<{ id: string }[]>`SELECT id FROM _prisma_migrations ORDER BY started_at, id LIMIT 1`
  if (first === undefined) throw new Error('the database has no migrations')
  return first.id
}
