import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { readMigrations, type Migration } from './migration-files.ts'
import { messageOf, printableAddress, type PoolSettings } from './pool.ts'
import { NO_FILTERS, SchemaSession, startSchemaEngine, type SchemaEngine } from './schema-engine.ts'

// Brings a database up to date, as `prisma migrate deploy` does: same table, same checksums, same lock.

export interface MigrateLog {
  info (message: string): void
}

export interface MigrateOptions {
  /** Longest wait for another process that is migrating the same database, in milliseconds. */
  lockTimeoutMs?: number
  /** Longest wait for the connection, in milliseconds. */
  connectTimeoutMs?: number
  /** The migrations; those of the project when not given. */
  migrations?: readonly Migration[]
}

/** Runs one statement without parameters and answers with its rows. */
export type RunQuery = (sql: string) => Promise<Record<string, unknown>[]>

/** The database can't be brought up to date; `message` is one line for whoever runs the service. */
export class MigrationError extends Error {
  constructor (message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'MigrationError'
  }
}

/** The table that is there while a backup is being restored. */
export const RESTORE_MARK = 'landfall_restoring'
/** The key of Prisma's advisory lock. */
const LOCK = 72707369
const LOCK_RETRY_MS = 200
const LOCK_PROGRESS_MS = 5000

/**
 * Applies the migrations that a database lacks. Of any number of processes that do so at once, one applies and the
 * others wait for it. A migration is applied completely or not at all, whenever the process is killed, unless it
 * holds a `CONCURRENTLY`, which PostgreSQL refuses in a transaction.
 *
 * @returns the names of the migrations that this call applied
 * @throws {MigrationError} an earlier migration failed or was edited, the database can't be reached, or stays locked
 */
export async function applyMigrations (connection: PoolSettings['connection'], log: MigrateLog, options: MigrateOptions = {}): Promise<string[]> {
  const migrations = options.migrations ?? await readMigrations()
  const session = openSession(connection, options.connectTimeoutMs ?? 10_000)
  try {
    await reach(session, connection)
    // Nothing to do is the usual case: it needs no lock and works on a database that only reads.
    if ((await outstanding(session.query.bind(session), migrations)).length === 0) return []
    await acquireLock(session, log, options.lockTimeoutMs ?? 300_000)
    const pending = await outstanding(session.query.bind(session), migrations)
    if (pending.length === 0) return []

    await createSchema(session)
    const engine = await startSchemaEngine(session)
    try {
      for (const name of pending) {
        await applyOne(engine, session, migrations, name)
        log.info(`Applied migration ${name}`)
      }
    } finally {
      engine.free()
    }
    return pending
  } catch (error) {
    if (error instanceof MigrationError) throw error
    throw new MigrationError(`Migrating ${printableAddress(connection)} failed: ${messageOf(error)}`, { cause: error })
  } finally {
    await session.end().catch(() => {})
  }
}

/** Only where it is missing: PostgreSQL wants the right to create schemas even for one that exists. */
async function createSchema (session: SchemaSession): Promise<void> {
  const { schema } = session
  if (schema === undefined || (await session.query(`SELECT FROM pg_namespace WHERE nspname = '${schema}'`)).length > 0) return
  await session.query(`CREATE SCHEMA IF NOT EXISTS "${schema}"`)
}

/**
 * Names the migrations that a database lacks, in their order. Those of a newer build, which this one doesn't know, are
 * none of its business.
 *
 * @param query runs a statement on that database, such as `(sql) => database.$queryRawUnsafe(sql)`
 * @throws {MigrationError} when an earlier migration failed or was edited, or a restore was interrupted
 */
export async function pendingMigrations (query: RunQuery, migrations?: readonly Migration[]): Promise<string[]> {
  return await outstanding(query, migrations ?? await readMigrations())
}

/**
 * Stops a start on a database that is not up to date, when migrations are applied apart.
 *
 * @throws {MigrationError} as `applyMigrations` does, and when a migration is pending
 */
export async function requireMigrated (connection: PoolSettings['connection'], options: MigrateOptions = {}): Promise<void> {
  const session = openSession(connection, options.connectTimeoutMs ?? 10_000)
  try {
    await reach(session, connection)
    const pending = await pendingMigrations(session.query.bind(session), options.migrations)
    if (pending.length === 0) return
    throw new MigrationError(`The database lacks ${pending.length === 1 ? 'migration' : 'migrations'} ${pending.join(', ')}: run npx landfall migrate, or set MIGRATE_ON_START=true`)
  } finally {
    await session.end().catch(() => {})
  }
}

function openSession (connection: PoolSettings['connection'], connectTimeoutMs: number): SchemaSession {
  try {
    return new SchemaSession(connection, connectTimeoutMs)
  } catch (error) {
    throw new MigrationError(messageOf(error))
  }
}

async function reach (session: SchemaSession, connection: PoolSettings['connection']): Promise<void> {
  try {
    await session.query('SELECT 1')
  } catch (error) {
    throw new MigrationError(`${printableAddress(connection)} can't be used: ${messageOf(error)}`, { cause: error })
  }
}

async function outstanding (query: RunQuery, migrations: readonly Migration[]): Promise<string[]> {
  const [table] = await query(`SELECT to_regclass('_prisma_migrations') IS NOT NULL AS present, to_regclass('${RESTORE_MARK}') IS NOT NULL AS restoring`)
  if (table?.restoring === true) throw new MigrationError('The database holds a restore that was interrupted: empty it and the uploads, and restore again')
  const rows = table?.present === true
    ? await query('SELECT migration_name, checksum, finished_at, logs FROM _prisma_migrations WHERE rolled_back_at IS NULL ORDER BY started_at')
    : []
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  for (const row of rows) {
    const name = String(row.migration_name)
    const migration = known.get(name)
    if (row.finished_at === null) {
      const reason = typeof row.logs === 'string' && row.logs !== '' ? ` (${/ERROR: .*/.exec(row.logs)?.[0] ?? messageOf(row.logs)})` : ''
      throw new MigrationError(`Migration ${name} was begun and not finished${reason}: repair the database, then set rolled_back_at of its row in _prisma_migrations, or run npx prisma migrate resolve --config prisma/prisma.config.ts --rolled-back ${name}`)
    }
    // A newer build has migrated it, and this one is started in the middle of a deployment or to go back.
    if (migration === undefined) continue
    if (!checksumsOf(migration.sql).includes(String(row.checksum))) {
      throw new MigrationError(`Migration ${name} was edited after it had been applied: restore its file and put the change into a new migration`)
    }
  }
  const applied = new Set(rows.map((row) => row.migration_name))
  return migrations.map(({ name }) => name).filter((name) => !applied.has(name))
}

/** With the ends of lines of either system, as Git may have changed them. */
function checksumsOf (sql: string): string[] {
  const unix = sql.replaceAll('\r\n', '\n')
  return [sql, unix, unix.replaceAll('\n', '\r\n')].map((text) => createHash('sha256').update(text).digest('hex'))
}

/**
 * Takes the lock that the engine will ask for again: it waits without limit and in silence, and a session may take the
 * same lock any number of times. It is released with the connection.
 */
async function acquireLock (session: SchemaSession, log: MigrateLog, timeoutMs: number): Promise<void> {
  const start = performance.now()
  let reported = -Infinity
  for (;;) {
    const [row] = await session.query(`SELECT pg_try_advisory_lock(${LOCK}) AS locked`)
    if (row?.locked === true) return
    const waited = performance.now() - start
    if (waited > timeoutMs) throw new MigrationError(`Another process has been migrating the database for more than ${Math.round(timeoutMs / 1000)} seconds: gave up waiting for it`)
    if (waited - reported >= LOCK_PROGRESS_MS) {
      log.info('Another process is migrating the database, waiting for it')
      reported = waited
    }
    await sleep(LOCK_RETRY_MS)
  }
}

async function applyOne (engine: SchemaEngine, session: SchemaSession, migrations: readonly Migration[], name: string): Promise<void> {
  const upTo = migrations.slice(0, migrations.findIndex((migration) => migration.name === name) + 1)
  const transaction = !/\bCONCURRENTLY\b/i.test(upTo.at(-1)?.sql ?? '')
  try {
    // Around the engine's own bookkeeping too: killed half way, it would find its unfinished row and refuse to go on.
    if (transaction) await session.query('BEGIN')
    await engine.applyMigrations({ migrationsList: migrationList(upTo), filters: NO_FILTERS })
    if (transaction) await session.query('COMMIT')
  } catch (error) {
    if (transaction) await session.query('ROLLBACK').catch(() => {})
    const reason = session.scriptError ?? error
    throw new MigrationError(`Migration ${name} failed${transaction ? ' and was rolled back' : ''}: ${messageOf(reason)}`, { cause: reason })
  }
}

/** The migrations in the form in which the engine wants them. */
function migrationList (migrations: readonly Migration[]): Parameters<SchemaEngine['applyMigrations']>[0]['migrationsList'] {
  return {
    baseDir: 'prisma/migrations',
    lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
    shadowDbInitScript: '',
    migrationDirectories: migrations.map(({ name, sql }) => ({
      path: name,
      migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } }
    }))
  }
}
