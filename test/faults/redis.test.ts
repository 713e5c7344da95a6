import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { call } from '../helpers/client.ts'
import { statuses } from '../helpers/readers.ts'
import { until } from '../helpers/until.ts'
import { LIMIT, longestStaleness, newClient, SLACK_MS, spend, spendTogether, startReplicas, turnedBack, untilShared } from './redis-replicas.ts'

// Redis away, in every way, under a steady load of public reads on two replicas. test/faults/redis-channel.test.ts has
// what becomes of messages, test/counters/*.test.ts how a limit goes on, step by step.

const { redis, admin, one, two, owner, hot, cold, create, readers } = await startReplicas(t)
const both = [one, two]
const pages = [hot, ...cold]
const me = async (url: string, token: string) => (await call('GET', `${url}/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status

/** Signed out on one replica while all was well. */
const revoked = owner.accessToken
{
  const { email } = owner
  const signedIn = await call('POST', `${one.url}/auth/sign_in`, { json: { user: { email, password: 'correct horse battery' } } })
  const signedOut = await owner.call('DELETE', `${one.url}/auth/sign_out`, { json: { refresh_token: owner.refreshToken } })
  if (signedIn.status !== 200 || signedOut.status !== 204) throw new Error(`${signedIn.status}, ${signedOut.status}`)
  owner.accessToken = (JSON.parse(signedIn.text) as { access_token: string }).access_token
}
const memory = async () => await Promise.all(both.map(async ({ metric }) => await metric('process_resident_memory_bytes') / 2 ** 20))
await readers.for(1000)
const memoryBefore = await memory()

const OUTAGES: Record<string, { begin: () => unknown, end: () => unknown }> = {
  refused: {
    begin: async () => { for (const { proxy } of both) await proxy.refuse() },
    end: async () => { for (const { proxy } of both) await proxy.restore() }
  },
  'black-holed': {
    begin: () => { for (const { proxy } of both) proxy.blackhole() },
    end: async () => { for (const { proxy } of both) await proxy.restore() }
  },
  'black-holed, and no connection of then ever works again': {
    begin: () => { for (const { proxy } of both) proxy.blackhole() },
    end: async () => { for (const { proxy } of both) await proxy.restore({ forget: true }) }
  },
  'slowed by 300 ms': {
    begin: () => { for (const { proxy } of both) proxy.delay(300) },
    end: async () => { for (const { proxy } of both) await proxy.restore() }
  },
  frozen: { begin: () => redis.pause(), end: () => redis.resume() },
  'crashed and started again': { begin: async () => await redis.kill(), end: async () => await redis.start() },
  'out of memory': {
    begin: async () => await admin.config('SET', 'maxmemory', '1'),
    end: async () => await admin.config('SET', 'maxmemory', '0')
  }
}

for (const [name, { begin, end }] of Object.entries(OUTAGES)) {
  t.test(`Redis ${name}: reads go on, limits are counted per process, nothing that was written is undone`, async (t) => {
    const [over, fresh] = [newClient(), newClient()]
    const changed = cold[Object.keys(OUTAGES).indexOf(name)] as typeof hot
    const doomed = await create()
    t.equal(await spend(one, hot, over), LIMIT)
    for (const { url } of both) t.equal((await doomed.read(url)).status, 200)
    let foundMs = 0
    let backMs = 0

    const reads = await readers.during(async () => {
      await begin()
      foundMs = await untilShared(both, false)
      for (const { url } of both) {
        const ready = await call('GET', `${url}/health/ready`)
        t.equal(ready.status, 200)
        t.match(JSON.parse(ready.text), { status: 'degraded', redis: 'away' })
        t.equal(await me(url, owner.accessToken), 200)
        t.equal(await me(url, revoked), 401, 'a revoked token stays revoked')
      }
      t.equal(await spend(one, hot, over), 0, 'who was over the limit is refused')
      t.same(await Promise.all(both.map(async (replica) => await spend(replica, hot, fresh))), [LIMIT, LIMIT], 'each process lets as many pass')

      for (const page of [hot, changed]) t.equal((await page.write(one.url)).status, 200)
      t.equal((await doomed.remove(one.url)).status, 204)
      for (const page of [hot, changed]) t.equal((await page.read(one.url)).version, page.version, 'own writes are read at once')
      t.equal((await doomed.read(one.url)).status, 404)
      await until(async () => (await hot.read(two.url)).version === hot.version && (await doomed.read(two.url)).status === 404, 'the other replica knows, too')

      await end()
      backMs = await untilShared(both, true)
      for (const { url } of both) {
        for (const page of [hot, changed]) t.equal((await page.read(url)).version, page.version, 'what Redis held is not believed')
        t.equal((await doomed.read(url)).status, 404, 'a deleted page stays deleted')
        t.equal(await me(url, revoked), 401)
      }
      t.equal(await spendTogether(both, hot), LIMIT, 'one limit again')
      await sleep(300)
    })
    t.same(Object.keys(statuses(reads)), ['200'], `${reads.length} reads`)
    t.same(turnedBack(reads), [])
    const staleMs = longestStaleness(reads, pages)
    t.ok(staleMs < 2000 + SLACK_MS, `stale for ${staleMs} ms`)
    t.ok(backMs < 2000 + SLACK_MS, `back within ${backMs} ms`)
    t.comment(`${name}: ${reads.length} reads, found in ${foundMs} ms, back in ${backMs} ms, stale for at most ${staleMs} ms`)
  })
}

t.test('one wait for many: while Redis is silent the breaker is open, and reads that would ask it do not wait', async (t) => {
  const reads = await readers.during(async () => {
    for (const { proxy } of both) proxy.blackhole()
    await sleep(2500)
    for (const { proxy } of both) await proxy.restore()
    await untilShared(both, true)
  })
  const asking = reads.filter(({ publicId }) => publicId !== hot.publicId)
  const waiting = asking.filter(({ sentAt, answeredAt }) => answeredAt - sentAt > 150)
  t.same(Object.keys(statuses(reads)), ['200'])
  // All of them would be more than twenty times as many as can be sent before the breaker opens.
  t.ok(waiting.length < asking.length / 3, `${waiting.length} of ${asking.length} waited`)
  t.comment(`${waiting.length} of ${asking.length} reads that need Redis or PostgreSQL waited for more than 150 ms`)
})

t.test('flushed, and its scripts forgotten: nobody notices', async (t) => {
  const over = newClient()
  t.equal(await spend(one, hot, over), LIMIT)
  const reads = await readers.during(async () => {
    for (let n = 0; n < 5; n++) {
      await hot.write(one.url)
      await admin.flushall()
      await admin.script('FLUSH')
      t.equal((await hot.write(two.url)).status, 200)
      await until(async () => (await hot.read(one.url)).version === hot.version, 'the other replica was told')
      for (const { url, metric } of both) {
        t.equal(await me(url, revoked), 401)
        t.equal(await metric('landfall_limits_shared'), 1)
      }
    }
    t.equal(await spend(one, hot, over), 0, 'who is over the limit is refused from memory')
    t.equal(await spendTogether(both, hot), LIMIT)
  })
  t.same(Object.keys(statuses(reads)), ['200'])
  t.same(turnedBack(reads), [])
  const staleMs = longestStaleness(reads, pages)
  t.ok(staleMs < SLACK_MS, `stale for ${staleMs} ms`)
})

t.test('a process that was not let run for a while does not blame Redis for it', async (t) => {
  const said = () => one.output().split('\n').filter((line) => line.includes('Redis')).length
  const before = said()
  // Late enough that at each stop some answers are on the way.
  one.proxy.delay(50)
  for (let n = 0; n < 4; n++) {
    const pid = one.child.pid as number
    process.kill(pid, 'SIGSTOP')
    await sleep(700)
    process.kill(pid, 'SIGCONT')
    await readers.for(200)
  }
  await one.proxy.restore()
  t.equal(said() - before, 0, 'it was never away')
  t.equal(await one.metric('landfall_limits_shared'), 1)
})

t.test('after all of that memory is where it was', async (t) => {
  const after = await memory()
  for (const [n, megabytes] of after.entries()) {
    const before = memoryBefore[n] as number
    t.ok(megabytes < before + 64, `${Math.round(before)} MiB before, ${Math.round(megabytes)} after`)
    t.comment(`memory of replica ${n}: ${Math.round(before)} MiB before, ${Math.round(megabytes)} after`)
  }
})
