import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { RedisAwayError } from '../../../src/infra/redis/redis-client.ts'
import { windowKey } from '../../../src/modules/rate-limit/lease-script.ts'
import { Members } from '../../../src/modules/rate-limit/members.ts'
import { pass, settableClock, spend, startReplicas, startSharing, take,
  trues } from '../../helpers/limit-replicas.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// Reads that processes allow as their shares of the limit, without asking Redis.

for (const [which, start] of [['without shares', startReplicas], ['with shares', startSharing]] as const) {
  t.test(`exactly the limit passes ${which}, however the reads of a client are routed`, async (t) => {
    const url = await claimRedis(t)
    const replicas = await start(t, [url, url, url])
    const delays = fc.array(fc.nat(4), { maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 150 }),
        fc.array(fc.array(fc.nat(2), { minLength: 1, maxLength: 30 }), { minLength: 1, maxLength: 12 }),
        fc.tuple(delays, delays, delays),
        async (max, bursts, waits) => {
          const nameSpace = randomUUID()
          const limits = replicas.map((replica, index) => {
            replica.store.delays = [...waits[index] as number[]]
            return replica.limit(max, { nameSpace })
          })
          let passed = 0
          for (const burst of bursts) {
            passed += trues(await Promise.all(burst.map(async (index) => await take(limits[index], 'a'))))
          }
          return passed === Math.min(max, bursts.flat().length)
        }
      ),
      { numRuns: 30 }
    )
  })
}

t.test('a client gets exactly the limit in each window, which begins with its first read', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url, url])
  for (const [max, timeWindow] of [[30, 600], [1000, 2000]] as const) {
    const limits = replicas.map((replica) => replica.limit(max, { timeWindow }))
    const key = `${max}`
    for (let window = 1; window <= 2; window++) {
      const begun = clock.now()
      const inTurn = []
      for (let n = 0; n < max + 9; n++) inTurn.push(await take(limits[n % 3], key))
      t.same(inTurn, [...Array(max).fill(true), ...Array(9).fill(false)], `${max}, window ${window}`)
      for (const limit of limits) {
        const { allowed, resetAt } = await limit.take(key, clock.now())
        t.notOk(allowed)
        // A process may see the end early, by at most the time that it waited for Redis.
        const waited = clock.now() - begun
        t.ok(resetAt >= begun + timeWindow - waited - 2, `ends after ${resetAt - begun} ms`)
      }
      await until(() => clock.now() > begun + timeWindow + 150)
    }
  }
})

t.test('a client that stays below half of its limit is never refused', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url, url])
  const limits = replicas.map((replica) => replica.limit(60, { timeWindow: 1000 }))
  const read = async (client: number): Promise<boolean> => {
    for (let n = 0; n < 30; n++) {
      if (!await take(limits[Math.floor(Math.random() * 3)], `client ${client}`)) return false
      await sleep(40) // at most 25 in a window
    }
    return true
  }
  t.ok((await Promise.all(Array.from({ length: 20 }, async (_, client) => await read(client))))
    .every(Boolean))
})

t.test('a client that chooses its processes gets no more than in fixed windows', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, Array<string>(6).fill(url))
  const timeWindow = 1000
  const limits = replicas.map((replica) => replica.limit(30, { timeWindow }))
  const share = limits[0]!.share(clock.now())
  const beyond = 30 - 6 * share
  // Each process asks Redis when the window of the last one has just ended, in a window that began before.
  const step = timeWindow / 6 + 100
  const visits = Array.from({ length: 14 }, (_, n) => [
    { at: n * step, limit: limits[n % 6], reads: share },
    { at: Math.max(5, (n - 1) * step + timeWindow + 90), limit: limits[n % 6], reads: beyond }
  ]).flat().sort((one, other) => one.at - other.at)
  const admitted: number[] = []
  const begun = clock.now()
  for (const { at, limit, reads } of visits) {
    await sleep(Math.max(0, begun + at - clock.now()))
    for (let n = 0; n < reads; n++) if (await take(limit, 'a')) admitted.push(clock.now())
  }
  const inThreeWindows = admitted.map((from) =>
    admitted.filter((at) => at >= from && at < from + 3 * timeWindow).length
  )
  t.ok(Math.max(...inThreeWindows) <= 4 * 30, `${Math.max(...inThreeWindows)} reads in three windows`)
})

t.test('after an outage, a client gets its limit before all processes have sent a heartbeat', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const limits = replicas.map((replica) => replica.limit(30))
  const offset = settableClock(t)
  await replicas[0]!.members.beat() // it has seen all heartbeats
  offset.aheadMs += 5000
  await replicas[0]!.members.beat()
  t.equal(await spend(limits[0], 'a'), 30)
})

t.test('shares never exceed two thirds of the limit, whatever happens', async (t) => {
  const [observer] = await startReplicas(t, [await claimRedis(t)])
  const offset = settableClock(t)
  const max = 240
  let continued = 0
  const member = (): Members => new Members(observer!.redis, { id: randomUUID(), windowMs: 60_000 })
  // What happens in a second: nothing mostly, a process joins, or one misses its next heartbeats (all of them
  // if it crashes), or Redis loses its data, or a process is suspended and its clock jumps, or one leaves and
  // may be continued by one that joins within 50 s.
  const event = fc.oneof(
    { weight: 12, arbitrary: fc.constant({ type: 'none' as const }) },
    { weight: 1, arbitrary: fc.constant({ type: 'join' as const }) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant('silence' as const),
        process: fc.nat(5),
        seconds: fc.constantFrom(1, 2, 3, 4, 70, Infinity)
      })
    },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('leave' as const), process: fc.nat(5) }) },
    { weight: 1, arbitrary: fc.constant({ type: 'flush' as const }) }
  )
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 150, maxLength: 250 }), async (events) => {
      await observer!.redis.commands.flushdb()
      const processOf = (members: Members) => ({
        members,
        silentUntil: 0,
        hasLeft: false,
        /** By second, also those of a process that it continues. */
        shares: [] as number[]
      })
      const processes = [processOf(member())]
      /** What processes have left, and when. */
      const handovers = new Map<string, { leftAt: number, shares: number[] }>()
      for (const [second, happening] of events.entries()) {
        offset.aheadMs += 1000
        const running = processes.filter(({ silentUntil }) => silentUntil < Infinity)
        if (happening.type === 'join' && running.length < 6) {
          const members = member()
          const joining = processOf(members)
          members.onAdoptable = async () => {
            for (const departed of members.known.departed) {
              const handover = handovers.get(departed.handover)
              if (!members.isNew || handover === undefined || clock.now() > handover.leftAt + 50_000) continue
              handovers.delete(departed.handover)
              joining.shares = handover.shares
              await members.continueAs(departed, clock.now())
              continued++
            }
          }
          processes.push(joining)
        } else if (happening.type === 'silence') {
          const silent = running[happening.process]
          if (silent !== undefined) silent.silentUntil = second + happening.seconds
        } else if (happening.type === 'leave') {
          const leaving = running[happening.process]
          if (leaving?.members.isContinuable === true && second >= leaving.silentUntil) {
            const handover = `2:${randomUUID()}`
            await leaving.members.leave(handover, true)
            leaving.hasLeft = true // it takes no more reads
            leaving.silentUntil = Infinity
            handovers.set(handover, { leftAt: clock.now(), shares: leaving.shares })
          }
        } else if (happening.type === 'flush') {
          await observer!.redis.commands.flushdb()
          handovers.clear()
        }
        // Each process beats at its own time within the second, and is looked at before and after.
        for (const process of processes) {
          if (process.hasLeft) continue
          const before = process.members.share(max, clock.now())
          if (second >= process.silentUntil) await process.members.beat()
          const share = Math.max(before, process.members.share(max, clock.now()))
          process.shares[second] = Math.max(share, process.shares[second] ?? 0)
        }
      }
      const all = [...new Set(processes.map(({ shares }) => shares))]
      for (let from = 0; from < events.length; from++) {
        const sum = all.reduce(
          (sum, shares) => sum + Math.max(0, ...shares.slice(from, from + 60).filter(Number)),
          0
        )
        if (sum > max * 2 / 3) throw new Error(`${sum} of ${max} in the minute from second ${from}`)
      }
      return true
    }),
    { numRuns: 4, endOnFailure: true }
  )
  t.ok(continued > 0, `${continued} processes continue after others`)
})

t.test('after the first minute, the processes share two thirds of the limit', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startReplicas(t, [url, url, url, url, url])
  const [first, ...others] = replicas
  await pass(settableClock(t), 65, replicas.slice(1))
  t.same(others.map(({ members }) => members.share(30, clock.now())), [5, 5, 5, 5], '20, divided by four')
  const limits = replicas.map((replica) => replica.limit(30))
  t.equal(await spend(limits[1], 'a', 3), 3)
  await first!.members.beat()
  await Promise.all(others.map(async ({ members }) => await members.beat()))
  t.equal(others[0]!.members.share(30, clock.now()), 4, '20, divided by five')
  t.equal(first!.members.share(30, clock.now()), 0, 'a new process has none for a minute')
  t.equal(await spend(limits[0], 'a'), 27, 'but it gets what the others report as unspent')
})

t.test('an evicted window goes on with what processes know', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const limits = replicas.map((replica) => replica.limit(100))
  const { commands } = replicas[0]!.redis
  const evict = async (key: string) => await commands.del(windowKey(`test ${key}`))
  let passed = await spend(limits[0], 'a', 60)
  t.equal(await evict('a'), 1)
  passed += await spend(limits[0], 'a')
  t.equal(passed, 100, 'at one process: exactly the limit')

  passed = 0
  for (let round = 0; round < 8; round++) passed += await spend(limits[round % 2], 'b', 10)
  await evict('b')
  for (const limit of limits) passed += await spend(limit, 'b')
  t.equal(passed, 100, 'at two processes in turn')
})

t.test('the limit is exact while Redis evicts keys', async (t) => {
  for (const policy of ['volatile-ttl', 'allkeys-lru']) {
    const server = await startRedisServer(t)
    const replicas = await startSharing(t, [server.url, server.url])
    const limits = replicas.map((replica) => replica.limit(30))
    const { commands } = replicas[0]!.redis
    const clients = Array.from({ length: 300 }, (_, client) => `client ${client}`)
    const allowed = new Map(clients.map((client) => [client, 0]))
    const readAll = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n++) {
        await Promise.all(clients.map(async (client, index) => {
          if (await take(limits[(n + index) % limits.length], client)) {
            allowed.set(client, allowed.get(client)! + 1)
          }
        }))
      }
    }
    await readAll(24)
    const used = Number(/used_memory:(\d+)/.exec(await commands.info('memory'))?.[1])
    await commands.config('SET', 'maxmemory', String(used + 4 * 2 ** 20))
    await commands.config('SET', 'maxmemory-policy', policy)
    for (let page = 0; page < 5000; page += 100) {
      await Promise.all(Array.from({ length: 100 }, async (_, n) =>
        await commands.set(`landfall:document:${page + n}`, 'x'.repeat(2048), 'PX', 60_000)))
    }
    const windows = (await commands.keys(windowKey('*'))).length
    if (policy === 'volatile-ttl') {
      t.equal(windows, 300, 'documents expire earlier than windows, so they are evicted')
      const [fresh] = await startReplicas(t, [server.url], { channelOf: replicas[0] })
      await fresh!.members.start()
      limits.push(fresh!.limit(30)) // it doesn't know the windows
    } else t.ok(windows < 300, 'windows are evicted, too')
    await readAll(20)
    const counts = [...allowed.values()]
    t.equal(Math.max(...counts), 30, policy)
    // Reads that were returned before the window was lost may count as spent.
    t.ok(Math.min(...counts) >= (policy === 'volatile-ttl' ? 30 : 27), `${Math.min(...counts)}`)
    for (const replica of replicas) replica.redis.close()
  }
})

t.test('a process that hears no recalls has no share', async (t) => {
  const server = await startRedisServer(t)
  const proxy = await createProxy(t, server.url)
  const replicas = await startSharing(t, [proxy.url, server.url])
  proxy.blackhole(/subscribe/i)
  await until(() => !replicas[0]!.redis.subscribed)
  t.equal(replicas[0]!.members.share(30, clock.now()), 0)
  const [one, two] = replicas.map((replica) => replica.limit(30))
  t.equal(await spend(one, 'a', 9) + await spend(two, 'a'), 30)
})

t.test('when the clock of a process jumps, it asks Redis until it knows the others again', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const [one, two] = replicas.map((replica) => replica.limit(30))
  t.equal(await spend(one, 'a', 7) + await spend(two, 'a', 7), 14)
  const offset = settableClock(t)
  offset.aheadMs = 10_000
  t.ok(one!.take('b', clock.now()) instanceof Promise)
  offset.aheadMs = 0
  t.ok(await spend(one, 'a') + await spend(two, 'a') + 14 <= 30)
})

t.test('reads whose report got no response count once, whether it had arrived or not', async (t) => {
  const url = await claimRedis(t)
  const [cut, other] = await startSharing(t, [url, url])
  const [one, two] = [cut!.limit(30), other!.limit(30)]
  const { redis, store } = cut!
  const { run } = redis
  const loseRequest = async () => {
    redis.run = async () => {
      throw new RedisAwayError()
    }
  }
  const loseResponse = async () => {
    store.gate = Promise.reject(new RedisAwayError())
    store.gate.catch(() => {})
  }
  // Redis doesn't know that a read and a reserve of 2 have not arrived.
  for (const [lose, granted] of [[loseRequest, 0], [loseResponse, 3]] as const) {
    const client = lose.name
    t.equal(await spend(one, client, 10), 10, 'its share')
    await lose()
    t.ok(await take(one, client), 'counted locally')
    store.gate = undefined
    redis.run = run
    t.equal(11 + await spend(one, client, 1) + await spend(two, client), 30 - granted, client)
  }
  // Without a share. The first report, of no reads, has arrived, and the second one, of two, has not.
  const small = cut!.limit(2)
  let lose: ((error: Error) => void) | undefined
  store.gate = new Promise((_resolve, reject) => {
    lose = reject
  })
  store.windows.clear()
  const first = take(small, 'third')
  await until(() => store.windows.size === 1)
  const second = take(small, 'third')
  lose?.(new RedisAwayError())
  t.same(await Promise.all([first, second]), [true, true], 'counted locally')
  store.gate = undefined
  await loseRequest()
  t.notOk(await take(small, 'third'), 'the local limit')
  redis.run = run
  t.notOk(await take(small, 'third'), 'the third report counts both')
})
