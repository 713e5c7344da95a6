import t from 'tap'
import { clock } from '../../src/clock.ts'
import { COUNTER_SCRIPTS, Counters } from '../../src/counters/counters.ts'
import { SharedRedis } from '../../src/plugins/redis.ts'
import { createProxy, startRedisServer } from '../helpers/servers.ts'
import { until } from '../helpers/until.ts'
import { silent } from './replicas.ts'

const MINUTE_MS = 60_000

t.test('a Redis that fails in the middle of a count: the window ends when it would have, and is shared again afterwards', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const redis = new SharedRedis(proxy.url, { channels: ['test'], scripts: COUNTER_SCRIPTS }, silent)
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
  t.match(failed, { allowed: true, used: 2 }, 'it goes on from what Redis said')
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
