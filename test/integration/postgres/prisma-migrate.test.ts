import t from 'tap'
import { migrationList, NO_FILTERS, withSchemaEngine } from '../../../prisma/schema-engine.ts'
import { applyMigrations } from '../../../src/infra/postgres/migrate.ts'
import { readMigrations, type Migration } from '../../../src/infra/postgres/migration-repository.ts'
import { createDatabase, query } from '../../helpers/servers.ts'

// The service writes the table `_prisma_migrations` exactly as Prisma's own engine does.

const silent = { info () {} }
const later: Migration = { name: '20990101000000_later', sql: 'CREATE TABLE later (id int);' }

/** Applies migrations as `prisma migrate deploy` does, and returns their names. */
async function deploy (url: string, migrations: readonly Migration[]): Promise<string[]> {
  return await withSchemaEngine(
    url,
    async (engine) =>
      (await engine.applyMigrations({ migrationsList: migrationList(migrations), filters: NO_FILTERS }))
        .appliedMigrationNames
  )
}

const columns = async (url: string) =>
  await query(
    url,
    `SELECT column_name, data_type, character_maximum_length, is_nullable, column_default, ordinal_position
      FROM information_schema.columns WHERE table_name = '_prisma_migrations' ORDER BY ordinal_position`
  )

const primaryKeys = async (url: string) =>
  await query(
    url,
    `SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint
      WHERE conrelid = '_prisma_migrations'::regclass AND contype = 'p'`
  )

/** The rows without the values that differ between runs. */
const rows = async (url: string) =>
  await query(
    url,
    `SELECT migration_name, checksum, applied_steps_count, logs, rolled_back_at, length(id) AS id_length,
        finished_at >= started_at AND started_at BETWEEN now() - interval '1 hour' AND now() AS is_timed
      FROM _prisma_migrations ORDER BY migration_name`
  )

t.test('a database migrated by the service is up to date for Prisma, and vice versa', async (t) => {
  const migrations = await readMigrations()
  const names = migrations.map(({ name }) => name)

  const ours = await createDatabase(t)
  t.same(await applyMigrations(ours, silent), names)
  t.same(await deploy(ours, migrations), [], 'Prisma has nothing to apply')

  const theirs = await createDatabase(t)
  t.same(await deploy(theirs, migrations), names)
  t.same(await applyMigrations(theirs, silent), [], 'the service has nothing to apply')

  t.same(await columns(ours), await columns(theirs), 'the tables have the same columns')
  t.same(await primaryKeys(ours), await primaryKeys(theirs), 'the tables have the same primary key')
  t.same(await rows(ours), await rows(theirs), 'the tables have the same rows')

  // Each can continue after the other.
  t.same(await deploy(ours, [...migrations, later]), [later.name])
  t.same(await applyMigrations(theirs, silent, { migrations: [...migrations, later] }), [later.name])
  t.same(await rows(ours), await rows(theirs))
})

t.test('a migration that failed in Prisma stops the service; one that failed here does not stop Prisma', async (t) => {
  const broken = { name: '20200101000000_broken', sql: 'SELECT 1 / 0;' }
  const theirs = await createDatabase(t)
  await t.rejects(deploy(theirs, [broken]))
  await t.rejects(applyMigrations(theirs, silent, { migrations: [broken] }), {
    name: 'MigrationError',
    message: /^Migration 20200101000000_broken was started and did not finish \(.+\): undo/
  })

  const ours = await createDatabase(t)
  const concurrent = { name: broken.name, sql: 'CREATE INDEX CONCURRENTLY i ON missing (id);' }
  await t.rejects(applyMigrations(ours, silent, { migrations: [concurrent] }), {
    message: /"missing" does not exist/
  })
  await query(ours, 'CREATE TABLE missing (id int)')
  t.same(await deploy(ours, [concurrent]), [concurrent.name])
})
