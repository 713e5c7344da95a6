import { loadConfig, readEnvironment, type Config } from '../config.ts'
import { besideService, requireEmbedded } from '../infra/pglite/beside-service.ts'
import type { RedisCommands, RedisScripts } from '../infra/redis/connections.ts'
import { withTimeLimit } from '../infra/system/time-limit.ts'
import { applyMigrations, requireMigrated } from '../infra/postgres/migrate.ts'
import { schemaOf, type Connection } from '../infra/postgres/connection.ts'
import { Database } from '../infra/postgres/database.ts'
import { withConnection } from '../infra/postgres/pool.ts'
import { audit, type AuditFields } from '../infra/telemetry/audit.ts'
import { createCommandLogger } from '../infra/telemetry/logger.ts'
import { printProgress } from './output.ts'

// Shared by the commands of operators: settings, the audit trail, the database and Redis. A service may be
// running on them at the same time.

/** Longer than in the service, because no other request waits for a command. */
const TIMEOUT_MS = 30_000
const REDIS_TIMEOUT_MS = 5000

/**
 * Loads the settings of a command other than `serve`. Such a command needs no JWT_SECRET and has no workers,
 * so the rules for JWT_SECRET and WEB_CONCURRENCY don't apply.
 *
 * @throws {ConfigError} the message names every invalid setting
 */
export function loadCommandConfig (): Config {
  const environment = readEnvironment()
  return loadConfig({
    ...environment,
    WEB_CONCURRENCY: '1',
    JWT_SECRET_FILE: undefined,
    JWT_SECRET_PREVIOUS_FILE: undefined,
    JWT_SECRET: environment.JWT_SECRET || 'not used by commands'.padEnd(32, '.')
  })
}

/**
 * Writes a line of the audit trail about what a command has changed, to standard error. On a terminal the
 * person has already read what the command did.
 */
export function auditCommand (command: string, fields: AuditFields): void {
  if (process.stderr.isTTY) return
  audit(createCommandLogger(), 'command', { command, uid: process.getuid?.(), ...fields })
}

export const progressLog = { info: printProgress, warn: printProgress }

/**
 * Runs `action` on the database of the settings.
 *
 * @throws {DataDirError} DATA_DIR contains no database, or can't be used
 */
export async function withDatabase<T> (
  { DATABASE_URL: url, DATA_DIR: dataDir, CDN_PURGE: cdn }: Config,
  action: (database: Database) => Promise<T>
): Promise<T> {
  const run = async (connection: Connection): Promise<T> =>
    await withConnection(
      connection,
      async (pool) => await action(new Database(pool, schemaOf(connection), cdn !== undefined))
    )
  if (url !== undefined) {
    await requireMigrated(url, { connectTimeoutMs: TIMEOUT_MS })
    return await run(url)
  }
  requireEmbedded(dataDir)
  return await besideService(dataDir, progressLog, async (connection, isServed) => {
    if (!isServed) await applyMigrations(connection, progressLog)
    return await run(connection)
  })
}

/**
 * Runs `action` on the Redis of the settings.
 *
 * @throws {Error} Redis can't be reached, or doesn't answer in time
 */
export async function withRedis<T> (
  url: string,
  scripts: RedisScripts,
  action: (redis: RedisCommands) => Promise<T>
): Promise<T> {
  // Other commands start faster without it.
  const { createCommandConnection } = await import('../infra/redis/connections.ts')
  const redis = createCommandConnection(url, scripts)
  redis.on('error', () => {}) // connect() reports it, too
  let nodeError: Error | undefined
  redis.on('node error', (error: Error) => {
    nodeError = error
  })
  try {
    await redis.connect().catch((error: unknown) => {
      throw nodeError ?? error // for a cluster, connect() doesn't say why
    })
    return await withTimeLimit(action(redis), REDIS_TIMEOUT_MS)
  } catch (error) {
    throw new Error(`Redis cannot be reached: ${(error as Error).message} (check REDIS_URL)`, {
      cause: error
    })
  } finally {
    redis.disconnect()
  }
}
