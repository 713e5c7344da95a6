import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { call } from '../../helpers/client.ts'
import { statuses } from '../../helpers/readers.ts'
import type { Proxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { expectCoherentReads, LIMIT, meanwhile, newClient, spend, spendTogether, startReplicas, timedOut,
  undisturbed, untilHearing, untilShared } from '../../helpers/redis-replicas.ts'
import { slackMs } from '../../helpers/slack.ts'

// All kinds of Redis outages, and failures between Redis and one replica, under a steady load of public reads
// on two replicas. test/integration/rate-limit tests the limit step by step.

const { redis, admin, one, two, owner, hot, cold, create, readers } = await startReplicas(t)
const both = [one, two]
const pages = [hot, ...cold]
const me = async (url: string, token: string) =>
  (await call('GET', `${url}/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status

/** An access token that was signed out on one replica before the faults. */
const revoked = owner.accessToken
{
  const { email } = owner
  const signedIn = await call('POST', `${one.url}/auth/sign_in`, {
    json: { user: { email, password: 'correct horse battery' } }
  })
  const signedOut = await owner.call('DELETE', `${one.url}/auth/sign_out`, {
    json: { refresh_token: owner.refreshToken }
  })
  if (signedIn.status !== 200 || signedOut.status !== 204) {
    throw new Error(`${signedIn.status}, ${signedOut.status}`)
  }
  owner.accessToken = (JSON.parse(signedIn.text) as { access_token: string }).access_token
}
const memory = async () =>
  await Promise.all(both.map(async ({ metric }) => await metric('process_resident_memory_bytes') / 2 ** 20))
await readers.for(1000)
const memoryBefore = await memory()

/** An outage that the proxies in front of Redis make. */
const ofProxies = (fault: (proxy: Proxy) => unknown, how: Parameters<Proxy['restore']>[0] = {}) => ({
  begin: async () => await Promise.all(both.map(async ({ proxy }) => await fault(proxy))),
  end: async () => await Promise.all(both.map(async ({ proxy }) => await proxy.restore(how)))
})
const OUTAGES: Record<string, { begin: () => unknown, end: () => unknown }> = {
  refused: ofProxies(async (proxy) => await proxy.refuse()),
  'black-holed': ofProxies((proxy) => proxy.blackhole()),
  'black-holed, and old connections never work again': ofProxies((proxy) => proxy.blackhole(), {
    forget: true
  }),
  'slowed by 300 ms': ofProxies((proxy) => proxy.delay(300)),
  frozen: { begin: () => redis.pause(), end: () => redis.resume() },
  'crashed and started again': {
    begin: async () => await redis.kill(),
    end: async () => await redis.start()
  },
  'out of memory': {
    begin: async () => await admin.config('SET', 'maxmemory', '1'),
    end: async () => await admin.config('SET', 'maxmemory', '0')
  }
}

/**
 * Returns a client that has spent its limit on a replica. For some time after an outage, the other one may
 * listen to a connection that is dead, so that it doesn't hear that its share is recalled.
 */
async function exhaustedClient (t: Test): Promise<string> {
  return await until(async () => {
    const { client, passed } = await undisturbed(both, async () => {
      const client = newClient()
      return { client, passed: await spend(one, hot, client) }
    })
    t.ok(passed <= LIMIT, `${passed} of ${LIMIT}`)
    return passed === LIMIT && client
  }, 'a client gets its limit')
}

for (const [name, { begin, end }] of Object.entries(OUTAGES)) {
  t.test(`Redis ${name}: reads and local limits go on, no write is undone`, async (t) => {
    const [over, fresh] = [await exhaustedClient(t), newClient()]
    const changed = cold[Object.keys(OUTAGES).indexOf(name)] as typeof hot
    const doomed = await create()
    for (const { url } of both) t.equal((await doomed.read(url)).status, 200)

    const reads = await readers.during(async () => {
      await begin()
      await untilShared(both, false)
      for (const { url } of both) {
        const ready = await call('GET', `${url}/health/ready`)
        t.equal(ready.status, 200)
        t.match(JSON.parse(ready.text), { status: 'degraded', redis: 'away' })
        t.equal(await me(url, owner.accessToken), 200)
        t.equal(await me(url, revoked), 401, 'a revoked token stays revoked')
      }
      t.equal(await spend(one, hot, over), 0, 'a client over the limit is still refused')
      t.same(
        await Promise.all(both.map(async (replica) => await spend(replica, hot, fresh))),
        [LIMIT, LIMIT],
        'each process grants the whole limit'
      )

      for (const page of [hot, changed]) t.equal((await page.write(one.url)).status, 200)
      t.equal((await doomed.remove(one.url)).status, 204)
      for (const page of [hot, changed]) {
        t.equal((await page.read(one.url)).version, page.version, 'a replica serves its own writes at once')
      }
      t.equal((await doomed.read(one.url)).status, 404)
      await until(
        async () =>
          (await hot.read(two.url)).version === hot.version && (await doomed.read(two.url)).status === 404,
        'the other replica has the write, too'
      )

      await end()
      const backMs = await untilShared(both, true)
      t.ok(backMs < 2000 + slackMs(), `back within ${backMs} ms`)
      for (const { url } of both) {
        for (const page of [hot, changed]) {
          t.equal((await page.read(url)).version, page.version, 'no replica serves the old copy in Redis')
        }
        t.equal((await doomed.read(url)).status, 404, 'a deleted page stays deleted')
        t.equal(await me(url, revoked), 401)
      }
      t.equal(await spendTogether(both, hot), LIMIT, 'the limit is shared again')
      await sleep(300)
    })
    expectCoherentReads(t, reads, pages)
  })
}

t.test('the open circuit breaker keeps reads from waiting for Redis', async (t) => {
  const before = await timedOut(both)
  const reads = await readers.during(async () => {
    for (const { proxy } of both) proxy.blackhole()
    await sleep(2500)
    for (const { proxy } of both) await proxy.restore()
    await untilShared(both, true)
  })
  const asking = reads.filter(({ publicId }) => publicId !== hot.publicId)
  const waited = await timedOut(both) - before
  t.same(Object.keys(statuses(reads)), ['200'])
  // Only reads that were sent before the breaker opened may wait; that is a small part of all.
  t.ok(waited < asking.length / 3, `${waited} commands of ${asking.length} reads waited`)
})

t.test('clients do not notice a flushed Redis without scripts', async (t) => {
  const over = await exhaustedClient(t)
  const reads = await readers.during(async () => {
    for (let n = 0; n < 5; n++) {
      await hot.write(one.url)
      await admin.flushall()
      await admin.script('FLUSH')
      t.equal((await hot.write(two.url)).status, 200)
      await until(
        async () => (await hot.read(one.url)).version === hot.version,
        'the other replica has the new version'
      )
      for (const { url } of both) t.equal(await me(url, revoked), 401)
    }
    t.equal(await spend(one, hot, over), 0, 'a client over the limit is refused from memory')
    t.equal(await spendTogether(both, hot), LIMIT)
  })
  expectCoherentReads(t, reads, pages)
})

t.test('a pause of the process is no outage of Redis', async () => {
  const outages = async () => await one.metric('landfall_redis_outages_total')
  // On a busy machine Redis itself may be too slow meanwhile.
  await until(async () => {
    const before = await outages()
    // With this delay some responses are on the way at each pause.
    one.proxy.delay(50)
    for (let n = 0; n < 4; n++) {
      const pid = one.child.pid as number
      process.kill(pid, 'SIGSTOP')
      await sleep(700)
      process.kill(pid, 'SIGCONT')
      await readers.for(200)
    }
    await one.proxy.restore()
    await untilShared([one], true)
    return await outages() === before
  }, 'no outage was counted')
})

t.test('a lost channel is detected while commands still work', async (t) => {
  const reads = await readers.during(async () => {
    await meanwhile(
      async () => {
        two.proxy.blackhole(/subscribe/i)
        const foundMs = await untilHearing([two], false)
        t.ok(foundMs < 1500 + slackMs(), `found within ${foundMs} ms`)
        t.equal(await two.metric('landfall_limits_shared'), 1, 'commands still work')
        t.equal(
          await one.metric('landfall_invalidation_channel_up'),
          1,
          'the other replica still gets messages'
        )
        await sleep(3000)
        // A connection that is subscribing during the fault stays dead, too.
        await two.proxy.restore({ forget: true })
        const backMs = await untilHearing([two], true)
        t.ok(backMs < 2000 + slackMs(), `back within ${backMs} ms`)
      },
      async () => await hot.write(one.url),
      100
    )
    await sleep(200)
  })
  expectCoherentReads(t, reads, pages)
})

t.test('a replica that reconnects first serves no old copy', async (t) => {
  const [changed, doomed] = [await create(), await create()]
  for (const page of [changed, doomed]) t.equal((await page.read(two.url)).version, 1)
  for (const { proxy } of both) await proxy.refuse()
  await untilShared(both, false)
  t.equal((await changed.write(one.url)).status, 200)
  t.equal((await doomed.remove(one.url)).status, 204)

  await two.proxy.restore()
  await untilShared([two], true)
  t.equal(await one.metric('landfall_limits_shared'), 0, 'the writer has not published yet')
  t.equal((await changed.read(two.url)).version, 2)
  t.equal((await doomed.read(two.url)).status, 404)

  t.equal((await changed.write(two.url)).status, 200)
  const reads = await readers.during(async () => {
    await one.proxy.restore()
    await untilShared([one], true)
    await untilHearing([one], true)
    for (let n = 0; n < 20; n++) {
      for (const { url } of both) {
        t.equal((await changed.read(url)).version, 3, 'the unpublished version has been replaced')
        t.equal((await doomed.read(url)).status, 404)
      }
    }
  })
  t.same(Object.keys(statuses(reads)), ['200'])
})

t.test("memory use hasn't grown after all these faults", async (t) => {
  const after = await memory()
  for (const [n, megabytes] of after.entries()) {
    const before = memoryBefore[n] as number
    t.ok(megabytes < before + 64, `${Math.round(before)} MiB before, ${Math.round(megabytes)} after`)
  }
})
