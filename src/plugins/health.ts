import fp from 'fastify-plugin'
import { Type } from '@sinclair/typebox'
import { RetryLaterError } from '../errors.ts'
import { answer, errors } from '../schemas.ts'
import { MigrationError, pendingMigrations } from '../database/migrate.ts'

const Alive = Type.Object({ status: Type.Literal('ok') }, { title: 'Alive' })
const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ok'), Type.Literal('degraded')], { description: '`degraded` while Redis is away: limits are counted for each process' }),
  database: Type.Literal('ok'),
  redis: Type.Union([Type.Literal('ok'), Type.Literal('away'), Type.Literal('not used')])
}, { title: 'Readiness' })

const tags = ['Health']
const liveSchema = {
  operationId: 'live',
  tags,
  summary: 'Ask whether the process answers',
  response: { 200: answer(Alive, 'It does'), ...errors([400]) }
}
const readySchema = {
  operationId: 'ready',
  tags,
  summary: 'Ask whether requests may be sent here',
  response: { 200: answer(Readiness, 'They may'), ...errors([400, 503]) }
}

/** For load balancers and orchestrators: does the process answer, and may it be sent requests. */
export default fp(async (app) => {
  // Once migrated it stays so, and what remains to be asked is whether PostgreSQL answers.
  let migrated = false
  async function databaseState (): Promise<string> {
    try {
      if (migrated) await app.database.$queryRaw`SELECT 1`
      else migrated = (await pendingMigrations(async (sql) => await app.database.$queryRawUnsafe(sql))).length === 0
      return migrated ? 'ok' : 'not migrated'
    } catch (error) {
      return error instanceof MigrationError ? 'not migrated' : 'away'
    }
  }

  app.get('/health/live', { schema: liveSchema, config: { log: 'debug' } }, async () => ({ status: 'ok' as const }))

  app.get('/health/ready', { schema: readySchema, config: { log: 'debug' } }, async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    const redis = app.shared === undefined ? 'not used' : app.shared.reachable ? 'ok' : 'away'
    const database = await databaseState()
    const closing = app.isDraining()
    if (closing || database !== 'ok') {
      throw new RetryLaterError(503, closing ? 'The service is closing' : database === 'away' ? 'PostgreSQL can not be reached' : 'The database is not migrated', 1)
    }
    return { status: redis === 'away' ? 'degraded' as const : 'ok' as const, database, redis }
  })
}, { name: 'health', dependencies: ['database', 'redis', 'drain'] })
