import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { messageOf } from './connection.ts'
import { MigrationError, type MigrationSession } from './migration-session.ts'

// The applied migrations of a database. They are in Prisma's table `_prisma_migrations`, which the service
// writes exactly as `prisma migrate deploy` does, so that both can be used on one database.

/** The table that exists while a backup is being restored. */
export const RESTORE_MARK = 'landfall_restoring'

/** The same definition as Prisma's. */
export const CREATE_HISTORY = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id                  VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum            VARCHAR(64) NOT NULL,
    finished_at         TIMESTAMPTZ,
    migration_name      VARCHAR(255) NOT NULL,
    logs                TEXT,
    rolled_back_at      TIMESTAMPTZ,
    started_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0
  )`

const FIND_TABLES = `
  SELECT to_regclass('_prisma_migrations') IS NOT NULL AS "hasHistory",
    to_regclass('${RESTORE_MARK}') IS NOT NULL AS "isRestoring"`

interface AppliedMigration {
  readonly name: string
  readonly checksum: string
  readonly isFinished: boolean
  readonly logs: string | null
}

const LIST_APPLIED = `
  SELECT migration_name AS name, checksum, finished_at IS NOT NULL AS "isFinished", logs
  FROM _prisma_migrations WHERE rolled_back_at IS NULL ORDER BY started_at`

/** A migration of this release or of the database. `state` is for the operator. */
export interface MigrationState {
  readonly name: string
  readonly state: string
  readonly isApplied: boolean
}

/**
 * Lists all migrations with their states, in order.
 *
 * @param session undefined for a database that hasn't been created yet
 * @throws {MigrationError} if a restore was interrupted
 */
export async function migrationStates (session?: MigrationSession): Promise<MigrationState[]> {
  const known = await readMigrations()
  const applied = new Map((await readHistory(session)).map((row) => [row.name, row]))
  const names = [...new Set([...known.map(({ name }) => name), ...applied.keys()])].sort()
  return names.map((name) => {
    const migration = known.find((one) => one.name === name)
    const row = applied.get(name)
    if (row === undefined) return { name, state: 'pending', isApplied: false }
    if (!row.isFinished) return { name, state: `failed${failureOf(row)}`, isApplied: false }
    if (migration === undefined) return { name, state: 'applied by a newer release', isApplied: true }
    const isUnchanged = matchesChecksum(migration, row.checksum)
    return { name, state: isUnchanged ? 'applied' : 'edited after it was applied', isApplied: isUnchanged }
  })
}

/**
 * Lists the pending migrations of a database, in order. Applied migrations that this release doesn't contain
 * are ignored, because a newer release has applied them.
 *
 * @throws {MigrationError} if an earlier migration failed or was edited, or a restore was interrupted
 */
export async function pendingMigrations (
  session?: MigrationSession,
  migrations?: readonly Migration[]
): Promise<Migration[]> {
  const known = migrations ?? await readMigrations()
  const rows = await readHistory(session)
  // Another process may be building an index, or has been interrupted. It can be built again.
  const indexes =
    new Set(known.filter((migration) => indexOf(migration) !== undefined).map(({ name }) => name))
  const unfinished = rows.find((row) => !row.isFinished && !indexes.has(row.name))
  if (unfinished !== undefined) throw createUnfinishedError(unfinished)
  const applied = new Map(rows.filter((row) => row.isFinished).map((row) => [row.name, row]))
  for (const migration of known) {
    const row = applied.get(migration.name)
    if (row !== undefined && !matchesChecksum(migration, row.checksum)) {
      throw new MigrationError(`Migration ${migration.name} was edited after it had been applied: restore ` +
        'its file and put the change into a new migration')
    }
  }
  return known.filter(({ name }) => !applied.has(name))
}

async function readHistory (session: MigrationSession | undefined): Promise<AppliedMigration[]> {
  const [tables] = await session?.query<{ hasHistory: boolean, isRestoring: boolean }>(FIND_TABLES) ?? []
  if (tables?.isRestoring === true) {
    throw new MigrationError('A restore into this database was interrupted: empty the database and the ' +
      'uploads, and restore again')
  }
  return tables?.hasHistory === true ? await session?.query<AppliedMigration>(LIST_APPLIED) ?? [] : []
}

function createUnfinishedError (row: AppliedMigration): MigrationError {
  return new MigrationError(`Migration ${row.name} was started and did not finish${failureOf(row)}: undo ` +
    'its changes, then set rolled_back_at of its row in _prisma_migrations, or run npx prisma migrate ' +
    `resolve --config prisma/prisma.config.ts --rolled-back ${row.name}`)
}

/** In parentheses, the error in the output of the migration, which Prisma keeps in `logs`. */
const failureOf = ({ logs }: AppliedMigration): string =>
  logs === null || logs === '' ? '' : ` (${/ERROR: .*/.exec(logs)?.[0] ?? messageOf(logs)})`

/** The folder of the migrations. The relative path is the same from src/ and from dist/. */
export const MIGRATIONS = new URL('../../../prisma/migrations/', import.meta.url)

export interface Migration {
  /** The name of its folder, `<time>_<description>`. */
  readonly name: string
  readonly sql: string
}

/**
 * Reads all migrations, in the order in which they are applied.
 *
 * @throws {Error} if a folder has no readable migration.sql
 */
export async function readMigrations (folder: URL = MIGRATIONS): Promise<Migration[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort()
  return await Promise.all(names.map(async (name) => ({
    name,
    sql: await readFile(new URL(`${encodeURIComponent(name)}/migration.sql`, folder), 'utf8')
  })))
}

/** Prisma's checksum of a migration: SHA-256 of migration.sql, in hex. */
export function checksumOf (sql: string): string {
  return createHash('sha256').update(sql).digest('hex')
}

/** Whether a migration has this checksum with any line endings, because Git may have converted them. */
export function matchesChecksum ({ sql }: Migration, checksum: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n')
  return [sql, unix, unix.replaceAll('\n', '\r\n')].some((text) => checksumOf(text) === checksum)
}

/** The index that a migration builds with CONCURRENTLY, in its only statement; undefined for others. */
export function indexOf ({ sql }: Migration): string | undefined {
  return /^(?:\s|--.*)*CREATE (?:UNIQUE )?INDEX CONCURRENTLY "?(\w+)"?/i.exec(sql)?.[1]
}
