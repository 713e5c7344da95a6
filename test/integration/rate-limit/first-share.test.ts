import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { MEMBERS_KEY } from '../../../src/modules/rate-limit/heartbeats.ts'
import type { LeasedLimit } from '../../../src/modules/rate-limit/leased-limit.ts'
import { pass, settableClock, spend, startReplicas, startSharing, take, trues,
  type Replica } from '../../helpers/limit-replicas.ts'
import { claimRedis } from '../../helpers/servers.ts'
import type { Teardown } from '../../shared/guardian.ts'
import { until } from '../../helpers/until.ts'

// A new process that continues as no other one has a first share of the limit at once.

const LIMIT = 30
interface Started {
  readonly replica: Replica
  readonly limit: LeasedLimit
}

/** Starts a process as the service does: its limits exist before its membership begins. */
async function start (t: Teardown, url: string, channelOf?: Replica): Promise<Started> {
  const [replica] = await startReplicas(t, [url], { channelOf })
  const limit = replica!.limit(LIMIT)
  await replica!.members.start()
  return { replica: replica!, limit }
}

const shareOf = (limit: LeasedLimit): number => limit.share(clock.now())

t.test('a new process allows first reads without asking Redis, alone and beside others', async (t) => {
  const url = await claimRedis(t)
  const alone = await start(t, url)
  const offset = settableClock(t)
  const second = await start(t, url, alone.replica)
  const third = await start(t, url, alone.replica)
  t.same(
    [alone, second, third].map(({ limit }) => shareOf(limit)),
    [5, 2, 0],
    'a quarter of the limit together'
  )
  for (const [{ replica, limit }, share] of [[alone, 5], [second, 2]] as const) {
    for (let client = 0; client < 100; client++) {
      for (let n = 0; n < share; n++) t.match(limit.take(`client ${client}`, clock.now()), { allowed: true })
    }
    t.equal(replica.store.asked, 0)
  }
  for (let client = 0; client < 100; client++) {
    const passed = 7 + await spend(third.limit, `client ${client}`, 1) +
      await spend(alone.limit, `client ${client}`)
    t.equal(passed, LIMIT)
  }
  await pass(offset, 66, [alone, second, third].map(({ replica }) => replica))
  t.same([alone, second, third].map(({ limit }) => shareOf(limit)), [6, 6, 6], 'a minute later: their shares')
})

t.test('processes that start at the same time share a quarter of the limit', async (t) => {
  for (let round = 0; round < 2; round++) {
    const url = await claimRedis(t)
    const replicas = await startReplicas(t, Array<string>(4).fill(url))
    const limits = replicas.map((replica) => replica.limit(LIMIT))
    await Promise.all(replicas.map(async ({ members }) => await members.start()))
    await until(() => limits.map(shareOf).filter((share) => share > 0).length === 2)
    t.same(limits.map(shareOf).sort(), [0, 0, 2, 5])
    const { commands } = replicas[0]!.redis
    const heartbeats = Object.values(await commands.hgetall(MEMBERS_KEY))
    t.equal(heartbeats.filter((heartbeat) => heartbeat.includes(' first=')).length, 2)
    for (const { members, redis } of replicas) {
      members.close()
      redis.close()
    }
  }
})

t.test('a new process refuses a client that has spent its limit', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const limits = replicas.map((replica) => replica.limit(LIMIT))
  for (let client = 0; client < 50; client++) {
    t.equal(await spend(limits[client % 2], `spent ${client}`), LIMIT)
    t.equal(await spend(limits[client % 2], `near ${client}`, 26), 26)
    t.equal(await spend(limits[client % 2], `half ${client}`, 15), 15)
  }
  const { replica, limit } = await start(t, url, replicas[0])
  t.equal(shareOf(limit), 5)
  t.equal(await spend(limit, 'new', 5), 5)
  t.equal(replica.store.asked, 0)
  for (let client = 0; client < 50; client++) {
    t.notOk(await take(limit, `spent ${client}`))
    t.equal(await spend(limit, `near ${client}`), 4)
    t.equal(await spend(limit, `half ${client}`), 15)
  }
})

t.test('a client gets exactly its limit while processes start under its reads', async (t) => {
  const url = await claimRedis(t)
  const offset = settableClock(t)
  const burst = fc.array(fc.tuple(fc.nat(4), fc.nat(2)), { minLength: 10, maxLength: 60 })
  const delays = fc.array(fc.nat(3), { maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(burst, { minLength: 2, maxLength: 6 }),
      fc.array(fc.nat(40), { minLength: 3, maxLength: 3 }),
      fc.array(delays, { minLength: 6, maxLength: 6 }),
      async (old, bursts, turns, waits) => {
        const replicas = await startReplicas(t, Array<string>(old).fill(url))
        await pass(offset, 66, replicas)
        const limits = replicas.map((replica) => replica.limit(LIMIT))
        const passed = [0, 0, 0]
        const readAll = async (reads: readonly (readonly [at: number, client: number])[]): Promise<void> => {
          await Promise.all(reads.map(async ([at, client]) => {
            if (await take(limits[at % limits.length], `client ${client}`)) passed[client]!++
          }))
        }
        for (const [index, replica] of replicas.entries()) replica.store.delays = [...waits[index]!]
        const next = await startReplicas(t, turns.map(() => url), { channelOf: replicas[0] })
        const starting = next.map(async (replica, index) => {
          const limit = replica.limit(LIMIT)
          for (let n = 0; n < turns[index]!; n++) await turn()
          await replica.members.start()
          replicas.push(replica)
          limits.push(limit)
          await readAll(passed.flatMap((_, client) =>
            Array<[number, number]>(5).fill([limits.length - 1, client])
          ))
        })
        for (const burst of bursts) await readAll(burst)
        await Promise.all(starting)
        for (const burst of bursts) await readAll(burst)
        for (let n = 0; n < 40; n++) await readAll(passed.map((_, client) => [n, client] as const))
        for (const { members } of replicas) members.close()
        await Promise.all(replicas.map(async ({ redis }) => await redis.commands.ping()))
        await replicas[0]!.redis.commands.flushdb()
        for (const { redis } of replicas) redis.close()
        if (passed.some((reads) => reads !== LIMIT)) throw new Error(`${passed} of ${LIMIT}`)
      }
    ),
    { numRuns: 4, endOnFailure: true }
  )
})

t.test('beside the release before, a new process has no first share', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url])
  const { commands } = replicas[0]!.redis
  const first = await start(t, url, replicas[0])
  t.equal(shareOf(first.limit), 5)
  for (const heartbeat of ['7 2 1', '8 1', '9 left']) {
    await commands.hset(MEMBERS_KEY, 'earlier', heartbeat)
    const { limit } = await start(t, url, replicas[0])
    t.equal(shareOf(limit), 0, heartbeat)
  }
  await first.replica.members.beat()
  t.equal(shareOf(first.limit), 0, 'an earlier one stops using its own')
})

t.test('a new process has its first share when a process that was killed no longer counts as alive', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const limits = replicas.map((replica) => replica.limit(LIMIT))
  t.equal(await spend(limits[1], 'spent'), LIMIT)
  replicas[1]!.members.close()
  replicas[1]!.redis.close()
  const { replica, limit } = await start(t, url, replicas[0])
  t.equal(shareOf(limit), 0, 'it may be alive, and not know of this process')
  await pass(settableClock(t), 4, [replicas[0]!, replica])
  await until(() => shareOf(limit) > 0)
  t.notOk(await take(limit, 'spent'))
  t.equal(await spend(limit, 'new', 5), 5)
})

t.test('a new process that stops in its first minute hands over what it has counted', async (t) => {
  const url = await claimRedis(t)
  const replicas = await startSharing(t, [url, url])
  const limits = replicas.map((replica) => replica.limit(LIMIT))
  const { replica, limit } = await start(t, url, replicas[0])
  t.equal(await spend(limit, 'a', 3), 3)
  t.equal(await spend(limit, 'b', 9), 9)
  await limit.close()
  await replica.store.succession.leave()
  replica.redis.close()
  await Promise.all(replicas.map(async ({ members }) => await members.beat()))
  t.equal(await spend(limits[0], 'a', 10) + await spend(limits[1], 'a'), LIMIT - 3)
  t.equal(await spend(limits[1], 'b'), LIMIT - 9)
  t.equal(await spend(limits[1], 'c'), LIMIT)
  t.ok(shareOf((await start(t, url, replicas[0])).limit) > 0, 'the next one has a first share, too')
})

t.test('a process whose heartbeats fail loses its first share', async (t) => {
  const url = await claimRedis(t)
  const offset = settableClock(t)
  const { replica, limit } = await start(t, url)
  t.equal(shareOf(limit), 5)
  replica.members.close()
  offset.aheadMs += 3000
  t.equal(shareOf(limit), 0)
  await replica.members.beat()
  t.equal(shareOf(limit), 0, 'it begins as a new member')
  t.equal(trues([await take(limit, 'a')]), 1)
})
