import Fastify from 'fastify'
import t from 'tap'
import metrics from '../../../src/infra/telemetry/metrics.ts'
import tracing from '../../../src/infra/telemetry/tracing.ts'
import redis from '../../../src/infra/redis/plugin.ts'
import { createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { loadConfig } from '../../../src/config.ts'

for (const isAway of [false, true]) {
  t.test(`the app starts and has app.redis while Redis is ${isAway ? 'unreachable' : 'reachable'}`, async (t) => {
    const server = await startRedisServer(t)
    const proxy = await createProxy(t, server.url)
    if (isAway) await proxy.refuse()
    const app = Fastify()
    t.teardown(async () => await app.close())
    await app.register(metrics, { host: '127.0.0.1', port: undefined })
    await app.register(tracing, { config: loadConfig({}) })
    await app.register(redis, { url: proxy.url, channels: ['test'], scripts: {} })
    await app.ready()
    t.equal(app.redis, app.redisClient?.commands)
    t.equal(app.redisClient?.reachable, !isAway)

    if (isAway) await proxy.restore()
    await until(() => app.redisClient!.reachable && app.redisClient!.subscribed)
    t.equal(await app.redis.ping(), 'PONG')
  })
}
