import { ConfigError, loadConfig, readEnvironment } from '../config.ts'
import { startEmbedded } from './embedded.ts'
import { applyMigrations } from './migrate.ts'

// npm run db:migrate: brings the database of the settings up to date and ends.

const log = { info: (message: string) => { process.stdout.write(`${message}\n`) } }

async function main (): Promise<void> {
  const environment = readEnvironment()
  // A job that migrates needs no key of the access tokens, and nothing that workers share.
  const config = loadConfig({ ...environment, WEB_CONCURRENCY: '1', JWT_SECRET: environment.JWT_SECRET || 'not used by migrations'.padEnd(32, '.') })
  const lost = (error: Error) => { throw error }
  const embedded = config.DATABASE_URL === undefined ? await startEmbedded(config.DATA_DIR, log, lost) : undefined
  try {
    const applied = await applyMigrations(embedded?.connection ?? config.DATABASE_URL as string, log)
    if (applied.length === 0) log.info('The database is up to date')
  } finally {
    await embedded?.close()
  }
}

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(error instanceof ConfigError ? `These settings can't be used:\n${message}\n` : `${message}\n`)
  process.exitCode = 1
})
