import { applyMigrations, MigrationError, pendingMigrations } from '../database/migrate.ts'
import { statement } from '../database/statement.ts'
import { besideEmbedded, log } from './database.ts'
import { print } from './output.ts'
import { commandSettings } from './settings.ts'

/**
 * Brings the database of the settings up to date.
 *
 * @throws {ConfigError|MigrationError|DataDirError} one line for whoever runs it
 */
export async function migrateCommand (): Promise<number> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = commandSettings()
  const applied = url !== undefined
    ? await applyMigrations(url, log)
    : await besideEmbedded(dataDir, async (service) => {
      const pending = await pendingMigrations(async (sql) => await service.run(statement<Record<string, unknown>>(sql), []))
      if (pending.length > 0) throw new MigrationError(`A service runs on DATA_DIR ${dataDir}, which lacks ${pending.join(', ')}: stop it, and run this again`)
      return pending
    }, async (connection) => await applyMigrations(connection, log))
  print(applied.length === 0 ? 'The database is up to date\n' : `Applied ${applied.length === 1 ? 'migration' : 'migrations'} ${applied.join(', ')}\n`)
  return 0
}
