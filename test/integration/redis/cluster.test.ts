import slotOf from 'cluster-key-slot'
import { once } from 'node:events'
import { connect as connectTo, createServer, type AddressInfo } from 'node:net'
import type { Result } from 'ioredis'
import t, { type Test } from 'tap'
import { RedisAwayError, RedisClient } from '../../../src/infra/redis/redis-client.ts'
import { startRedisCluster } from '../../helpers/redis-cluster.ts'
import { silent } from '../../shared/silent-logger.ts'
import { until } from '../../helpers/until.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    countAll(numberOfKeys: number, ...keys: string[]): Result<number[], Context>
  }
}

// The client on a Redis Cluster, step by step. The service: test/system/faults/redis-cluster.test.ts

const cluster = await startRedisCluster(t)
const CHANNEL = 'test'
/** A script with any number of keys, all of one slot. */
const SCRIPTS = {
  countAll: {
    lua: `
      local counts = {}
      for _, key in ipairs(KEYS) do table.insert(counts, redis.call('INCR', key)) end
      redis.call('PUBLISH', '${CHANNEL}', KEYS[1])
      return counts`
  }
}

async function connect (t: Test, url = cluster.url): Promise<RedisClient> {
  const client = new RedisClient(url, { channels: [CHANNEL], scripts: SCRIPTS }, silent)
  t.teardown(() => client.close())
  await client.start()
  await until(() => client.reachable && client.subscribed, 'the client is connected')
  return client
}

const keyed = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}:${n}`)

t.test('keys are grouped by slot, and a script runs on each group, also after all scripts are unloaded', async (t) => {
  const client = await connect(t)
  const keys = [...keyed(200, 'many'), 'many{7}a', 'many{7}b']
  const groups = client.groups(keys, (key) => key)
  t.same(groups.flat().sort(), [...keys].sort(), 'every key is in a group')
  t.ok(groups.every((group) => new Set(group.map((key) => slotOf(key))).size === 1))
  t.ok(groups.some((group) => group.includes('many{7}a') && group.includes('many{7}b')))
  t.equal(new Set(groups.map(([key = '']) => slotOf(key))).size, groups.length)
  for (let round = 1; round <= 3; round++) {
    const counts = await Promise.all(groups.map(async (group) =>
      await client.run(async (redis) =>
        await redis.countAll(group.length, ...group)
      )
    ))
    t.equal(counts.flat().reduce((sum, count) => sum + count, 0), keys.length * round)
    await Promise.all(cluster.nodes.map(async ({ admin }) => await admin.script('FLUSH')))
  }
  t.equal(client.outages, 0)
})

t.test('a slot that moves is followed, and a script with half of its keys opens no breaker', async (t) => {
  const client = await connect(t)
  const keys = ['moved{1}a', 'moved{1}b', 'moved{1}c']
  const count = async (some: readonly string[]) =>
    await client.run(async (redis) => await redis.countAll(some.length, ...some))
  t.same(await count(keys), [1, 1, 1])
  const source = await cluster.masterOf(keys[0]!)
  const target = (await cluster.masters()).find((node) => node !== source)!

  await cluster.moveSlot(keys[0]!, target, async () => {
    t.same(await count(keys), [2, 2, 2], 'none has moved')
    await cluster.moveKeys(source, target, [keys[0]!])
    t.same(await count([keys[0]!]), [3], 'a key that has moved (ASK)')
    t.same(await count([keys[1]!]), [3], 'a key that has not')
    await t.rejects(count(keys), RedisAwayError, 'both in one command (TRYAGAIN)')
    t.equal(client.reachable, true)
    await cluster.moveKeys(source, target, keys.slice(1))
    t.same(await count(keys), [4, 4, 3], 'all have moved (ASK)')
  })
  t.same(await count(keys), [5, 5, 4], 'the slot has moved (MOVED)')
  t.equal(client.outages, 0)
  await cluster.moveSlot(keys[0]!, source)
  t.same(await count(keys), [6, 6, 5])
})

type Change = (node: typeof cluster.nodes[number]) => Promise<unknown>
const memory = (limit: string): Change => async ({ admin }) => await admin.config('SET', 'maxmemory', limit)
const faults: [string, begin: Change, end: Change][] = [
  ['full', memory('1'), memory('0')],
  ['frozen', async ({ server }) => server.pause(), async ({ server }) => server.resume()]
]
for (const [fault, begin, end] of faults) {
  t.test(`one ${fault} master opens the breaker of an idle client`, async (t) => {
    const client = await connect(t)
    for (const master of await cluster.masters()) {
      await begin(master)
      await until(() => !client.reachable, 'the outage is found')
      if (fault === 'frozen') await until(() => !client.subscribed, 'the lost channel is found')
      await t.rejects(client.run(async (redis) => await redis.get('any')), RedisAwayError)
      await end(master)
      await until(() => client.reachable && client.subscribed, 'the client is connected again')
      await cluster.untilSteady()
    }
  })
}

t.test('a client returns to a cluster that was stopped as a whole', async (t) => {
  const client = await connect(t)
  await Promise.all(cluster.nodes.map(async ({ server }) => await server.stop()))
  await until(() => !client.reachable && !client.subscribed, 'the outage is found')
  await Promise.all(cluster.nodes.map(async ({ server }) => await server.start()))
  await cluster.untilSteady()
  await until(() => client.reachable && client.subscribed, 'the client is connected again')
  t.equal(await client.run(async (redis) => await redis.set('back', 1)), 'OK')
})

t.test('a client finds a cluster by name when all addresses change', async (t) => {
  const { password } = new URL(cluster.url.replace(/,.*/, ''))
  const moved = await startRedisCluster(t, async () => ({ requirepass: password, masterauth: password }))
  let target = cluster.nodes[0]!.server.port
  // The name, which leads to another node later.
  const name = createServer((socket) => {
    const upstream = connectTo(target, '127.0.0.1')
    for (const end of [socket, upstream]) end.on('error', () => {})
    socket.pipe(upstream).pipe(socket)
  }).listen(0, '127.0.0.1')
  t.teardown(() => name.close())
  await once(name, 'listening')
  const host = `localhost:${(name.address() as AddressInfo).port}`
  const client = await connect(t, `redis://:${password}@${host},${host}`)
  await Promise.all(cluster.nodes.map(async ({ server }) => await server.kill()))
  await until(() => !client.reachable && !client.subscribed, 'the outage is found')
  target = moved.nodes[0]!.server.port
  await until(() => client.reachable && client.subscribed, 'the new nodes are found')
  const keys = keyed(20, 'moved')
  for (const key of keys) t.equal(await client.run(async (redis) => await redis.set(key, 1)), 'OK')
})
