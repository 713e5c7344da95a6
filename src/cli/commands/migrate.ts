import { applyMigrations } from '../../infra/postgres/migrate.ts'
import { MigrationError, pendingMigrations } from '../../infra/postgres/migration-history.ts'
import { progressLog, withEmbeddedDatabase } from '../database.ts'
import { print } from '../output.ts'
import { loadCommandConfig } from '../settings.ts'

/**
 * Applies the outstanding migrations.
 *
 * @returns the exit code
 * @throws {ConfigError|MigrationError|DataDirError} with one line for the user
 */
export async function migrate (): Promise<number> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = loadCommandConfig()
  const applied = url !== undefined
    ? await applyMigrations(url, progressLog)
    : await withEmbeddedDatabase(dataDir, {
      async whileServiceRuns (service) {
        const pending = (await pendingMigrations(service)).map(({ name }) => name)
        if (pending.length === 0) return []
        throw new MigrationError(`DATA_DIR ${dataDir} lacks ${
          pending.join(', ')
        }, and a service is running on it: stop the service and run this again`)
      },
      otherwise: async (connection) => await applyMigrations(connection, progressLog)
    })
  print(applied.length === 0 ? 'The database is up to date\n'
    : `Applied ${applied.length === 1 ? 'migration' : 'migrations'} ${applied.join(', ')}\n`)
  return 0
}
