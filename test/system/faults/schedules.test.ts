import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { startCdn } from '../../helpers/cdn.ts'
import { call, Owner } from '../../helpers/client.ts'
import { claimRedis, createProxy, type Proxy } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { CrashingService, type StopPoint } from './crashing-service.ts'

// Scheduled changes, whatever happens to processes, clocks, PostgreSQL and Redis at that moment.

const { DATABASE_URL = '', ...common } = await testSettings(t)
const base = {
  ...common,
  DATABASE_URL,
  ACCESS_TOKEN_TTL: '86400',
  RATE_LIMIT_PUBLIC: '1000000',
  LOG_LEVEL: 'warn'
}
const withRedis = { ...base, REDIS_URL: await claimRedis(t) }
const database = new pg.Client(DATABASE_URL)
await database.connect()
t.teardown(async () => await database.end())

/** Long enough for the request that sets it. */
const SOON_MS = 2000
/** Long enough for what a test does before that time, on a machine that pauses. */
const MIDDLE_MS = 8000

const PURGE_INTERVAL_MS = 5000

const urlOf = (url: string, id: string, path: string) => `${url}/manage/landing_pages/${id}${path}`

interface Scheduled {
  readonly id: string
  readonly publicId: string
  readonly at: Date
}

/** Creates a published page, `{"v":1}`, whose draft, `{"v":2}`, is published after some time. */
async function schedule (owner: Owner, url: string, afterMs: number): Promise<Scheduled> {
  const { id, public_id: publicId } = await owner.createPage(url, '{"v":1}')
  await owner.call('PUT', urlOf(url, id, '/draft'), { text: '{"v":2}' })
  const { rows: [row] } = await database.query(
    "SELECT date_trunc('milliseconds', now()) + $1 * interval '1 ms' AS at",
    [afterMs]
  )
  const json = { publish_at: row.at.toISOString(), unpublish_at: null }
  const { status, text } = await owner.call('PUT', urlOf(url, id, '/schedule'), { json })
  if (status === 422) return await schedule(owner, url, 2 * afterMs) // that time has passed meanwhile
  if (status !== 200) throw new Error(`not scheduled: ${status} ${text}`)
  return { id, publicId, at: row.at }
}

/** Returns the current version, and whether that is possible by PostgreSQL's clock. */
async function look ({ id, at }: Scheduled): Promise<{ version: number, isEarly: boolean }> {
  const { rows: [row] } = await database.query(
    `SELECT version::int, version > 1 AND clock_timestamp() < $2::timestamptz AS "isEarly"
    FROM landing_pages WHERE id = $1`,
    [id, at]
  )
  return row
}

async function untilPublished (t: Test, page: Scheduled): Promise<void> {
  await until(async () => {
    const { version, isEarly } = await look(page)
    if (isEarly) t.fail('the page was published before its time')
    return version > 1
  }, 'the page is published')
}

/** Asserts that a page was published exactly once, and is left as that leaves it. */
async function isPublishedOnce (t: Test, { id }: Scheduled, name: string): Promise<void> {
  const { rows: [page] } = await database.query(
    `SELECT version::int, current_data, scheduled_version::int AS scheduled,
      (SELECT count(*)::int FROM landing_page_revisions WHERE page_id = id) AS revisions,
      (SELECT count(*)::int FROM landing_page_drafts WHERE page_id = id) AS drafts,
      (SELECT count(*)::int FROM landing_page_schedules WHERE page_id = id AND publish_at IS NOT NULL) AS schedules
    FROM landing_pages WHERE id = $1`,
    [id]
  )
  t.same(
    page,
    { version: 2, current_data: '{"v":2}', scheduled: 2, revisions: 1, drafts: 0, schedules: 0 },
    name
  )
}

const read = async (url: string, { publicId }: Scheduled) =>
  (await call('GET', `${url}/landing_pages/${publicId}`)).text

t.test('after SIGKILL at any step, a page is published exactly once', async (t) => {
  const first = await CrashingService.start(t, withRedis)
  const services = [first, await CrashingService.start(t, { ...withRedis, MIGRATE_ON_START: 'false' })]
  const owner = await Owner.signUp(first.url)
  // The statements of a change, and its publication. A check for due times is none of them.
  const STEPS =
    /^query (?!.*clock_timestamp).*(landing_page_schedules|landing_page_drafts|landing_pages)|^redis eval/

  /** Returns whether any process was stopped. */
  const round = async (point: Pick<StopPoint, 'nth' | 'when'>): Promise<boolean> => {
    const page = await schedule(owner, first.url, SOON_MS)
    const published = untilPublished(t, page)
    const stops = await Promise.all(services.map(async (service) => {
      const stop = await service.stopAt({ steps: STEPS, ...point, withOwn: true }, async () => {
        await published
        await sleep(500) // those that come second find out
      })
      if (stop !== undefined) await service.kill()
      return { service, stop }
    }))
    const victims = stops.filter(({ stop }) => stop !== undefined)
    await Promise.all(victims.map(async ({ service }) => await service.restart()))
    await published
    await isPublishedOnce(t, page, JSON.stringify(point))
    return victims.length > 0
  }

  let steps = 0
  while (await round({ nth: steps + 1, when: 'before' })) steps++
  t.ok(steps >= 4, `killed before ${steps} steps`)
  await round({ nth: steps, when: 'during' })
  await round({ nth: steps, when: 'after' })
})

for (const [name, shift] of [['ahead', 3_600_000], ['behind', -3_600_000]] as const) {
  t.test(`a clock an hour ${name} neither delays nor hastens a change`, async (t) => {
    const cdn = await startCdn(t, (_request, count) => ({ status: count === 1 ? 503 : 200 }))
    const { url, end } = await startService(t, {
      ...base,
      PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=3600',
      CDN_PURGE: 'http',
      CDN_PURGE_URL: cdn.url,
      CDN_PURGE_TOKEN: 'operators-token',
      NODE_OPTIONS: `--import=${new URL('shifted-clock.js', import.meta.url).href}`,
      TEST_CLOCK_MS: String(shift)
    })
    const owner = await Owner.signUp(url)
    const { public_id: publicId } = await owner.createPage(url, '{}')
    const second = await cdn.purge(publicId, 2)
    const [refused, first] = cdn.requests
    t.ok(first!.at - refused!.at >= PURGE_INTERVAL_MS, 'tried again')
    t.ok(second.at - first!.at >= PURGE_INTERVAL_MS, 'purged once more')
    const page = await schedule(owner, url, SOON_MS)
    await untilPublished(t, page) // which waits much less than an hour
    await isPublishedOnce(t, page, name)
    await end('SIGTERM')
  })
}

t.test('on three replicas', async (t) => {
  const replicas: { url: string, postgres: Proxy, redis: Proxy }[] = []
  for (let index = 0; index < 3; index++) {
    const postgres = await createProxy(t, DATABASE_URL)
    const redis = await createProxy(t, withRedis.REDIS_URL)
    const { url } = await startService(t, { ...withRedis, DATABASE_URL: postgres.url, REDIS_URL: redis.url })
    replicas.push({ url, postgres, redis })
  }
  const urls = replicas.map(({ url }) => url)
  const [first] = urls as [string, ...string[]]
  const owner = await Owner.signUp(first)

  t.test('every replica serves a draft from its time on', async (t) => {
    const page = await schedule(owner, first, SOON_MS)
    let arrived = 0
    await Promise.all(urls.map(async (url) => {
      for (let isThere = false; arrived < urls.length;) {
        const text = await read(url, page)
        const { rows: [{ now }] } = await database.query('SELECT clock_timestamp() AS now')
        if (text !== (isThere ? '{"v":2}' : '{"v":1}')) {
          if (isThere || text !== '{"v":2}' || now < page.at) t.fail(`read ${text} at ${now.toISOString()}`)
          isThere = true
          arrived++
        }
        await sleep(10)
      }
    }))
    await isPublishedOnce(t, page, 'once')
  })

  t.test('without PostgreSQL, changes wait until it is back', async (t) => {
    const pages = [await schedule(owner, first, MIDDLE_MS), await schedule(owner, first, MIDDLE_MS)]
    await Promise.all(replicas.map(async ({ postgres }) => await postgres.refuse()))
    await until(async () =>
      (await database.query('SELECT clock_timestamp() > $1 AS past', [pages[1]?.at])).rows[0].past
    )
    await sleep(1000)
    for (const page of pages) t.equal((await look(page)).version, 1)
    await Promise.all(replicas.map(async ({ postgres }) => await postgres.restore()))
    for (const page of pages) await untilPublished(t, page)
    for (const page of pages) await isPublishedOnce(t, page, 'once')
    for (const url of urls) await until(async () => await read(url, pages[0] as Scheduled) === '{"v":2}')
  })

  t.test('without Redis, every replica serves the new document', async (t) => {
    const page = await schedule(owner, first, MIDDLE_MS)
    for (const url of urls) await until(async () => await read(url, page) === '{"v":1}')
    await Promise.all(replicas.map(async ({ redis }) => await redis.refuse()))
    await untilPublished(t, page)
    for (const url of urls) await until(async () => await read(url, page) === '{"v":2}')
    await Promise.all(replicas.map(async ({ redis }) => await redis.restore()))
    const end = performance.now() + 3000
    while (performance.now() < end) {
      for (const url of urls) t.equal(await read(url, page), '{"v":2}')
      await sleep(100)
    }
    await isPublishedOnce(t, page, 'once')
  })
})
