import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, schemaOf, type Connection } from './connection.ts'
import { checksumOf, indexOf, readMigrations, type Migration, CREATE_HISTORY,
  pendingMigrations } from './migration-repository.ts'
import { MigrationError, withMigrationSession, type MigrationSession } from './migration-session.ts'

// Applies the migrations at start: docs/adr/0006-migrations-at-start.md.

export interface MigrateLog {
  info(message: string): void
}

export interface MigrateOptions {
  /**
   * Longest wait for another process that migrates the database, and for transactions that have locked a
   * table, in milliseconds. Default: 5 minutes.
   */
  lockTimeoutMs?: number
  /** Longest wait for the connection, in milliseconds. Default: 10 seconds. */
  connectTimeoutMs?: number
  /** Default: the migrations of this project. */
  migrations?: readonly Migration[]
}

/** The key of the advisory lock. Prisma uses the same key. */
const LOCK = 72707369
const LOCK_RETRY_MS = 200
const LOCK_PROGRESS_MS = 5000
/** While a migration waits for a table, all other statements on the table wait behind it. */
const TABLE_LOCK_TIMEOUT_MS = 500
/** Time in which those statements run before the next attempt. */
const TABLE_LOCK_RETRY_MS = 1000

/**
 * Applies the pending migrations of a database, each one in a transaction, except those that build an index
 * with `CONCURRENTLY`. If several processes call it at once, one applies the migrations and the others wait.
 *
 * @returns the names of the migrations that this call applied
 * @throws {MigrationError} if an earlier migration failed or was edited, the database can't be reached or
 *   stays locked, or the connection leads through a pooler
 */
export async function applyMigrations (
  connection: Connection,
  log: MigrateLog,
  options: MigrateOptions = {}
): Promise<string[]> {
  const migrations = options.migrations ?? await readMigrations()
  return await withMigrationSession(connection, options, async (session) => {
    // The usual case: no migration is pending. It needs no lock and works on a read-only database.
    if ((await pendingMigrations(session, migrations)).length === 0) return []
    if (typeof connection === 'string') await requireDirectConnection(session)
    const lockTimeoutMs = options.lockTimeoutMs ?? 300_000
    await acquireLock(session, log, lockTimeoutMs)
    const pending = await pendingMigrations(session, migrations)
    if (pending.length === 0) return []

    // A limit of the role, which docs/operations.md recommends behind PgBouncer, is too short for an index.
    await session.query('SET statement_timeout = 0')
    await createSchema(session, schemaOf(connection))
    await session.query(CREATE_HISTORY)
    await session.query(FORGET_UNFINISHED, [pending.map(({ name }) => name)])
    for (const migration of pending) {
      const index = indexOf(migration)
      if (index === undefined) {
        await applyInTransaction(session, log, migration, lockTimeoutMs)
      } else await buildIndex(session, log, migration, index)
      log.info(`Applied migration ${migration.name}`)
    }
    return pending.map(({ name }) => name)
  })
}

/**
 * Checks that no migration is pending, for a start with MIGRATE_ON_START=false.
 *
 * @throws {MigrationError} if a migration is pending, failed or was edited, or the database can't be reached
 */
export async function requireMigrated (connection: Connection, options: MigrateOptions = {}): Promise<void> {
  const pending = await withMigrationSession(
    connection,
    options,
    async (session) => await pendingMigrations(session, options.migrations)
  )
  if (pending.length === 0) return
  const names = pending.map(({ name }) => name).join(', ')
  throw new MigrationError(`The database lacks ${pending.length === 1 ? 'migration' : 'migrations'} ` +
    `${names}: run npm run landfall -- migrate, or set MIGRATE_ON_START=true`)
}

/**
 * A pooler may run each statement on another connection: the lock would be shared with other processes, and
 * outlive this one. It answers with a process id of its own when a client connects.
 */
async function requireDirectConnection (session: MigrationSession): Promise<void> {
  const [row] = await session.query('SELECT pg_backend_pid() AS id')
  if (row?.id === session.processId) return
  throw new MigrationError("Migrations can't run through a pooler such as PgBouncer, which doesn't keep " +
    'their lock: set MIGRATE_ON_START=false and run npm run landfall -- migrate with a DATABASE_URL that ' +
    'leads directly to PostgreSQL')
}

/** Creates the schema if it is missing. IF NOT EXISTS would need the privilege in any case. */
async function createSchema (session: MigrationSession, schema: string | undefined): Promise<void> {
  if (schema === undefined) return
  const found = await session.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
  if (found.length === 0) await session.query(`CREATE SCHEMA "${schema}"`)
}

/** Takes the lock, which PostgreSQL releases when the connection ends. */
async function acquireLock (session: MigrationSession, log: MigrateLog, timeoutMs: number): Promise<void> {
  const start = performance.now()
  let reported = -Infinity
  for (;;) {
    const [row] = await session.query(`SELECT pg_try_advisory_lock(${LOCK}) AS locked`)
    if (row?.locked === true) return
    const waited = performance.now() - start
    if (waited > timeoutMs) {
      throw new MigrationError('Another process has been migrating the database for more than ' +
        `${Math.round(timeoutMs / 1000)} seconds: gave up waiting for it`)
    }
    if (waited - reported >= LOCK_PROGRESS_MS) {
      log.info('Another process is migrating the database, waiting for it')
      reported = waited
    }
    await sleep(LOCK_RETRY_MS)
  }
}

const INSERT_ROW = `INSERT INTO _prisma_migrations (id, checksum, migration_name, started_at)
  VALUES ($1, $2, $3, clock_timestamp())`
const FINISH_ROW =
  'UPDATE _prisma_migrations SET finished_at = clock_timestamp(), applied_steps_count = 1 WHERE id = $1'

/** Only migrations that build an index can have such rows, after an interruption. */
const FORGET_UNFINISHED = `DELETE FROM _prisma_migrations
  WHERE finished_at IS NULL AND rolled_back_at IS NULL AND migration_name = ANY ($1)`

/** SQLSTATE lock_not_available and deadlock_detected: another transaction has locked a table. */
const isLocked = (error: unknown): boolean =>
  error instanceof Error && ['55P03', '40P01'].includes((error as { code?: string }).code ?? '')

/** Applies a migration. If a table is locked, it tries again, so that no request waits for long behind it. */
async function applyInTransaction (
  session: MigrationSession,
  log: MigrateLog,
  { name, sql }: Migration,
  timeoutMs: number
): Promise<void> {
  const start = performance.now()
  let reported = -Infinity
  for (;;) {
    try {
      const id = randomUUID()
      await session.query('BEGIN')
      await session.query(`SET LOCAL lock_timeout = ${TABLE_LOCK_TIMEOUT_MS}`)
      await session.query(INSERT_ROW, [id, checksumOf(sql), name])
      await session.runScript(sql)
      await session.query(FINISH_ROW, [id])
      await session.query('COMMIT')
      return
    } catch (error) {
      await session.query('ROLLBACK').catch(() => {})
      const waited = performance.now() - start
      if (!isLocked(error) || waited > timeoutMs) {
        const reason = isLocked(error) ? `a table stayed locked. ${await describeOldest(session)}`
          : messageOf(error)
        throw new MigrationError(`Migration ${name} failed and was rolled back: ${reason}`, { cause: error })
      }
      if (waited - reported >= LOCK_PROGRESS_MS) {
        log
          .info(`Migration ${name} needs a table that is locked, trying again. ${await describeOldest(session)}`)
        reported = waited
      }
      await sleep(TABLE_LOCK_RETRY_MS)
    }
  }
}

/** Names the oldest open transaction, which is most likely the one that others wait for. */
async function describeOldest (session: MigrationSession): Promise<string> {
  const [oldest] = await session.query(`
    SELECT pid, application_name AS name, extract(epoch FROM clock_timestamp() - xact_start)::integer AS seconds
    FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY xact_start LIMIT 1`)
  if (oldest === undefined) return 'No other transaction is open any more'
  const name = oldest.name === '' ? '' : ` (${oldest.name})`
  return `The oldest open transaction is that of process ${oldest.pid}${name}, open for ${oldest.seconds} s`
}

/**
 * Builds an index while requests go on, which PostgreSQL does only outside of a transaction. At the end it
 * waits for all transactions that have begun before. An attempt that was interrupted leaves an invalid index.
 */
async function buildIndex (
  session: MigrationSession,
  log: MigrateLog,
  { name, sql }: Migration,
  index: string
): Promise<void> {
  const id = randomUUID()
  const progress = setInterval(() => {
    log.info(`Migration ${name} is still building the index ${index} while requests go on. It ends after ` +
      'the transactions that were open when it began, such as a backup')
  }, LOCK_PROGRESS_MS)
  try {
    await dropInvalid(session, index)
    await session.query(INSERT_ROW, [id, checksumOf(sql), name])
    await session.runScript(sql)
    await session.query(FINISH_ROW, [id])
  } catch (error) {
    await dropInvalid(session, index).catch(() => {})
    await session.query('DELETE FROM _prisma_migrations WHERE id = $1', [id]).catch(() => {})
    throw new MigrationError(`Migration ${name} failed: ${messageOf(error)}`, { cause: error })
  } finally {
    clearInterval(progress)
  }
}

async function dropInvalid (session: MigrationSession, index: string): Promise<void> {
  const found = await session.query(
    'SELECT FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid',
    [`"${index}"`]
  )
  if (found.length > 0) await session.runScript(`DROP INDEX CONCURRENTLY "${index}"`)
}
