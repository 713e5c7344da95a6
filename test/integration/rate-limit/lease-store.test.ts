import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { KnownWindow, LeaseResponse,
  LeaseRequest } from '../../../src/modules/rate-limit/lease-script.ts'
import { LeaseStore } from '../../../src/modules/rate-limit/lease-store.ts'
import { Members } from '../../../src/modules/rate-limit/members.ts'
import type { RedisClient } from '../../../src/infra/redis/redis-client.ts'
import { claimRedis, startRedisServer } from '../../helpers/servers.ts'
import { startReplicas } from '../../helpers/limit-replicas.ts'

// What only the lease script shows, on a single window. leased-limit.test.ts tests the resulting limit.

const WINDOW = 'landfall:window:2:test a'
/** Asks for reads in a window, by default in WINDOW, which has 30 in 60 s. */
interface Asking {
  ask: (request: Partial<LeaseRequest>) => Promise<LeaseResponse>
  giveBack: (returned: number, known: KnownWindow) => Promise<void>
}
/** Two processes, on one connection. */
function processesOf (redis: RedisClient): [Asking, Asking] {
  const channel = randomUUID()
  const asking = (processId: string): Asking => {
    const store = new LeaseStore(redis, channel, new Members(redis, { id: processId, windowMs: 60_000 }))
    const window = { processId, nameSpace: 'test', key: 'a', max: 30, timeWindow: 60_000 }
    return {
      ask: async (request) => await store.ask({ ...window, ...request }),
      giveBack: async (returned, known) => await store.giveBack(window, returned, known)
    }
  }
  return [asking('one'), asking('two')]
}
const redisOf = async (t: Parameters<typeof claimRedis>[0]): Promise<RedisClient> =>
  (await startReplicas(t, [await claimRedis(t)]))[0]!.redis

t.test('reads are returned only to the window that granted them', async (t) => {
  const [one, two] = processesOf(await redisOf(t))
  const { id } = await one.ask({ needed: 10, reserve: 4 })
  await one.giveBack(4, { id: id - 60_000, total: 0, own: 0 })
  t.match(await two.ask({ needed: 1 }), { total: 15, id })
  await one.giveBack(4, { id, total: 0, own: 0 })
  t.match(await two.ask({ needed: 1 }), { total: 12, id })
})

t.test('a process does not count as a holder after it has returned its reads or the window has ended', async (t) => {
  const redis = await redisOf(t)
  const [one, two] = processesOf(redis)
  const { id } = await one.ask({ needed: 1, reserve: 4 })
  t.match(await two.ask({ needed: 30 }), { others: 1, reporters: new Set(['one', 'two']) })
  await one.giveBack(4, { id, total: 0, own: 0 })
  t.match(await two.ask({ needed: 30 }), { others: 0, total: 30 })

  const short = { key: 'short', timeWindow: 20 }
  await one.ask({ ...short, needed: 1, reserve: 4 })
  // Redis may not have removed an expired key yet, so the test keeps the key past its end.
  await redis.commands.persist('landfall:window:2:test short')
  await sleep(40)
  t.match(await two.ask({ ...short, timeWindow: 60_000, needed: 30 }), { granted: 30, total: 30 })
  t.match(await two.ask({ ...short, timeWindow: 60_000, needed: 1 }), { granted: 0, others: 0 })
})

t.test('a window whose end is too far ahead counts as ended, because the clock was set back', async (t) => {
  const redis = await redisOf(t)
  const [one] = processesOf(redis)
  const { id } = await one.ask({ needed: 30 })
  await redis.commands.hset('landfall:window:2:test a', 'e', id + 600_000)
  t.match(await one.ask({ needed: 5 }), { granted: 5, total: 5, leftMs: 60_000 })
})

t.test('a window without an id counts as used up', async (t) => {
  const redis = await redisOf(t)
  const [one, two] = processesOf(redis)
  await one.ask({ needed: 3 })
  await redis.commands.hdel(WINDOW, 'i')
  t.match(await two.ask({ needed: 1, openShares: 5 }), { granted: 0, total: 30 })
  t.match(await one.ask({ needed: 1 }), { granted: 0, total: 30, others: 0 })
})

t.test('reads of a window that has ended do not count in the next one, also if Redis loses that', async (t) => {
  const redis = await redisOf(t)
  const [one, two] = processesOf(redis)
  const short = { key: 'short', timeWindow: 200 }
  const { id, total, own } = await one.ask({ ...short, needed: 20 })
  await sleep(220)
  const known = { id, total, own }
  const next = await one.ask({ ...short, needed: 1, known })
  t.match(next, { total: 1, own: 1 })
  t.match(await two.ask({ ...short, needed: 1, known }), { total: 2, own: 1 }, 'of the next one')
  await redis.commands.del('landfall:window:2:test short')
  const again = { ...short, needed: 1, knowsLoss: true, known: { id: next.id, total: 2, own: 1 } }
  t.match(await one.ask(again), { granted: 0, total: 2, withheld: true })
  t.match(await two.ask(again), { granted: 1, total: 3, withheld: false })
})

t.test('requests in one turn of the event loop share few commands and get their own responses', async (t) => {
  const server = await startRedisServer(t)
  const { redis } = (await startReplicas(t, [server.url]))[0]!
  const [one] = processesOf(redis)
  await one.ask({ key: 'other', needed: 1 })
  await redis.commands.config('RESETSTAT')
  const responses: Promise<LeaseResponse>[] = []
  for (let n = 0; n < 250; n++) {
    responses.push(one.ask({ key: String(n), needed: 1 + n % 7, reserve: n % 5 }))
  }
  t.same(
    (await Promise.all(responses)).map(({ total }) => total),
    Array.from({ length: 250 }, (_, n) => 1 + n % 7 + n % 5)
  )
  t.match(await redis.commands.info('commandstats'), /^cmdstat_evalsha:calls=3,/m)
})

t.test('a window ends a minute after the earliest read that a process reports', async (t) => {
  const [one, two] = processesOf(await redisOf(t))
  const first = await one.ask({ needed: 1, unreported: 5, restOfWindow: 50_000 })
  t.match(first, { total: 6 })
  t.ok(first.leftMs <= 50_000)
  t.match(await two.ask({ unreported: 4, restOfWindow: 58_000 }), { total: 10, id: first.id })
  const earlier = await two.ask({ unreported: 1, restOfWindow: 20_000 })
  t.match(earlier, { total: 11, id: first.id })
  t.ok(earlier.leftMs <= 20_000)
})

t.test('a window does not begin before the end of the previous one, as far as any process knows', async (t) => {
  const [one, two] = processesOf(await redisOf(t))
  const first = await one.ask({ needed: 1, unreported: 5, restOfWindow: 40_000 })
  const second = await two
    .ask({ unreported: 3, restOfWindow: 50_000, sincePreviousEnd: 10_000 })
  t.match(second, { total: 9, id: first.id })
  t.ok(second.leftMs > 49_000, 'it ends a minute after the end of the previous one')
  const third = await one.ask({ unreported: 1, restOfWindow: 30_000 })
  t.ok(third.leftMs > 49_000, 'an earlier read was in the previous one')
})

t.test('a window does not overlap with the previous one, also if another process had asked for that', async (t) => {
  const [one, two] = processesOf(await redisOf(t))
  const short = { key: 'short', timeWindow: 300 }
  const first = await one.ask({ ...short, needed: 1 })
  const begun = performance.now()
  while (performance.now() < begun + 310);
  const next = await two.ask({ ...short, needed: 1, unreported: 5, restOfWindow: 100 })
  t.match(next, { total: 6 })
  t.ok(next.id >= first.id + 300, 'it ends a window after the end of the previous one')
  t.match(await one.ask({ ...short, needed: 30 }), { id: next.id, others: 0 })
})
