import fp from 'fastify-plugin'
import { Type } from '@sinclair/typebox'
import { RetryLaterError } from '../errors.ts'
import { ErrorBody } from '../schemas.ts'
import { MigrationError, pendingMigrations } from '../database/migrate.ts'

const Health = Type.Object({ status: Type.String(), database: Type.Optional(Type.String()), redis: Type.Optional(Type.String()) })

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

  app.get('/health/live', { schema: { summary: 'The process answers', response: { 200: Health } } }, async () => ({ status: 'ok' }))

  app.get('/health/ready', { schema: { summary: 'Requests may be sent here', response: { 200: Health, 503: ErrorBody } } }, async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    const redis = app.shared === undefined ? 'not used' : app.shared.reachable ? 'ok' : 'away'
    const database = await databaseState()
    const closing = app.isDraining()
    if (closing || database !== 'ok') {
      throw new RetryLaterError(503, closing ? 'The service is closing' : database === 'away' ? 'PostgreSQL can not be reached' : 'The database is not migrated', 1)
    }
    return { status: redis === 'away' ? 'degraded' : 'ok', database, redis }
  })
}, { name: 'health', dependencies: ['database', 'redis', 'drain'] })
