import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { JWT_SECRET, PASSWORD } from '../../helpers/app.ts'
import { call, Owner, type Response } from '../../helpers/client.ts'
import { Readers, statuses, type Read } from '../../helpers/readers.ts'
import { claimRedis, createProxy, query, startPostgresServer } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { slackMs } from '../../helpers/slack.ts'

// All kinds of PostgreSQL outages under public reads, with two replicas on Redis and one without it, whose
// documents are fresh for a second. test/integration/postgres/unavailable.test.ts tests the pool.

/** What the service promises. */
const RESPONSE_MS = 5000
const RECOVERY_MS = 2000

const server = await startPostgresServer(t)
const proxy = await createProxy(t, server.url)
const settings = {
  DATABASE_URL: proxy.url,
  JWT_SECRET,
  UPLOADS_DIR: temporaryFolder(t),
  LOG_LEVEL: 'error',
  RATE_LIMIT_PUBLIC: '1000000',
  REFRESHES_PER_ADDRESS: '1000000',
  MAX_EVENT_LOOP_DELAY_MS: '0' // a busy machine must not shed requests
}
const shared = { ...settings, REDIS_URL: await claimRedis(t) }
const first = await startService(t, shared)
const services = [
  first,
  ...await Promise.all([shared, settings].map(async (env) => await startService(t, env)))
]
const urls = services.map(({ url }) => url)
const ALONE = 2
const owner = await Owner.signUp(first.url)
const page = await owner.createPage(first.url, '{"v":1}')
const readers = new Readers(t, { urls, publicIds: [page.public_id], intervalMs: 25 })
await readers.for(100)
const admin = new pg.Client({ connectionString: server.url })
admin.on('error', () => {})

/** Returns requests that need PostgreSQL, by description. */
const needing = (url: string): Record<string, () => Promise<Response>> => ({
  'the account': async () => await owner.call('GET', `${url}/auth/me`),
  'a list': async () => await owner.call('GET', `${url}/manage/landing_pages`),
  'a new page': async () => await owner.call('POST', `${url}/landing_pages`, { text: '{"current_data":{}}' }),
  'a change': async () => await owner.update(url, page.id, '{"v":1}'),
  'an upload': async () => await owner.upload(url, Buffer.from('some bytes')),
  'a sign-in': async () =>
    await call('POST', `${url}/auth/sign_in`, { json: { user: { email: owner.email, password: PASSWORD } } }),
  'a refresh': async () =>
    await call('POST', `${url}/auth/refresh`, { json: { refresh_token: owner.refreshToken } }),
  'a page in no cache': async () => await call('GET', `${url}/landing_pages/${randomPublicId()}`)
})

async function isRefusedInTime (t: Test, what: string, ask: () => Promise<Response>): Promise<void> {
  const started = performance.now()
  const { status, headers } = await ask()
  const ms = performance.now() - started
  t.equal(status, 503, what)
  t.ok(Number(headers.get('retry-after')) >= 1, `${what}: has Retry-After`)
  t.ok(ms < RESPONSE_MS + slackMs(), `${what}: after ${Math.round(ms)} ms`)
}

/** Asserts that cached reads succeed during an outage, other requests get 503, and the service recovers. */
async function survives (
  t: Test,
  begin: () => Promise<unknown>,
  end: () => Promise<unknown>,
  isAnswering = false
): Promise<Read[]> {
  const reads = await readers.during(async () => {
    await begin()
    await Promise.all(urls.flatMap((url, replica) => [
      ...Object.entries(needing(url)).map(async ([what, ask]) =>
        await isRefusedInTime(t, `${what}, replica ${replica}`, ask)
      ),
      ...isAnswering ? []
        : [
          isRefusedInTime(
            t,
            `ready, replica ${replica}`,
            async () => await call('GET', `${url}/health/ready`)
          )
        ]
    ]))
    for (const url of urls) t.equal((await call('GET', `${url}/health/live`)).status, 200)
    await readers.for(1200) // longer than documents are fresh without Redis
    await end()
    const ended = performance.now()
    await Promise
      .all(urls.flatMap((url) => [
        async () => await call('GET', `${url}/health/ready`),
        async () => await owner.call('GET', `${url}/manage/landing_pages`)
      ]).map(async (ask) => {
        while ((await ask()).status !== 200) await sleep(20)
      }))
    const ms = Math.round(performance.now() - ended)
    t.ok(ms < RECOVERY_MS + slackMs(), 'the service recovers in time')
    for (const [what, status] of [['a page in no cache', 404], ['a refresh', 200]] as const) {
      const response = await needing(first.url)[what]?.() as Response
      t.equal(response.status, status, `${what}: works again`)
      if (what === 'a refresh') owner.refreshToken = JSON.parse(response.text).refresh_token
    }
  })
  t.same(statuses(reads), { 200: reads.length }, 'no read failed')
  for (const replica of urls.keys()) {
    t.ok(reads.some((read) => read.replica === replica), `replica ${replica} was read from`)
  }
  return reads
}

const isStale = ({ headers }: Read): boolean => headers['cache-status'] === 'landfall; hit; detail=stale'

t.test('cached reads succeed while PostgreSQL refuses connections', async (t) => {
  const reads = await survives(t, proxy.refuse, proxy.restore)
  const stale = reads.filter(isStale)
  t.ok(stale.length > 0, 'reads of documents that are no longer fresh have detail=stale')
  t.same(
    [...new Set(stale.map(({ replica }) => replica))],
    [ALONE],
    'replicas on Redis need no check for a minute, because they get all writes'
  )
  for (const { headers } of stale) t.match(headers.age, /^[1-9]\d*$/)
})

t.test('cached reads succeed while packets to PostgreSQL are dropped', async (t) => {
  await survives(t, async () => proxy.blackhole(), proxy.restore)
})

t.test('cached reads succeed while PostgreSQL is stopped and started again', async (t) => {
  await survives(t, server.stop, server.start)
})

t.test('cached reads succeed while all tables are locked', async (t) => {
  await admin.connect()
  t.teardown(async () => await admin.end())
  await survives(
    t,
    async () => await admin.query('BEGIN; LOCK TABLE users, sessions, refresh_tokens, landing_pages, assets'),
    async () => await admin.query('ROLLBACK'),
    true
  )
})

t.test('cached reads succeed while sessions are terminated', async (t) => {
  const responses: number[] = []
  const reads = await readers.during(async () => {
    for (let round = 0; round < 10; round++) {
      const asking = urls.flatMap((url) =>
        Array.from({ length: 3 }, async () => (await owner.call('GET', `${url}/manage/landing_pages`)).status)
      )
      await query(
        server.url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'landfall'"
      )
      responses.push(...await Promise.all(asking))
    }
  })
  t.same(statuses(reads), { 200: reads.length }, 'no read failed')
  t.same(responses.filter((status) => status !== 200 && status !== 503), [], 'never a 500')
  const ended = performance.now()
  for (const url of urls) {
    while ((await owner.call('GET', `${url}/manage/landing_pages`)).status !== 200) await sleep(20)
  }
  t.ok(performance.now() - ended < RECOVERY_MS + slackMs(), 'the service recovers in time')
})

/** Breaks connections while writes wait for a lock; returns the number of rows that each write left. */
async function interruptWrites (t: Test, name: string, interrupt: () => Promise<unknown>): Promise<number[]> {
  const COUNT = 6
  const locker = new pg.Client({ connectionString: server.url })
  await locker.connect()
  try {
    await locker.query('BEGIN; LOCK TABLE landing_pages IN SHARE MODE') // allows reads
    const writes = Array.from(
      { length: COUNT },
      async (_, n) =>
        await owner.call('POST', `${urls[n % urls.length]}/landing_pages`, {
          text: `{"current_data":{"${name}":${n}}}`
        })
    )
    const waiting = async () =>
      Number((await query(
        server.url,
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT " +
          "INTO landing_pages%'"
      ))[0]?.count)
    while (await waiting() < COUNT) await sleep(10)
    await interrupt()
    for (const { status, headers } of await Promise.all(writes)) {
      t.equal(status, 503)
      t.ok(Number(headers.get('retry-after')) >= 1)
    }
    await locker.query('COMMIT')
    while (await waiting() > 0) await sleep(10)
  } finally {
    await locker.end()
  }
  const rows = await query(
    server.url,
    `SELECT current_data FROM landing_pages WHERE current_data LIKE '{"${name}":%'`
  )
  return Array.from(
    { length: COUNT },
    (_, n) => rows.filter((row) => row.current_data === `{"${name}":${n}}`).length
  )
}

t.test("the service doesn't repeat a write whose response is lost", async (t) => {
  const done = await interruptWrites(t, 'reset', async () => proxy.disconnect())
  t.same(done, Array(6).fill(1), 'PostgreSQL carries out each write once')
  const undone = await interruptWrites(
    t,
    'terminated',
    async () =>
      await query(
        server.url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
      )
  )
  t.same(undone, Array(6).fill(0), 'a write that was terminated before its commit has no effect')
})

t.test('stale documents are served for at most CACHE_MAX_STALE_SECONDS', async (t) => {
  const { url } = await startService(t, {
    ...settings,
    DATABASE_TIMEOUT_MS: '500',
    CACHE_MAX_STALE_SECONDS: '3'
  })
  const read = async () => await call('GET', `${url}/landing_pages/${page.public_id}`)
  t.equal((await read()).status, 200)
  await proxy.refuse()
  const ages: number[] = []
  let last: Response
  while ((last = await read()).status === 200) {
    if (last.headers.get('cache-status')?.endsWith('stale')) ages.push(Number(last.headers.get('age')))
    await sleep(50)
  }
  t.equal(last.status, 503, 'never a 404')
  t.ok(Number(last.headers.get('retry-after')) >= 1)
  t.ok(ages.length > 0 && Math.max(...ages) < 3, `served at the age of ${Math.max(...ages)} s`)
  await proxy.restore()
  while ((last = await read()).status !== 200) t.equal(last.status, 503)
})
