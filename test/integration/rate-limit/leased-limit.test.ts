import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { LeasedLimit } from '../../../src/modules/rate-limit/leased-limit.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { settableClock, spend, startReplicas, take, trues } from '../../helpers/limit-replicas.ts'

t.test('no window admits more than the limit when clocks jump and processes are replaced', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startReplicas(t, [url, url, url])
  const step = fc.record({
    burst: fc.array(fc.nat(2), { minLength: 1, maxLength: 20 }),
    jump: fc.integer({ min: -90_000, max: 90_000 }),
    replaced: fc.option(fc.nat(2))
  })
  const offset = settableClock(t)
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 60 }),
      fc.array(step, { minLength: 1, maxLength: 10 }),
      async (max, steps) => {
        const key = randomUUID()
        const limitOf = (index: number): LeasedLimit =>
          (replicas[index] as typeof replicas[number]).limit(max, { nameSpace: key })
        const limits = [0, 1, 2].map(limitOf)
        let passed = 0
        for (const { burst, jump, replaced } of steps) {
          offset.aheadMs += jump
          if (replaced !== null) limits[replaced] = limitOf(replaced) // its unspent reads are lost
          passed += trues(await Promise
            .all(burst.map(async (index) => await take(limits[index] as LeasedLimit, key))))
        }
        return passed <= max
      }
    ),
    { numRuns: 30 }
  )
})

t.test('none of several successive windows admits more than the limit', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startReplicas(t, [url, url])
  const burst = fc.record({
    reads: fc.array(fc.nat(1), { minLength: 1, maxLength: 25 }),
    pauseMs: fc.nat(25)
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      fc.array(burst, { minLength: 5, maxLength: 10 }),
      async (max, steps) => {
        const key = randomUUID()
        for (const { store } of replicas) store.windows.clear()
        const limits = replicas.map((replica) => replica.limit(max, { nameSpace: key, timeWindow: 60 }))
        let passed = 0
        for (const { reads, pauseMs } of steps) {
          passed += trues(await Promise.all(reads.map(async (index) =>
            await take(limits[index] as LeasedLimit, key)
          )))
          await sleep(pauseMs)
        }
        const windows = new Set(replicas.flatMap(({ store }) => [...store.windows]))
        return passed >= Math.min(max, steps[0]?.reads.length ?? 0) && passed <= max * windows.size
      }
    ),
    { numRuns: 12 }
  )
})

t.test('a replica asks Redis fewer than 50 times for 1,000 reads, and never for refused ones', async (t) => {
  const [replica] = await startReplicas(t, [await claimRedis(t)])
  const { store, limit } = replica!
  const thousand = limit(1000)
  t.equal(await spend(thousand, 'a'), 1000)
  t.ok(store.asked < 50, `asked ${store.asked} times`)
  const { asked } = store
  for (let n = 0; n < 1000; n++) {
    const count = thousand.take('a', clock.now())
    t.notOk(count instanceof Promise || count.allowed)
  }
  t.equal(store.asked, asked)
  t.equal(await spend(thousand, 'b', 1), 1)
  t.equal(store.asked, asked + 1, 'the first lease has no reserve')
})

t.test('without Redis a process counts alone, and reports afterwards', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [cut, other] = await startReplicas(t, [proxy.url, server.url])
  const [one, two] = [cut!.limit(30), other!.limit(30)]
  t.equal(await spend(one, 'a', 10), 10)
  await proxy.refuse()
  t.equal(await spend(one, 'a', 10), 10, 'counted locally')
  t.equal(await spend(one, 'b', 40), 30, 'also for a new client')
  t.notOk(await take(one, 'b'))
  await proxy.restore()
  await until(() => cut!.redis.reachable && cut!.redis.subscribed)
  t.ok(await take(one, 'a'))
  t.equal(await spend(two, 'a'), 9, 'the rest is left for others')
  t.notOk(await take(one, 'b'))
  t.notOk(await take(two, 'b'))
})

t.test('a client with sequential reads waits only for its first leases', async (t) => {
  const [replica] = await startReplicas(t, [await claimRedis(t)])
  const { store } = replica!
  const limit = replica!.limit(1000)
  const waited: number[] = []
  for (let n = 1; n <= 700; n++) {
    const count = limit.take('a', clock.now())
    if (count instanceof Promise) waited.push(n)
    t.match(await count, { allowed: true, used: n })
    while (store.underWay > 0) await turn()
  }
  t.same(
    waited,
    [1, 2, 7],
    'reserves of 0, 4 and 16; later leases arrive before they are needed'
  )
})

t.test('a read is refused after some requests to a store that grants nothing and says nothing', async (t) => {
  const [replica] = await startReplicas(t, [await claimRedis(t)])
  const { store } = replica!
  const { ask } = store
  let asked = 0
  store.ask = async (request) => {
    asked++
    return { ...await ask.call(store, request), granted: 0, id: 0 }
  }
  t.notOk(await take(replica!.limit(30), 'a'))
  t.ok(asked <= 50, `${asked} requests`)
})

t.test('a read waits for the recalled reads of a slow process', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [far, near] = await startReplicas(t, [proxy.url, server.url])
  proxy.delay(15) // so that it receives recalls late
  const [one, two] = [far!.limit(100), near!.limit(100)]
  await spend(one, 'a', 60)
  t.equal(await spend(two, 'a'), 40)
  t.notOk(await take(one, 'a'))
})

t.test('a process that pauses for longer than a read waits costs a client one read at most', async (t) => {
  const url = await claimRedis(t)
  const [paused, other] = await startReplicas(t, [url, url])
  const [one, two] = [paused!.limit(100), other!.limit(100)]
  await spend(one, 'a', 60)
  const { redis } = paused!
  const listeners = redis.listeners('message')
  redis.removeAllListeners('message')
  redis.on('message', (channel, message) => {
    setTimeout(() => listeners.forEach((hear) => hear(channel, message)), 600)
  })
  let passed = 60
  const refused = []
  while (passed < 100 && refused.length < 3) {
    if (await take(two, 'a')) passed++
    else refused.push(passed)
  }
  t.equal(passed, 100)
  t.equal(refused.length, 1, `refused after ${refused}`)
})

t.test('reads that are recalled before their lease arrives are returned when it arrives', async (t) => {
  const url = await claimRedis(t)
  const [slow, other] = await startReplicas(t, [url, url])
  const [one, two] = [slow!.limit(100), other!.limit(100)]
  await spend(one, 'a', 6) // one lease of 1 read and one of 5, both spent
  let open = (): void => {}
  slow!.store.gate = new Promise((resolve) => {
    open = resolve
  })
  const waiting = take(one, 'a')
  const called = once(slow!.redis, 'message')
  const rest = spend(two, 'a')
  await called
  open()
  t.ok(await waiting)
  t.equal(await rest, 100 - 7)
})

t.test('when Redis becomes unreachable, reads that were returned before count as unspent', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [cut, other] = await startReplicas(t, [proxy.url, server.url])
  const [one, two] = [cut!.limit(60), other!.limit(60)]
  t.equal(await spend(one, 'a', 10), 10) // this process also holds a reserve
  t.equal(await spend(two, 'a'), 50)
  await proxy.refuse()
  t.equal(await spend(one, 'a'), 50, 'the process knows of 10 spent reads')
})

t.test('a window never ends later in a process than in Redis, however slow the response is', async (t) => {
  const [replica] = await startReplicas(t, [await claimRedis(t)])
  await replica!.members.beat()
  const offset = settableClock(t)
  const asked = clock.now()
  const response = replica!.limit(10).take('a', asked)
  offset.aheadMs = 5000
  const { resetAt } = await response
  t.ok(resetAt <= asked + 60_000 + 100, `${resetAt - asked} ms`)
})

t.test('reads that a process counted locally are not returned on a recall', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [slow, other] = await startReplicas(t, [proxy.url, server.url])
  const [one, two] = [slow!.limit(30), other!.limit(30)]
  const passed = [await spend(one, 'a', 6)] // this process holds no unspent reads
  proxy.blackhole(/leases|evalsha/i)
  passed.push(await spend(one, 'a', 1)) // counted locally
  await proxy.restore()
  await until(() => slow!.redis.reachable && slow!.redis.subscribed)
  const called = once(slow!.redis, 'message')
  passed.push(await spend(two, 'a'))
  await called
  passed.push(await spend(two, 'a'), await spend(one, 'a'))
  t.ok(
    passed.reduce((sum, count) => sum + count) <= 31,
    `${passed.join(' + ')} of 30, plus one that was counted locally`
  )
})

t.test('a process reconnects when its Redis becomes a replica', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [replica] = await startReplicas(t, [proxy.url])
  const { redis } = replica!
  const direct = new Redis(server.url)
  t.teardown(() => direct.disconnect())
  let connected = 0
  redis.commands.on('connect', () => {
    connected++
  })
  await direct.replicaof('127.0.0.1', '1')
  await until(() => connected >= 2, 'it connects to the address again')
  t.equal(redis.reachable, false)
  await direct.replicaof('NO', 'ONE')
  await until(() => redis.reachable && redis.subscribed)
})
