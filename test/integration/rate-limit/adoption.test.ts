import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { pass, settableClock, spend, startReplicas, startSharing,
  take } from '../../helpers/limit-replicas.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { BESIDE_KILLED_MS, halt, join, kill, LIMIT, run, shareOf, testHistories,
  type Running } from './histories.ts'

// A new process continues as one that has left: with its share, from the first read on.

/** Reads in turn; returns how many reads are allowed, at most 40. */
async function spendInTurn (running: readonly Running[], client: string): Promise<number> {
  let passed = 0
  for (let n = 0; n < 40; n++) if (await take(running[n % running.length]!.limit, client)) passed++
  return passed
}

t.test('a process that replaces another one has its share at once', async (t) => {
  const url = await claimRedis(t)
  const all = (await startSharing(t, [url, url, url])).map(run)
  const clients = Array.from({ length: 300 }, (_, client) => `client ${client}`)
  for (const client of clients) t.equal(await spend(all[0]!.limit, client, 4), 4)
  const [near, spent] = ['near', 'spent']
  t.equal(await spend(all[0]!.limit, near, 20), 20)
  t.equal(await spendInTurn(all, spent), LIMIT)
  await halt(all[0]!)
  all[0] = await join(t, url, all[1]!)
  t.equal(shareOf(all[0]), 6)
  const { store } = all[0].replica
  await until(() => store.underWay === 0)
  store.asked = 0
  for (const client of clients) t.equal(await spend(all[0].limit, client, 2), 2, 'what is left of the share')
  t.equal(await spend(all[0].limit, 'new', 6), 6)
  t.equal(store.asked, 0)
  t.equal(await spendInTurn(all, clients[7]!), LIMIT - 6)
  t.equal(await spendInTurn(all, near), LIMIT - 20)
  t.equal(await spendInTurn(all, spent), 0)
  t.equal(await spendInTurn(all, 'newer'), LIMIT)
})

t.test('a process that is started before another one leaves has its share when that one has left', async (t) => {
  const url = await claimRedis(t)
  const all = (await startSharing(t, [url, url, url])).map(run)
  const [one, two, three] = all as [Running, Running, Running]
  for (const client of ['a', 'b']) t.equal(await spend(one.limit, client, 5), 5)
  const next = await join(t, url, two)
  await until(() => shareOf(next) === 5, 'it has its first share')
  t.equal(await spend(next.limit, 'a', 3), 3)
  t.equal(await spend(next.limit, 'c', 7), 7)
  await Promise.all([two, three].map(async ({ replica }) => await replica.members.beat()))
  t.equal(shareOf(two), 5, 'it counts as a fourth member')
  await halt(one)
  await until(() => shareOf(next) === 6)
  await Promise.all([two, three].map(async ({ replica }) => await replica.members.beat()))
  t.same([two, three].map(shareOf), [6, 6])
  t.equal(await spendInTurn([two, three, next], 'a'), LIMIT - 5 - 3)
  t.equal(await spendInTurn([next, two, three], 'b'), LIMIT - 5)
  t.equal(await spendInTurn([next, two, three], 'c'), LIMIT - 7)
  t.equal(await spendInTurn([next, two, three], 'd'), LIMIT)
})

t.test('when all processes are restarted at once, each new one has a share', async (t) => {
  const url = await claimRedis(t)
  const all = (await startSharing(t, [url, url, url])).map(run)
  t.equal(await spend(all[0]!.limit, 'a', 6) + await spend(all[1]!.limit, 'a', 6), 12)
  t.equal(await spendInTurn(all, 'b'), LIMIT)
  await Promise.all(all.map(halt))
  const next = await Promise.all(all.map(async (old) => await join(t, url, old)))
  await Promise.all(next.map(async ({ replica }) => await replica.members.beat()))
  t.same(next.map(shareOf), [6, 6, 6])
  t.equal(await spendInTurn(next, 'a'), LIMIT - 12)
  t.equal(await spendInTurn(next, 'b'), 0)
  t.equal(await spendInTurn(next, 'c'), LIMIT)
})

t.test('of two new processes, one continues as the one that has left', async (t) => {
  const url = await claimRedis(t)
  const [one, two] = (await startSharing(t, [url, url])).map(run) as [Running, Running]
  t.equal(await spend(one.limit, 'a', 10), 10)
  await halt(one)
  const next = await Promise.all([one, one].map(async (old) => await join(t, url, old)))
  await until(() => next.map(shareOf).sort().join() === '5,6', 'one has the share, one a first share')
  t.equal(await spendInTurn([two, ...next], 'a'), LIMIT - 10)
  t.equal(await spendInTurn([two, ...next], 'b'), LIMIT)
})

t.test('reads that the stopped process, or others for it, have reported count once', async (t) => {
  const url = await claimRedis(t)
  const all = (await startSharing(t, [url, url, url])).map(run)
  const [one, two, three] = all as [Running, Running, Running]
  // Leased: beyond its share. Recalled: because others spend the rest. Handed over: loaded after it has left.
  t.equal(await spend(one.limit, 'leased', 9), 9)
  t.equal(await spend(one.limit, 'recalled', 3), 3)
  t.equal(await spend(two.limit, 'recalled', 22), 22)
  t.equal(await spend(one.limit, 'handed over', 3), 3)
  await halt(one)
  for (const { replica } of [two, three]) await replica.members.beat()
  t.equal(await spend(two.limit, 'handed over', 20), 20)
  t.equal(await spend(two.limit, 'silent at it', 24), 24)
  const next = await join(t, url, two)
  t.equal(shareOf(next), 6)
  t.equal(await spendInTurn([next, two, three], 'leased'), LIMIT - 9)
  t.equal(await spendInTurn([next, three, two], 'recalled'), LIMIT - 25)
  t.equal(await spendInTurn([next, three, two], 'handed over'), LIMIT - 23)
  t.equal(await spendInTurn([next, three, two], 'silent at it'), LIMIT - 24)
})

t.test('a process that stops while it adopts costs a client nothing', async (t) => {
  const url = await claimRedis(t)
  const [one, two] = (await startSharing(t, [url, url])).map(run) as [Running, Running]
  const { commands } = two.replica.redis
  t.equal(await spend(one.limit, 'a', 5), 5)
  await halt(one)
  for (let turns = 0; turns < 25; turns++) {
    const [replica] = await startReplicas(t, [url], { channelOf: two.replica })
    const next = run(replica!)
    const starting = replica!.members.start()
    for (let turn = 0; turn < turns; turn++) await setImmediate()
    await halt(next)
    await starting
    await two.replica.members.beat()
    t.equal(await spendInTurn([two], `${turns}`), LIMIT, `after ${turns} turns of the event loop`)
    // It may have reserved the counts, for some seconds.
    await commands.del('none', ...await commands.keys('landfall:adopter:*'))
  }
  t.equal(await spendInTurn([two], 'a'), LIMIT - 5)
})

t.test('a process that leaves again soon after it was continued still counts as one that has left', async (t) => {
  const url = await claimRedis(t)
  const [one, two] = (await startSharing(t, [url, url])).map(run) as [Running, Running]
  t.equal(await spend(one.limit, 'a', 5), 5)
  await halt(one)
  await two.replica.members.beat()
  const { redis, members, store: { succession } } = two.replica
  const { run: send } = redis
  let arrive = (): void => {}
  const delayed = new Promise<void>((resolve) => {
    arrive = resolve
  })
  redis.run = async (command) => {
    redis.run = send
    await delayed
    return await send.call(redis, command) as never
  }
  const found = succession.handedOver({ nameSpace: 'test', key: 'a', max: LIMIT, timeWindow: 60_000 })
  await halt(await join(t, url, two))
  await members.beat()
  arrive()
  t.equal((await found).size, 0, 'what it looked for was adopted')
  t.equal(members.known.departed.length, 1)
  t.equal(await spendInTurn([two], 'a'), LIMIT - 5)
})

/** Starts a process that adopts the counts of one, with 5 reads of `a`, but loses the response of Redis. */
async function startWithLostResponse (t: Test) {
  const server = await startRedisServer(t)
  const [one, two] = (await startSharing(t, [server.url, server.url])).map(run) as [Running, Running]
  t.equal(await spend(one.limit, 'a', 5), 5)
  await halt(one)
  const proxy = await createProxy(t, server.url)
  const [replica] = await startReplicas(t, [proxy.url], { channelOf: two.replica })
  const next = run(replica!)
  const { redis, members } = next.replica
  const { landfallAdopt } = redis.commands
  redis.commands.landfallAdopt = async (...names) => {
    proxy.delay(600_000) // Redis gets the command, and its response is lost with the connection
    redis.commands.landfallAdopt = landfallAdopt
    return await landfallAdopt.call(redis.commands, ...names)
  }
  await members.start()
  t.equal(redis.reachable, false)
  t.ok(members.isNew, 'it does not know whether it has adopted the counts')
  const reconnect = async () => {
    await proxy.restore()
    proxy.disconnect()
    await until(() => redis.reachable && redis.subscribed)
  }
  return { two, next, members, reconnect }
}

t.test('reads that a process allowed while it knew of no response to an adoption still count', async (t) => {
  const { two, next, members, reconnect } = await startWithLostResponse(t)
  t.equal(await spend(next.limit, 'd', 5), 5)
  await reconnect()
  await members.beat()
  t.ok(await spendInTurn([two, next], 'd') <= LIMIT - 5)
})

t.test('a process without a response to its adoption asks again', async (t) => {
  const { two, next, members, reconnect } = await startWithLostResponse(t)
  await reconnect()
  await until(() => !members.isNew)
  t.equal(await spend(two.limit, 'b', 25), 25, 'the other one learns what it has allowed')
  t.equal(await spendInTurn([two, next], 'a'), LIMIT - 5)
  t.equal(await spendInTurn([two, next], 'b'), LIMIT - 25)
  t.equal(await spendInTurn([next, two], 'c'), LIMIT)
})

t.test('a killed process costs its share, also at a new process', async (t) => {
  for (const [count, share, adopts] of [[1, 20], [2, 10], [3, 6], [3, 6, true]] as const) {
    const url = await claimRedis(t)
    const all = (await startSharing(t, Array<string>(count).fill(url))).map(run)
    const offset = settableClock(t)
    await pass(offset, 4, all.map(({ replica }) => replica))
    t.equal(await spend(all[0]!.limit, 'a', 4), 4)
    if (adopts) {
      await halt(all[0]!)
      all[0] = await join(t, url, all[0]!)
    }
    t.equal(shareOf(all[0]!), share)
    t.equal(await spend(all[0]!.limit, 'b', 4), 4)
    kill(all[0]!)
    all[0] = await join(t, url, all[0]!, BESIDE_KILLED_MS)
    t.equal(shareOf(all[0]), 0)
    for (const client of ['a', 'b']) {
      const total = 4 + await spendInTurn([all[0]], client)
      t.ok(total >= LIMIT - share && total <= LIMIT, `${total} with ${count} processes`)
    }
    for (const running of all) kill(running)
  }
})

t.test("beside the release before, which doesn't know of adoptions, no process is continued", async (t) => {
  const url = await claimRedis(t)
  const [one, two] = (await startSharing(t, [url, url])).map(run) as [Running, Running]
  t.equal(await spend(one.limit, 'a', 4), 4)
  const { commands } = two.replica.redis
  const beatOfEarlier = async (n: number): Promise<void> => {
    await commands.hset('landfall:members:2', 'earlier', `${n} 1`)
    await Promise.all([one, two].map(async ({ replica }) => await replica.members.beat()))
  }
  await beatOfEarlier(1)
  t.same([one, two].map(shareOf), [6, 6], 'it counts as a member')
  await halt(one)
  const [handover = '', ...others] = await commands.keys('landfall:handover:*')
  t.match(handover, /^landfall:handover:1:/, 'it can read this')
  t.same(others, [])
  t.same([await commands.hlen(handover), await commands.hexists(handover, 'seeds')], [257, 1])
  t.match(
    Object.values(await commands.hgetall('landfall:members:2')).sort().at(-1),
    /^\d+ left$/
  )
  await two.replica.members.beat()
  const window = { nameSpace: 'test', key: 'a', max: LIMIT, timeWindow: 60_000 }
  t.match(
    [...(await two.replica.store.succession.handedOver(window)).values()],
    [{ used: 4 }],
    'so can this one'
  )
  const next = await join(t, url, two)
  t.equal(shareOf(next), 0)
  await commands.hdel('landfall:members:2', 'earlier')
  t.ok(4 + await spendInTurn([two, next], 'a') <= LIMIT)
})

t.test('the members that the stopped process counted count after it, too, although Redis lost them', async (t) => {
  const url = await claimRedis(t)
  const all = (await startSharing(t, [url, url, url])).map(run)
  const [one, two, dead] = all as [Running, Running, Running]
  kill(dead)
  const { commands } = two.replica.redis
  await commands.del('landfall:members:2')
  await Promise.all([one, two].map(async ({ replica }) => await replica.members.beat()))
  await halt(one)
  const next = await join(t, url, two)
  t.same([next, two].map(shareOf), [6, 6])
})

t.test('a process that left long ago, or without a share, is not continued', async (t) => {
  const url = await claimRedis(t)
  const [one, two] = (await startSharing(t, [url, url])).map(run) as [Running, Running]
  await halt(one)
  const { commands } = two.replica.redis
  for (const key of await commands.keys('landfall:handover:*')) {
    await commands.pexpire(key, await commands.pttl(key) - 55_000)
  }
  const late = await join(t, url, two)
  await until(() => shareOf(late) === 5)
  await halt(late)
  const later = await join(t, url, two)
  await until(() => shareOf(later) === 2)
  t.equal(await spendInTurn([later, two], 'a'), LIMIT)
})

t.test('a client gets exactly its limit, however processes restart', async (t) => {
  await testHistories(t, 4)
})
