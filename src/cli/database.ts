import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { DataDirError, startEmbedded } from '../database/embedded.ts'
import { besideService } from '../database/hold.ts'
import { applyMigrations, requireMigrated } from '../database/migrate.ts'
import { BoundedPool, type PoolSettings } from '../database/pool.ts'
import type { StatementRunner } from '../database/statement.ts'
import { Visit, VISIT_SOCKET } from '../database/visit.ts'
import { say } from './output.ts'

// The database of the settings, also while an embedded service has it.

/** Somebody waits for the command alone, who would rather wait than try again. */
const TIMEOUT_MS = 30_000
export const log = { info: say }

/** Runs something on the database that the service uses, which may be running. */
export async function withDatabase<T> (config: Config, action: (database: StatementRunner) => Promise<T>): Promise<T> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config
  if (url !== undefined) {
    await requireMigrated(url, { connectTimeoutMs: TIMEOUT_MS })
    return await withPool(url, action)
  }
  if (!existsSync(join(dataDir, 'postgres'))) throw new DataDirError(`DATA_DIR ${dataDir} holds no database: name another DATA_DIR, set DATABASE_URL, or make one with npx landfall migrate`)
  return await besideEmbedded(dataDir, action, async (connection) => {
    await applyMigrations(connection, log)
    return await withPool(connection, action)
  })
}

/** Works through the embedded service that runs in the folder, or on its database where none runs. */
export async function besideEmbedded<T> (dataDir: string, through: (service: StatementRunner) => Promise<T>, alone: (connection: PoolSettings['connection']) => Promise<T>): Promise<T> {
  return await besideService(dataDir, VISIT_SOCKET, async (socket) => {
    const visit = new Visit(socket)
    return await through(visit).finally(() => visit.close())
  }, async () => {
    // What is being written when its folder is lost can't be trusted any more.
    const embedded = await startEmbedded(dataDir, log, (error) => { throw error })
    return await alone(embedded.connection).finally(async () => await embedded.close())
  })
}

async function withPool<T> (connection: PoolSettings['connection'], action: (database: StatementRunner) => Promise<T>): Promise<T> {
  const pool = new BoundedPool({ connection, max: 1, timeoutMs: TIMEOUT_MS })
  pool.on('error', () => {}) // the next statement fails and says so
  return await action(pool).finally(async () => await pool.end())
}
