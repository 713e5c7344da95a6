import fp from 'fastify-plugin'
import { Type } from '@sinclair/typebox'
import { RetryLaterError } from '../errors.ts'
import { response, errors } from './schemas.ts'
import { MigrationError, pendingMigrations } from '../infra/postgres/migration-repository.ts'

const Alive = Type.Object({ status: Type.Literal('ok') }, { title: 'Alive' })
const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ok'), Type.Literal('degraded')], {
    description: '`degraded` means that Redis is unreachable and each process counts limits separately'
  }),
  database: Type.Literal('ok'),
  redis: Type.Union([Type.Literal('ok'), Type.Literal('away'), Type.Literal('not used')])
}, { title: 'Readiness' })

const tags = ['Health']
const liveSchema = {
  operationId: 'live',
  tags,
  summary: 'Check whether the process is running',
  description: 'Does not check PostgreSQL or Redis. For liveness probes.',
  response: { 200: response(Alive, 'The process is running'), ...errors([400]) }
}
const readySchema = {
  operationId: 'ready',
  tags,
  summary: 'Check whether the service is ready for requests',
  description: 'A 503 when PostgreSQL is unreachable, and before the process ends. For load balancers.',
  response: { 200: response(Readiness, 'The service is ready'), ...errors([400, 503]) }
}

/** Liveness and readiness checks for load balancers and orchestrators. */
export default fp(async (app) => {
  // Migrations are never undone: once they are complete, only the connection is checked.
  let migrated = false
  async function databaseState (): Promise<string> {
    try {
      if (migrated) await app.database.ping()
      else migrated = (await pendingMigrations(app.database)).length === 0
      return migrated ? 'ok' : 'not migrated'
    } catch (error) {
      return error instanceof MigrationError ? 'not migrated' : 'away'
    }
  }

  app.get(
    '/health/live',
    { schema: liveSchema, config: { log: 'debug' } },
    async () => ({ status: 'ok' as const })
  )

  app.get('/health/ready', { schema: readySchema, config: { log: 'debug' } }, async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    const redis = app.redisClient === undefined ? 'not used' : app.redisClient.reachable ? 'ok' : 'away'
    const database = await databaseState()
    const closing = app.shutdownSignal.aborted
    if (closing || database !== 'ok') {
      throw new RetryLaterError(
        503,
        closing ? 'The service is shutting down'
          : database === 'away' ? 'PostgreSQL cannot be reached' : 'The database is not migrated',
        1
      )
    }
    return { status: redis === 'away' ? 'degraded' as const : 'ok' as const, database, redis }
  })
}, { name: 'health', dependencies: ['database', 'redis', 'shutdown'] })
