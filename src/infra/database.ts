import type { FastifyInstance } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import fp from 'fastify-plugin'
import { Database } from './postgres/database.ts'
import { startEmbedded, type EmbeddedDatabase } from './pglite/embedded.ts'
import { schemaOf, type Connection } from './postgres/connection.ts'
import { applyMigrations, requireMigrated } from './postgres/migrate.ts'
import { BoundedPool, CONNECT } from './postgres/pool.ts'
import { Reachability } from './postgres/reachability.ts'
import { isServerFault } from './postgres/unavailable.ts'
import { combineQueryHooks, type QueryHook } from './telemetry/query-hooks.ts'
import { addMetrics } from './telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** PostgreSQL. `isDatabaseUnavailable` classifies its errors. */
    database: Database
    /** Returns whether PostgreSQL is reachable, after the probe that a failed statement starts. */
    isDatabaseReachable: () => Promise<boolean>
    /** Sets what is called when a command may have changed something in the embedded database. */
    onCommand: (listener: () => void) => void
  }
}

/**
 * Opens PostgreSQL, or the embedded PostgreSQL without DATABASE_URL, and applies the migrations. This may
 * take longer than Fastify's default `pluginTimeout`, for example while another replica applies them.
 *
 * @throws {MigrationError|DataDirError} if the database can't be reached, used or migrated
 */
async function database (app: FastifyInstance): Promise<void> {
  const { config } = app
  let embedded: EmbeddedDatabase | undefined
  if (config.DATABASE_URL === undefined) {
    embedded = await startEmbedded(config.DATA_DIR, app.log, (error) => {
      app.log.fatal({ err: error }, 'the embedded database failed; the process ends')
      // An uncaught error ends the process. Continuing could corrupt the database.
      setImmediate(() => {
        throw error
      })
    })
    // onClose hooks run in reverse order, so the client below is closed first.
    app.addHook('onClose', async () => await embedded?.close())
  }

  const connection: Connection = embedded?.connection ?? config.DATABASE_URL as string
  const limits = { connectTimeoutMs: config.DATABASE_TIMEOUT_MS }
  if (config.MIGRATE_ON_START) await applyMigrations(connection, app.log, limits)
  else await requireMigrated(connection, limits)

  const reachability = new Reachability(async () => await pool.query('SELECT 1'), app.log)
  const pool = new BoundedPool({
    connection,
    // The embedded PostgreSQL has a single session.
    max: embedded === undefined ? config.DATABASE_POOL_SIZE : 1,
    timeoutMs: config.DATABASE_TIMEOUT_MS,
    queryHook: combineQueryHooks(
      statementSeconds(app.metrics, () => reachability.suspect()),
      app.tracer?.queryHook('postgresql')
    )
  })
  pool.on('error', () => reachability.suspect())
  const client = new Database(pool, schemaOf(connection), config.CDN_PURGE !== undefined)
  app.decorate('database', client)
  app.decorate('isDatabaseReachable', async () => await reachability.confirm())
  addMetrics(app.metrics, {
    landfall_database_up: [
      '1: PostgreSQL answers. 0: it is unreachable, or takes longer than DATABASE_TIMEOUT_MS',
      () => reachability.isReachable ? 1 : 0,
      { aggregator: 'min' }
    ],
    landfall_database_connections: [
      'Connections to PostgreSQL',
      () => ({ idle: pool.idleCount, in_use: pool.totalCount - pool.idleCount }),
      { label: 'state' }
    ],
    landfall_database_connections_max: ['Limit of connections', () => pool.options.max],
    landfall_database_waiting: ['Statements that wait for a connection', () => pool.waitingCount]
  })
  let noticeCommand = (): void => {}
  app.decorate('onCommand', (listener) => {
    noticeCommand = listener
  })
  await embedded?.serveCommands(() => noticeCommand())
  app.addHook('onClose', async () => {
    reachability.close()
    await client.$disconnect()
    if (!pool.ended) await pool.end()
  })
}

/** In seconds, from a lookup by key to the time limit. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

function statementSeconds (registry: Registry, onUnavailable: () => void): QueryHook {
  const statements = new Histogram({
    name: 'landfall_database_statement_duration_seconds',
    help: 'Duration of statements by result: ok, error (PostgreSQL refused the statement) or unavailable ' +
      '(PostgreSQL is unreachable or too slow)',
    labelNames: ['result'],
    buckets: BUCKETS,
    registers: [registry]
  })
  const waits = new Histogram({
    name: 'landfall_database_connection_wait_seconds',
    help: 'Time spent waiting for a pool connection by result: ok or unavailable (time limit exceeded, or ' +
      'PostgreSQL is unreachable)',
    labelNames: ['result'],
    buckets: BUCKETS,
    registers: [registry]
  })
  for (const result of ['ok', 'error', 'unavailable']) statements.zero({ result })
  for (const result of ['ok', 'unavailable']) waits.zero({ result })
  return (text) => {
    const startedAt = performance.now()
    return (error) => {
      if (error !== undefined && isServerFault(error)) onUnavailable()
      const seconds = (performance.now() - startedAt) / 1000
      if (text === CONNECT) waits.observe({ result: error === undefined ? 'ok' : 'unavailable' }, seconds)
      else {statements.observe({
          result: error === undefined ? 'ok' : isServerFault(error) ? 'unavailable' : 'error'
        }, seconds)}
    }
  }
}

export default fp(database, { name: 'database', dependencies: ['metrics', 'tracing'] })
