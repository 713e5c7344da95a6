import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { COUNTER_SCRIPTS, counterKey, Counters } from '../../../src/modules/rate-limit/counters.ts'
import { RedisClient } from '../../../src/infra/redis/redis-client.ts'
import { settableClock } from '../../helpers/limit-replicas.ts'
import { createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { silent } from '../../shared/silent-logger.ts'

const MINUTE_MS = 60_000

/** Returns what two processes count with, on a Redis of their own. */
async function twoProcesses (t: Test) {
  const { url } = await startRedisServer(t)
  const clients = [1, 2].map(() =>
    new RedisClient(url, { channels: ['test'], scripts: COUNTER_SCRIPTS }, silent)
  )
  for (const client of clients) {
    t.teardown(() => client.close())
    await client.start()
  }
  const [one, two] = clients.map((client) => new Counters(client)) as [Counters, Counters]
  const take = async (counters: Counters) =>
    await counters.takeReturnable('a', 5, 15 * MINUTE_MS, clock.now())
  return { one, two, take, commands: (clients[0] as RedisClient).commands, key: counterKey('a') }
}

t.test('a process puts back a window that Redis has lost, with its count and its end', async (t) => {
  const { one, two, take, commands, key } = await twoProcesses(t)
  for (let n = 0; n < 2; n++) await take(one)
  await commands.pexpire(key, 5 * MINUTE_MS)
  t.match(await take(one), { used: 3 })
  await commands.del(key)
  t.match(await take(one), { allowed: true, used: 4 })
  const left = await commands.pttl(key)
  t.ok(left > 4 * MINUTE_MS && left <= 5 * MINUTE_MS, `${left} ms`)

  await commands.del(key)
  t.match(await take(two), { allowed: true, used: 1 }, 'the other one has counted nothing yet')
  t.match(await take(one), { allowed: true, used: 5 }, 'the highest count that a process knows counts')
  for (const counters of [one, two]) t.match(await take(counters), { allowed: false, used: 5 })
  for (let n = 0; n < 3; n++) {
    await commands.flushall()
    for (const counters of [two, one]) t.match(await take(counters), { allowed: false, used: 5 })
  }
})

t.test('a count of a client address, which is not given back, is put back, too', async (t) => {
  const { one, commands } = await twoProcesses(t)
  const take = async () => await one.take('address', 3, MINUTE_MS, clock.now())
  t.match([await take(), await take()], [{ used: 1 }, { used: 2 }])
  await commands.flushall()
  t.match([await take(), await take()], [{ allowed: true, used: 3 }, { allowed: false, used: 3 }])
})

t.test('a process puts nothing back that another one has given back or cleared', async (t) => {
  const { one, two, take, commands, key } = await twoProcesses(t)
  const uses = [await take(one), await take(one), await take(one)]
  t.match(await take(two), { used: 4 })
  for (const { resetAt } of uses) await one.giveBack('a', 15 * MINUTE_MS, resetAt)
  t.match(await take(two), { used: 2 })
  t.match(await take(one), { used: 3 })
  t.equal(await commands.landfallClear(key, 15 * MINUTE_MS), 3)
  t.match(await take(two), { used: 1 })
  t.match(await take(one), { used: 2 })
  await commands.del(key)
  t.equal(await commands.landfallClear(key, 15 * MINUTE_MS), 0)
  t.match(await take(two), { used: 1 }, 'what Redis had lost is cleared, too')
  t.match(await take(one), { used: 2 })
  await commands.del(key)
  t.match(await take(one), { used: 3 }, 'what came after that is put back')
})

t.test('a process learns what others gave back when it gives back its own', async (t) => {
  const { one, two, take, commands } = await twoProcesses(t)
  const uses = [await take(two), await take(two), await take(two), await take(two)]
  const { resetAt } = await take(one)
  for (const use of uses) await two.giveBack('a', 15 * MINUTE_MS, use.resetAt)
  await one.giveBack('a', 15 * MINUTE_MS, resetAt)
  await commands.flushall()
  t.match(await take(one), { used: 1 })
  await commands.flushall()
  await one.giveBack('a', 15 * MINUTE_MS, resetAt)
  t.match([await take(one), await take(one)], [{ used: 1 }, { used: 2 }])
  await commands.flushall()
  await one.giveBack('a', 15 * MINUTE_MS, resetAt)
  t.match(await take(one), { used: 2 }, 'an empty Redis tells nothing about the lost window')
})

t.test('when Redis fails during a count, the window keeps its end and is shared again later', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const redis = new RedisClient(proxy.url, { channels: ['test'], scripts: COUNTER_SCRIPTS }, silent)
  t.teardown(() => redis.close())
  await redis.start()
  const counters = new Counters(redis)
  const offset = settableClock(t)
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
  t.match(
    await counters.takeReturnable('a', 3, MINUTE_MS, clock.now()),
    { allowed: false, used: 3 },
    'what was counted without Redis still counts'
  )
  await redis.commands.flushall() // instead of waiting until the window expires
  offset.aheadMs = MINUTE_MS + 1
  t.match(await take(), { allowed: true }, 'the next window')
})
