import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Database } from '../database/client.ts'
import { startEmbedded, type EmbeddedDatabase } from '../database/embedded.ts'
import { applyMigrations, requireMigrated } from '../database/migrate.ts'
import { BoundedPool, schemaOf, type PoolSettings } from '../database/pool.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** PostgreSQL. What its errors mean is told by `isDatabaseUnavailable`. */
    database: Database
  }
}

export interface DatabaseOptions {
  config: Pick<Config, 'DATABASE_URL' | 'DATABASE_POOL_SIZE' | 'DATABASE_TIMEOUT_MS' | 'DATA_DIR' | 'MIGRATE_ON_START'>
}

/**
 * Opens the database of the settings, embedded when there is no DATABASE_URL, and brings it up to date. That may take
 * longer than Fastify lets a plugin take by default (`pluginTimeout`): a migration, or the one of another replica.
 *
 * @throws {MigrationError|DataDirError} the database can't be reached, used or migrated
 */
async function database (app: FastifyInstance, { config }: DatabaseOptions): Promise<void> {
  let embedded: EmbeddedDatabase | undefined
  if (config.DATABASE_URL === undefined) {
    embedded = await startEmbedded(config.DATA_DIR, app.log, (error) => {
      app.log.fatal({ err: error }, 'the embedded database is lost: ending')
      // Nothing works without it, and writing on could destroy it: an end that nobody can overlook.
      setImmediate(() => { throw error })
    })
    // Hooks run in reverse: the client below closes its connection before this.
    app.addHook('onClose', async () => await embedded?.close())
  }

  const connection: PoolSettings['connection'] = embedded?.connection ?? config.DATABASE_URL as string
  const limits = { connectTimeoutMs: config.DATABASE_TIMEOUT_MS }
  if (config.MIGRATE_ON_START) await applyMigrations(connection, app.log, limits)
  else await requireMigrated(connection, limits)

  const pool = new BoundedPool({
    connection,
    // The embedded one has a single session: more connections would only wait for it in another place.
    max: embedded === undefined ? config.DATABASE_POOL_SIZE : 1,
    timeoutMs: config.DATABASE_TIMEOUT_MS
  })
  const client = new Database(pool, {
    schema: typeof connection === 'string' ? schemaOf(connection) : undefined,
    // Prisma's own limits only have to be longer than the pool's, which name the reason.
    transactionTimeoutMs: config.DATABASE_TIMEOUT_MS + 500,
    onLost: (error) => app.log.warn({ reason: error.message }, 'a connection to PostgreSQL was lost')
  })
  app.decorate('database', client)
  app.addHook('onClose', async () => {
    await client.$disconnect()
    if (!pool.ended) await pool.end()
  })
}

export default fp(database, { name: 'database' })
