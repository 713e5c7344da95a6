import fp from 'fastify-plugin'
import { Type } from '@sinclair/typebox'
import { RetryLaterError } from '../errors.ts'
import { response, errors } from './schemas.ts'

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
  app.get(
    '/health/live',
    { schema: liveSchema, config: { log: 'debug' } },
    async () => ({ status: 'ok' as const })
  )

  app.get('/health/ready', { schema: readySchema, config: { log: 'debug' } }, async () => {
    if (app.shutdownSignal.aborted) throw new RetryLaterError(503, 'The service is shutting down', 1)
    await app.database.ping().catch(() => {
      throw new RetryLaterError(503, 'PostgreSQL cannot be reached', 1)
    })
    const redis = app.redisClient === undefined ? 'not used' : app.redisClient.reachable ? 'ok' : 'away'
    return { status: redis === 'away' ? 'degraded' as const : 'ok' as const, database: 'ok' as const, redis }
  })
}, { name: 'health', dependencies: ['database', 'redis', 'shutdown'] })
