import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { pass, settableClock, spend, startReplicas, startSharing, stop, take, trues,
  type Replica } from '../../helpers/limit-replicas.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'

// What a client gets while processes stop in order and others start.

/** Lets time pass for the keys in Redis: shortens their lives, which ends those with less left. */
async function age (replica: Replica, seconds: number): Promise<void> {
  const { commands } = replica.redis
  for (const key of await commands.keys('landfall:*')) {
    await commands.pexpire(key, await commands.pttl(key) - seconds * 1000)
  }
}

t.test('a rolling restart changes nothing of what a client gets', async (t) => {
  const url = await claimRedis(t)
  const offset = settableClock(t)
  const restarted = fc.record({
    max: fc.integer({ min: 3, max: 150 }),
    bursts: fc.array(fc.array(fc.nat(2), { minLength: 1, maxLength: 30 }), { minLength: 4, maxLength: 10 })
  })
  for (const { max, bursts } of fc.sample(restarted, 3)) {
    const replicas = await startReplicas(t, [url, url, url])
    await pass(offset, 66, replicas)
    await Promise.all(replicas.map(async ({ members }) => await members.start()))
    const nameSpace = randomUUID() // processes of the last round may still put back a window
    let limits = replicas.map((replica) => replica.limit(max, { nameSpace }))
    let passed = 0
    for (const [number, burst] of bursts.entries()) {
      passed += trues(await Promise.all(burst.map(async (index) => await take(limits[index], 'a'))))
      if (number >= 3) continue
      const [next] = await startReplicas(t, [url], { channelOf: replicas[0] })
      await next!.members.start()
      await stop(replicas[number] as Replica, [limits[number]!])
      replicas[number] = next as Replica
      limits = limits.with(number, next!.limit(max, { nameSpace }))
    }
    t.equal(passed, Math.min(max, bursts.flat().length), `${passed} of ${max}, ${bursts.flat().length} sent`)
    for (const { members } of replicas) members.close()
    await replicas[0]!.redis.commands.flushdb()
    for (const { redis } of replicas) redis.close()
  }
})

t.test('a client without reads left gets none from a new process', async (t) => {
  const url = await claimRedis(t)
  const offset = settableClock(t)
  const replicas = await startReplicas(t, [url, url])
  await pass(offset, 66, replicas)
  const [stopping, staying] = replicas as [Replica, Replica]
  const limits = replicas.map((replica) => replica.limit(30))
  // 36 s by the test's clock, which leave a busy machine 24 s of the clients' minute.
  const clients = Array.from({ length: 12 }, (_, client) => `client ${client}`)
  for (const [index, client] of clients.entries()) t.equal(await spend(limits[index % 2], client), 30)
  const [next] = await startReplicas(t, [url], { channelOf: staying })
  await next!.members.start()
  await stop(stopping, [limits[0]!])
  const limit = next!.limit(30)
  for (const client of clients) {
    await pass(offset, 3, [staying, next!])
    t.notOk(await take(limit, client), `${client}, within its minute`)
  }
  const { succession } = next!.store
  const { handedOver } = succession
  let lookups = 0
  succession.handedOver = async (client) => {
    lookups++
    return await handedOver.call(succession, client)
  }
  t.equal(await spend(limit, 'new', 5), 5)
  t.equal(lookups, 0, 'what the stopped process left is loaded when a client approaches its limit')
})

t.test('a process with very many leases stops without refusing a client', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const [old, other] = replicas as [Replica, Replica]
  const crowd = old.limit(3, { nameSpace: 'crowd' })
  const reads = Array.from({ length: 8000 }, (_, client) => client)
  while (reads.length > 0) {
    await Promise
      .all(reads.splice(0, 500).flatMap((client) => [take(crowd, `${client}`), take(crowd, `${client}`)]))
  }
  const [limit, otherLimit] = [old.limit(30), other.limit(30)]
  t.equal(await spend(limit, 'a', 12), 12, 'its share, and a lease')
  let isStopping = true
  const stopped = stop(old, [crowd, limit]).then(() => {
    isStopping = false
  })
  t.equal(await spend(otherLimit, 'a'), 18)
  t.ok(isStopping, 'it is still stopping')
  await stopped
  t.notOk(await take(otherLimit, 'a'))
})

t.test('clients have all of their limit after a full stop', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  for (const replica of replicas) await stop(replica, [replica.limit(30)])
  const [admin] = await startReplicas(t, [url])
  await age(admin!, 200)
  const started = await startReplicas(t, [url, url])
  for (const { members } of started) await members.start()
  const limits = started.map((replica) => replica.limit(30))
  t.equal(await spend(limits[0], 'a', 7) + await spend(limits[1], 'a'), 30)
})

t.test('what a process that stops leaves in Redis expires, also if it could not finish', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const [cut, other] = await startSharing(t, [proxy.url, server.url])
  const limit = cut!.limit(30)
  for (let client = 0; client < 1000; client++) t.ok(await take(limit, `client ${client}`))
  const { commands } = other!.redis
  const closed = limit.close().catch(() => {})
  let key: string | undefined
  while (key === undefined) [key] = await commands.keys('landfall:handover:*')
  await proxy.refuse()
  await closed
  t.equal(await commands.hexists(key, 'head'), 0, 'it could not finish')
  t.ok(await commands.pttl(key) > 0)
  t.equal(await spend(other!.limit(30), 'new'), 20, 'its share counts as open')
})

t.test('what a process left behind counts once, and its share is reserved if Redis has lost it', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url, url])
  const limits = replicas.map((replica) => replica.limit(30))
  for (const key of ['a', 'b']) t.equal(await spend(limits[0], key, 5), 5)
  await stop(replicas[0] as Replica, [limits[0]!])
  const both = await Promise.all([1, 2].map(async (index) => await spend(limits[index], 'a')))
  t.equal(both[0]! + both[1]!, 25, 'two processes report it at once')

  const { commands } = replicas[1]!.redis
  await commands.del(await commands.keys('landfall:handover:*'))
  const [fresh] = await startReplicas(t, [url], { channelOf: replicas[1] })
  await fresh!.members.start()
  const passed = 5 + await spend(fresh!.limit(30), 'b')
  t.ok(passed >= 10 && passed < 30, `${passed}`)
})
