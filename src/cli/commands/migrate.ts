import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { applyMigrations, withMigrationSession } from '../../infra/postgres/migrate.ts'
import { MigrationError, migrationStates,
  pendingMigrations } from '../../infra/postgres/migration-repository.ts'
import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { auditCommand, loadCommandConfig, progressLog, withEmbeddedDatabase } from '../operator.ts'
import { formatTable, print } from '../output.ts'

// The commands that apply and list migrations. The message of each error is one line, for the user.

const UP_TO_DATE = 'The database is up to date\n'

export async function migrate (): Promise<void> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = loadCommandConfig()
  const applied = url !== undefined
    ? await applyMigrations(url, progressLog)
    : await withEmbeddedDatabase(dataDir, async (service) => {
      const pending = (await pendingMigrations(service)).map(({ name }) => name)
      if (pending.length === 0) return []
      throw new MigrationError(`DATA_DIR ${dataDir} lacks ${pending.join(', ')}, and a service is running ` +
        'on it: stop the service and run this again')
    }, async (connection) => await applyMigrations(connection, progressLog))
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
  const pending = await inspectDatabase(async (database) => await pendingMigrations(database))
  print(pending.length === 0 ? UP_TO_DATE
    : pending.map(({ name, sql }) => `-- Migration ${name}\n${sql.trimEnd()}\n`).join('\n'))
}

async function inspectDatabase<T> (inspect: (database: StatementRunner) => Promise<T>): Promise<T> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = loadCommandConfig()
  if (url !== undefined) return await withMigrationSession(url, {}, inspect)
  if (!existsSync(join(dataDir, 'postgres'))) return await inspect({ run: async () => [] }) // not created yet
  return await withEmbeddedDatabase(
    dataDir,
    inspect,
    async (connection) => await withMigrationSession(connection, {}, inspect)
  )
}
