import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { applyMigrations } from '../../infra/postgres/migrate.ts'
import { migrationStates, pendingMigrations } from '../../infra/postgres/migration-repository.ts'
import { MigrationError, withMigrationSession,
  type MigrationSession } from '../../infra/postgres/migration-session.ts'
import { besideService } from '../../infra/pglite/beside-service.ts'
import type { Connection } from '../../infra/postgres/connection.ts'
import { auditCommand, loadCommandConfig, progressLog } from '../operator.ts'
import { formatTable, print } from '../output.ts'

// The commands that apply and list migrations. The message of each error is one line, for the user.

const UP_TO_DATE = 'The database is up to date\n'

export async function migrate (): Promise<void> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = loadCommandConfig()
  const apply = async (connection: Connection, isServed = false): Promise<string[]> => {
    if (!isServed) return await applyMigrations(connection, progressLog)
    const pending = (await withMigrationSession(connection, {}, pendingMigrations)).map(({ name }) => name)
    if (pending.length === 0) return []
    throw new MigrationError(`DATA_DIR ${dataDir} lacks ${pending.join(', ')}, and a service is running ` +
      'on it: stop the service and run this again')
  }
  const applied = url === undefined ? await besideService(dataDir, progressLog, apply) : await apply(url)
  if (applied.length > 0) auditCommand('migrate', { applied })
  print(applied.length === 0 ? UP_TO_DATE
    : `Applied ${applied.length === 1 ? 'migration' : 'migrations'} ${applied.join(', ')}\n`)
}

/** Prints which migrations are applied. Returns the exit code of the command: 0 if all are, else 1. */
export async function showMigrations (): Promise<number> {
  const states = await inspectDatabase(migrationStates)
  print(formatTable([['MIGRATION', 'STATE'], ...states.map(({ name, state }) => [name, state])]))
  return states.every(({ isApplied }) => isApplied) ? 0 : 1
}

/** Prints the SQL that `migrate` would run, and changes nothing. */
export async function previewMigrations (): Promise<void> {
  const pending = await inspectDatabase(pendingMigrations)
  print(pending.length === 0 ? UP_TO_DATE
    : pending.map(({ name, sql }) => `-- Migration ${name}\n${sql.trimEnd()}\n`).join('\n'))
}

/** @param inspect without a session if the embedded database is not created yet */
async function inspectDatabase<T> (inspect: (session?: MigrationSession) => Promise<T>): Promise<T> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = loadCommandConfig()
  const connect = async (connection: Connection): Promise<T> =>
    await withMigrationSession(connection, {}, inspect)
  if (url !== undefined) return await connect(url)
  if (!existsSync(join(dataDir, 'postgres'))) return await inspect()
  return await besideService(dataDir, progressLog, connect)
}
