import fastifyRedis, { type FastifyRedis } from '@fastify/redis'
import fp from 'fastify-plugin'
import { Histogram, type Registry } from 'prom-client'
import { addMetrics } from '../telemetry/metrics.ts'
import { combineQueryHooks, type QueryHook } from '../telemetry/query-hooks.ts'
import { RedisClient, type RedisClientOptions } from './redis-client.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Redis behind a circuit breaker; undefined when REDIS_URL is not set. */
    redisClient: RedisClient | undefined
  }
}

/** In seconds. The time limit of a command is 0.2 s. */
const BUCKETS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2]

export default fp<RedisClientOptions>(async (app, options) => {
  const { REDIS_URL: url } = app.config
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

function measureCommands (registry: Registry): QueryHook {
  const seconds = new Histogram({
    name: 'landfall_redis_command_duration_seconds',
    help: 'Duration of Redis commands, including failed ones; a pipeline counts as one command',
    buckets: BUCKETS,
    registers: [registry]
  })
  return () => {
    const startedAt = performance.now()
    return () => seconds.observe((performance.now() - startedAt) / 1000)
  }
}

function measureClient (registry: Registry, client: RedisClient): void {
  addMetrics(registry, {
    landfall_limits_shared: [
      '1: limits are counted in Redis for all replicas. 0: each process counts separately',
      () => client.reachable ? 1 : 0,
      { aggregator: 'min' }
    ],
    landfall_invalidation_channel_up: [
      '1: the process receives messages about the writes of other replicas. 0: it does not',
      () => client.subscribed ? 1 : 0,
      { aggregator: 'min' }
    ],
    landfall_redis_outages_total: ['Outages: the circuit breaker opened', () => client.outages]
  })
}
