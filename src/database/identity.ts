import type pg from 'pg'
import { Prisma, type PrismaClient } from '../generated/prisma/client.ts'

const FIRST_MIGRATION = 'SELECT id FROM _prisma_migrations ORDER BY started_at, id LIMIT 1'

/**
 * What tells this database from others, copies by `pg_dump` included: the random id of the migration that was applied
 * first, and where PostgreSQL keeps it. Clones of PostgreSQL's own files can't be told apart.
 *
 * @throws {Error} when it is a standby, which has not all of the rows, or was not made by migrations
 */
export async function databaseId (database: PrismaClient): Promise<string> {
  const [row] = await database.$queryRaw<{ migration: string | null, oid: string, standby: boolean, open: boolean }[]>`
    SELECT (${Prisma.raw(FIRST_MIGRATION)}) AS migration,
      (SELECT oid::text FROM pg_database WHERE datname = current_database()) || '/' || '_prisma_migrations'::regclass::oid AS oid,
      pg_is_in_recovery() AS standby,
      has_function_privilege('pg_control_system()', 'EXECUTE') AS open`
  if (row?.migration == null) throw new Error('the database was not made by migrations')
  if (row.standby) throw new Error('the database is a standby')
  const [server] = row.open ? await database.$queryRaw<{ id: string }[]>`SELECT system_identifier::text AS id FROM pg_control_system()` : []
  return [row.migration, server?.id ?? '', row.oid].join(' ')
}

/** Makes a copy of a database's own files another database than the one that was copied: the files there are none of its. */
export async function renewDatabaseId (client: pg.Client): Promise<void> {
  await client.query(`UPDATE _prisma_migrations SET id = gen_random_uuid() WHERE id = (${FIRST_MIGRATION})`)
}
