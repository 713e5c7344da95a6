import fastifyRedis, { type FastifyRedis } from '@fastify/redis'
import fp from 'fastify-plugin'
import { combineQueryHooks } from '../telemetry/query-hook.ts'
import { measureClient, measureCommands } from './metrics.ts'
import { RedisClient, type RedisClientOptions } from './redis-client.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Redis behind a circuit breaker; undefined when REDIS_URL is not set. */
    redisClient: RedisClient | undefined
  }
}

export default fp<{ url: string | undefined } & RedisClientOptions>(async (app, { url, ...options }) => {
  if (url === undefined) {
    app.decorate('redisClient', undefined)
    return
  }
  const client = new RedisClient(url, {
    ...options,
    queryHook: combineQueryHooks(measureCommands(app.metrics), app.tracer?.queryHook('redis'))
  }, app.log)
  measureClient(app.metrics, client)
  app.decorate('redisClient', client)
  app.addHook('onClose', async () => client.close())
  await client.start()
  // @fastify/redis would wait for an unreachable Redis (docs/adr/0010-fastify-redis-and-sensible.md).
  if (client.commands.status === 'ready') await app.register(fastifyRedis, { client: client.commands })
  else app.decorate('redis', client.commands as FastifyRedis)
}, { name: 'redis', dependencies: ['metrics', 'tracing'] })
