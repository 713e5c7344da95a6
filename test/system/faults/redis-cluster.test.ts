import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import type { Read } from '../../helpers/readers.ts'
import { NODE_TIMEOUT_MS, startRedisCluster } from '../../helpers/redis-cluster.ts'
import { expectCoherentReads, LIMIT, meanwhile, newClient, spendTogether, startLoadedReplicas, timedOut,
  untilHearing, untilShared } from '../../helpers/redis-replicas.ts'
import { slackMs } from '../../helpers/slack.ts'
import { until } from '../../helpers/until.ts'

// Two replicas of the service on a Redis Cluster with three masters, under a steady load of public reads.

const cluster = await startRedisCluster(t)
const { one, two, owner, hot, cold, create, readers } = await startLoadedReplicas(t, [
  cluster.url,
  cluster.url
])
const both = [one, two]
const pages = [hot, ...cold]
await untilHearing(both, true)

/** Limit for the cluster to replace a master, and for the service to notice it, in milliseconds. */
const FAILOVER_MS = 3 * NODE_TIMEOUT_MS + 2000

const documentOf = ({ publicId }: typeof hot): string => `landfall:document:${publicId}`

/** Whether a write on each replica is soon visible on the other one, for documents of all masters. */
async function expectCoherent (t: Test): Promise<void> {
  for (const [n, page] of pages.slice(0, 12).entries()) {
    const [writer, reader] = n % 2 === 0 ? [one, two] : [two, one]
    t.equal((await page.read(reader.url)).status, 200)
    t.equal((await page.write(writer.url)).status, 200)
    t.equal((await page.read(writer.url)).version, page.version)
    await until(
      async () => (await page.read(reader.url)).version === page.version,
      'the other replica has it'
    )
  }
}

/** Runs an action while pages are read and written, then checks all reads. */
async function underLoad (t: Test, action: () => Promise<unknown>): Promise<readonly Read[]> {
  let n = 0
  const reads = await readers.during(async () => {
    await meanwhile(action, async () => {
      const page = pages[n % pages.length] as typeof hot
      t.equal((await page.write((n++ % 2 === 0 ? one : two).url)).status, 200)
    }, 20)
    await untilShared(both, true)
    await untilHearing(both, true)
    await sleep(1000)
  })
  expectCoherentReads(t, reads, pages)
  return reads
}

t.test('replicas share limits, documents and writes through a cluster', async (t) => {
  const reads = await readers.during(async () => {
    for (let n = 0; n < 10; n++) t.equal(await spendTogether(both, hot), LIMIT, 'one limit for both replicas')
    await expectCoherent(t)
    const doomed = await Promise.all(Array.from({ length: 6 }, async () => await create()))
    for (const page of doomed) {
      for (const { url } of both) t.equal((await page.read(url)).status, 200)
      t.equal((await page.remove(one.url)).status, 204)
      await until(async () => (await page.read(two.url)).status === 404, 'the other replica knows')
    }
  })
  expectCoherentReads(t, reads, pages)
  const text = await Promise.all(both.map(async ({ ops }) => (await call('GET', `${ops}/metrics`)).text))
  t.ok(
    text.every((lines) => /^landfall_public_reads_total\{.*source="redis",status="200"\} [1-9]/m.test(lines)),
    'documents come from the cluster, too'
  )
  const counts = await Promise.all((await cluster.masters()).map(async ({ admin }) => await admin.dbsize()))
  t.ok(counts.every((count) => count > 5), `every master has keys: ${counts.join(', ')}`)
  for (const { metric } of both) t.equal(await metric('landfall_redis_outages_total'), 0)
})

t.test('replicas share throttles and revocations through a cluster', async (t) => {
  const { email } = owner
  const signIn = async (url: string, password: string) =>
    (await call('POST', `${url}/auth/sign_in`, {
      json: { user: { email, password } },
      headers: { 'x-forwarded-for': newClient() }
    })).status
  const session = await Owner.signIn(one.url, email)
  t.equal(await session.signOut(one.url), 204)
  for (const { url } of both) t.equal(await session.accessStatus(url), 401, 'revoked on both replicas')
  const failures = []
  for (let n = 0; n < 10; n++) failures.push(await signIn(both[n % 2]!.url, 'a wrong password'))
  t.same(failures, Array(10).fill(401))
  for (const { url } of both) t.equal(await signIn(url, PASSWORD), 429)
})

t.test('CLUSTER FAILOVER under load: reads succeed, nothing older is served', async (t) => {
  for (const master of await cluster.masters()) {
    await underLoad(t, async () => {
      await cluster.failOver(master)
      await cluster.untilSteady()
    })
  }
  t.equal(await spendTogether(both, hot), LIMIT)
  await expectCoherent(t)
})

t.test('a killed master: reads succeed, its replica takes over', async (t) => {
  // One master may have both slots.
  for (
    const master of new Set([await cluster.masterOf(documentOf(hot)), await cluster.masterOf('landfall:any')])
  ) {
    const replica = await cluster.replicaOf(master)
    let backMs = 0
    await underLoad(t, async () => {
      const from = performance.now()
      await master.server.kill()
      await untilShared(both, false)
      t.match((await call('GET', `${one.url}/health/ready`)).json(), { status: 'degraded', redis: 'away' })
      await cluster.untilMaster(replica)
      await untilShared(both, true)
      await untilHearing(both, true)
      backMs = Math.round(performance.now() - from)
      await master.server.start()
      await cluster.untilSteady()
    })
    t.ok(backMs < FAILOVER_MS + slackMs(), `limits are shared again after ${backMs} ms`)
    t.equal(await spendTogether(both, hot), LIMIT)
    await expectCoherent(t)
  }
})

t.test('a frozen master keeps only the first reads waiting', async (t) => {
  const master = await cluster.masterOf(documentOf(hot))
  const replica = await cluster.replicaOf(master)
  const before = await timedOut(both)
  const reads = await underLoad(t, async () => {
    master.server.pause()
    await untilShared(both, false)
    await cluster.untilMaster(replica)
    await untilShared(both, true)
    master.server.resume()
    await cluster.untilSteady()
  })
  const asking = reads.filter(({ publicId }) => publicId !== hot.publicId)
  const waited = await timedOut(both) - before
  t.ok(waited < asking.length / 3, `${waited} commands of ${asking.length} reads waited`)
})

t.test('slots that move: limits are shared, nothing older is served', async (t) => {
  const masters = await cluster.masters()
  const outages = async () =>
    await Promise.all(both.map(async ({ metric }) => await metric('landfall_redis_outages_total')))
  const before = await outages()
  let passed = 0
  await underLoad(t, async () => {
    for (const page of pages.slice(0, 8)) {
      const source = await cluster.masterOf(documentOf(page))
      const target = masters.find(({ id }) => id !== source.id) as typeof source
      await cluster.moveSlot(documentOf(page), target, async () => await sleep(200))
    }
    passed = await spendTogether(both, hot)
  })
  t.equal(passed, LIMIT)
  t.same(await outages(), before, 'no move was taken for an outage')
  await expectCoherent(t)
})
