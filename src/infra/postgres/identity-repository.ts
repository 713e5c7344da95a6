import type { BoundedPool } from './pool.ts'
import { statement, type StatementRunner } from './statement.ts'

const FIRST_MIGRATION = 'SELECT id FROM _prisma_migrations ORDER BY started_at, id LIMIT 1'

// Prisma's schema contains neither its own table nor PostgreSQL's functions.
const IDENTIFY = statement<
  { migration: string | null, oid: string, isStandby: boolean, canReadControl: boolean }
>(`
  SELECT (${FIRST_MIGRATION}) AS migration,
    (SELECT oid::text FROM pg_database WHERE datname = current_database())
      || '/' || '_prisma_migrations'::regclass::oid AS oid,
    pg_is_in_recovery() AS "isStandby",
    has_function_privilege('pg_control_system()', 'EXECUTE') AS "canReadControl"`)

// It fails without the privilege, so it isn't a part of the one above. Prisma can't call functions.
const SYSTEM_IDENTIFIER = statement<{ id: string }>(`
  SELECT system_identifier::text AS id FROM pg_control_system()`)

/**
 * Returns an id that distinguishes this database from all others, including copies made with `pg_dump`. Only
 * a copy of PostgreSQL's files has the same id, such as a standby.
 *
 * @throws {Error} if the database wasn't created by migrations
 */
export async function identifyDatabase (
  database: StatementRunner
): Promise<{ id: string, isStandby: boolean }> {
  const [row] = await database.run(IDENTIFY)
  if (row?.migration == null) throw new Error('the database was not created by migrations')
  const [system] = row.canReadControl ? await database.run(SYSTEM_IDENTIFIER) : []
  return { id: [row.migration, system?.id ?? '', row.oid].join(' '), isStandby: row.isStandby }
}

/** Changes the id of a copy of a database's files, because the uploads belong to the original. */
export async function renewDatabaseId (database: BoundedPool): Promise<void> {
  await database.query(`UPDATE _prisma_migrations SET id = gen_random_uuid() WHERE id = (${FIRST_MIGRATION})`)
}
