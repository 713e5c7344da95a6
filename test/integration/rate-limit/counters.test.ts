import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { COUNTER_SCRIPTS, Counters } from '../../../src/modules/rate-limit/counters.ts'
import { RedisClient } from '../../../src/infra/redis/redis-client.ts'
import { createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { silent } from '../../helpers/silent-logger.ts'

const MINUTE_MS = 60_000

t.test('when Redis fails during a count, the window keeps its end and is shared again later', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const redis = new RedisClient(proxy.url, { channels: ['test'], scripts: COUNTER_SCRIPTS }, silent)
  t.teardown(() => redis.close())
  await redis.start()
  const counters = new Counters(redis)
  const real = clock.now
  let ahead = 0
  t.intercept(clock, 'now', { value: () => real() + ahead })
  const take = async () => await counters.take('a', 3, MINUTE_MS, clock.now())

  t.match(await take(), { allowed: true, used: 1 })
  proxy.blackhole()
  const failed = await take()
  t.match(failed, { allowed: true, used: 2 }, 'the process continues from the count in Redis')
  t.ok(failed.resetAt - clock.now() <= MINUTE_MS, `${failed.resetAt - clock.now()} ms`)
  t.match(await take(), { allowed: true, used: 3 })
  const refused = await take()
  t.match(refused, { allowed: false, used: 3 })
  t.ok(refused.resetAt - clock.now() <= MINUTE_MS, `${refused.resetAt - clock.now()} ms`)

  await proxy.restore()
  await until(() => redis.reachable)
  ahead = MINUTE_MS + 1
  t.match(await take(), { allowed: true }, 'the next window')
})
