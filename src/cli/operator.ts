import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig, readEnvironment, type Config } from '../config.ts'
import { DataDirError, startEmbedded } from '../infra/pglite/embedded.ts'
import { besideService } from '../infra/pglite/freeze-lock.ts'
import { createCommandConnection, type RedisCommands, type RedisScripts } from '../infra/redis/connections.ts'
import { withTimeLimit } from '../infra/system/time-limit.ts'
import { applyMigrations, requireMigrated } from '../infra/postgres/migrate.ts'
import type { Connection } from '../infra/postgres/connection.ts'
import { withConnection } from '../infra/postgres/pool.ts'
import type { StatementRunner } from '../infra/postgres/statement.ts'
import { AdminConnection, ADMIN_SOCKET } from '../infra/pglite/admin-socket.ts'
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
  config: Config,
  action: (database: StatementRunner) => Promise<T>
): Promise<T> {
  const { DATABASE_URL: url, DATA_DIR: dataDir, CDN_PURGE: cdn } = config
  const run = async (database: StatementRunner): Promise<T> =>
    await action({
      purges: cdn !== undefined,
      run: async (statement, values) => await database.run(statement, values)
    })
  if (url !== undefined) {
    await requireMigrated(url, { connectTimeoutMs: TIMEOUT_MS })
    return await withConnection(url, run)
  }
  if (!existsSync(join(dataDir, 'postgres'))) {
    throw new DataDirError(`DATA_DIR ${dataDir} holds no database: this command is for operators, with ` +
      'the settings of the service. Name another DATA_DIR, set DATABASE_URL, or create one with ' +
      'npm run landfall -- migrate')
  }
  return await withEmbeddedDatabase(dataDir, run, async (connection) => {
    await applyMigrations(connection, progressLog)
    return await withConnection(connection, run)
  })
}

/**
 * Runs an action on the embedded database in `dataDir`.
 *
 * @param whileServiceRuns if a service uses the database: statements go through its admin socket
 * @param otherwise this process has started the database
 */
export async function withEmbeddedDatabase<T> (
  dataDir: string,
  whileServiceRuns: (service: StatementRunner) => Promise<T>,
  otherwise: (connection: Connection) => Promise<T>
): Promise<T> {
  return await besideService(dataDir, ADMIN_SOCKET, async (socket) => {
    const connection = new AdminConnection(socket)
    return await whileServiceRuns(connection).finally(() => connection.close())
  }, async () => {
    // Another process has taken over the folder. Further writes could damage the database, so end at once.
    const embedded = await startEmbedded(dataDir, progressLog, (error) => {
      throw error
    })
    return await otherwise(embedded.connection).finally(async () => await embedded.close())
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
