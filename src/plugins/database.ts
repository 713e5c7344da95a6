import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Database } from '../database/client.ts'
import { startEmbedded, type EmbeddedDatabase } from '../database/embedded.ts'
import { applyMigrations, requireMigrated } from '../database/migrate.ts'
import { BoundedPool, CONNECT, schemaOf, type PoolSettings } from '../database/pool.ts'
import { isServerTrouble } from '../database/unavailable.ts'
import { serveVisits, VISIT_SOCKET } from '../database/visit.ts'
import { observedBy, type Observer } from '../observer.ts'
import { gaugeOf } from './metrics.ts'

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
    timeoutMs: config.DATABASE_TIMEOUT_MS,
    observer: observedBy(statementSeconds(app.metrics), app.tracing?.observer('postgresql'))
  })
  poolMetrics(app.metrics, pool)
  const client = new Database(pool, {
    schema: typeof connection === 'string' ? schemaOf(connection) : undefined,
    // Prisma's own limits only have to be longer than the pool's, which name the reason.
    transactionTimeoutMs: config.DATABASE_TIMEOUT_MS + 500,
    onLost: (error) => app.log.warn({ reason: error.message }, 'a connection to PostgreSQL was lost')
  })
  app.decorate('database', client)
  const visits = embedded === undefined ? undefined : await serveVisits(client, join(embedded.connection.host, VISIT_SOCKET))
  app.addHook('onClose', async () => {
    await visits?.close()
    await client.$disconnect()
    if (!pool.ended) await pool.end()
  })
}

/** In seconds: from a row by its key to the time-out. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

function statementSeconds (registry: Registry): Observer {
  const statements = new Histogram({
    name: 'landfall_database_statement_duration_seconds',
    help: 'Statements by result: ok, error (PostgreSQL refused it: a constraint, a value) or unavailable (PostgreSQL is away or too slow)',
    labelNames: ['result'],
    buckets: BUCKETS,
    registers: [registry]
  })
  const waits = new Histogram({
    name: 'landfall_database_connection_wait_seconds',
    help: 'Waits for a connection of the pool by result: ok or unavailable (there was none in time, or PostgreSQL is away)',
    labelNames: ['result'],
    buckets: BUCKETS,
    registers: [registry]
  })
  for (const result of ['ok', 'error', 'unavailable']) statements.zero({ result })
  for (const result of ['ok', 'unavailable']) waits.zero({ result })
  return (text) => {
    const startedAt = performance.now()
    return (error) => {
      const seconds = (performance.now() - startedAt) / 1000
      if (text === CONNECT) waits.observe({ result: error === undefined ? 'ok' : 'unavailable' }, seconds)
      else statements.observe({ result: error === undefined ? 'ok' : isServerTrouble(error) ? 'unavailable' : 'error' }, seconds)
    }
  }
}

function poolMetrics (registry: Registry, pool: BoundedPool): void {
  const connections = () => ({ idle: pool.idleCount, in_use: pool.totalCount - pool.idleCount })
  gaugeOf(registry, { name: 'landfall_database_connections', help: 'Connections to PostgreSQL' }, connections, 'state')
  gaugeOf(registry, { name: 'landfall_database_connections_max', help: 'Connections that there may be (DATABASE_POOL_SIZE)' }, () => pool.options.max)
  gaugeOf(registry, { name: 'landfall_database_waiting', help: 'Statements that wait for a connection' }, () => pool.waitingCount)
}

export default fp(database, { name: 'database', dependencies: ['metrics', 'tracing'] })
