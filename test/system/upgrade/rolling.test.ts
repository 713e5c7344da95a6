import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { JWT_SECRET, PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { buildRelease } from './release-before.ts'
import { createDatabase, query, startRedisServer } from '../../helpers/servers.ts'
import { SERVE, startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// The release before and this one, side by side on one PostgreSQL, one Redis and one folder of uploads: an
// upgrade, a rollback, and an upgrade again.

const { commit } = JSON.parse(readFileSync(join(import.meta.dirname, 'release-before.json'), 'utf8')) as {
  commit: string
}
const LIMIT = 30
const LOAD = { origin: 'https://load.example' }

const earlier = await buildRelease(commit)
const redis = await startRedisServer(t)
const admin = new Redis(redis.url)
t.teardown(() => admin.disconnect())
const settings = {
  ...RECEIVABLE,
  DATABASE_URL: await createDatabase(t),
  REDIS_URL: redis.url,
  JWT_SECRET,
  UPLOADS_DIR: temporaryFolder(t),
  LOG_LEVEL: 'warn',
  TRUST_PROXY: '127.0.0.0/8,::1',
  ALLOWED_HOSTS: 'load.example',
  RATE_LIMIT_ALLOWED_HOSTS: '1000000',
  SHUTDOWN_DELAY_MS: '0'
}
// The responses of the release before are not compared with its OpenAPI document.
const startEarlier = async () => await startService(t, settings, earlier, true)
const startThis = async () => await startService(t, settings, SERVE)

let clients = 0
const newClient = (): string => `203.0.113.${++clients}`

/** Reads a page as the load does, which doesn't reach its limit. */
const read = async (url: string, publicId: string) =>
  await call('GET', `${url}/landing_pages/${publicId}`, { headers: LOAD })

/** Reads in turn from services until one has refused; returns how many reads each allowed. */
async function spend (
  t: Test,
  services: readonly Service[],
  client: string,
  most: number
): Promise<number[]> {
  const allowed = services.map(() => 0)
  let slowestMs = 0
  for (let n = 0; n < most; n++) {
    const sentAt = performance.now()
    const { status } = await call('GET', `${services[n % services.length]!.url}/landing_pages/${publicId}`, {
      headers: { 'x-forwarded-for': client }
    })
    slowestMs = Math.max(slowestMs, performance.now() - sentAt)
    if (status === 200) allowed[n % services.length]!++
  }
  t.ok(slowestMs < 5000, `no read hangs (${Math.round(slowestMs)} ms)`)
  return allowed
}

/** All commands, also those in scripts. */
const redisCommands = async (): Promise<number> =>
  [...(await admin.info('commandstats')).matchAll(/:calls=(\d+)/g)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0
  )

let first = await startEarlier()
let second = await startEarlier()
const owner = await Owner.signUp(first.url)
const { id, public_id: publicId } = await owner.createPage(first.url, '{"version":1}')
const { public_id: steadyId } = await owner.createPage(first.url, '{"steady":true}')
const keyed = await owner.createPage(first.url, '{}')
const asset = await owner.store(first.url, Buffer.from('kept'), 'kept.txt')
let version = 1

/** Checks what both releases must agree on. */
async function checkTogether (t: Test, one: Service, other: Service): Promise<void> {
  await t.test('a write on either is read on both', async (t) => {
    for (const [writer, reader] of [[one, other], [other, one]] as const) {
      for (const { url } of [one, other]) await read(url, publicId)
      t.equal((await owner.update(writer.url, id, `{"version":${++version}}`)).status, 200)
      await until(
        async () => (await read(reader.url, publicId)).text === `{"version":${version}}`,
        `version ${version} is read`
      )
    }
  })

  await t.test('a session of either works on both, and ends on both', async (t) => {
    for (const [here, there] of [[one, other], [other, one]] as const) {
      const session = await Owner.signUp(here.url)
      t.equal(await session.accessStatus(there.url), 200)
      const spent = { json: { refresh_token: session.refreshToken } }
      t.equal(await session.refresh(there.url), 200)
      t.equal((await call('POST', `${here.url}/auth/refresh`, spent)).status, 401, 'a spent token')
      t.equal(await session.signOut(there.url), 204)
      t.equal(await session.accessStatus(here.url), 401)
      t.equal(await session.signInStatus(there.url), 200)
    }
  })

  await t.test('files of either are served by both', async (t) => {
    for (const [here, there] of [[one, other], [other, one]] as const) {
      const { path } = await owner.store(here.url, Buffer.from('new'), 'new.txt')
      t.equal((await call('GET', there.url + path)).text, 'new')
      t.equal((await call('GET', there.url + asset.path)).text, 'kept')
    }
  })

  await t.test('a client at its limit is refused without a wait, and one below it is not', async (t) => {
    const before = await redisCommands()
    for (const order of [[one, other], [other, one]]) {
      const atLimit = newClient()
      const alone = (await spend(t, order.slice(0, 1), atLimit, 11))[0] as number
      t.equal(alone, 11, 'below the limit')
      const [more = 0, elsewhere = 0] = await spend(t, order, atLimit, 90)
      t.equal(alone + more + elsewhere, LIMIT, 'both together allow the limit, and no more')
      const wellBelow = await spend(t, order, newClient(), 10)
      t.same(wellBelow, [5, 5])
    }
    const reads = 2 * (11 + 90 + 10)
    const perRead = (await redisCommands() - before) / reads
    t.ok(perRead < 100, `${perRead.toFixed(1)} commands for each read`)
  })
}

let olderKey = ''
let newerKey = ''
/** The statuses with an API key: of a list, a write of a draft, and a write of a document. */
async function statusesWithKey ({ url }: Service, key: string): Promise<number[]> {
  const page = `${url}/manage/landing_pages/${keyed.id}`
  const options = { headers: { authorization: `Bearer ${key}` }, json: {} }
  return [
    (await call('GET', `${url}/manage/landing_pages`, { headers: options.headers })).status,
    (await call('PUT', `${page}/draft`, options)).status,
    (await call('PATCH', page, { ...options, json: { current_data: {} } })).status
  ]
}

/** Checks keys of both releases, drafts, which only this one knows, and the deletion of accounts. */
async function checkNewer (t: Test, newer: Service, older: Service): Promise<void> {
  t.same(await statusesWithKey(newer, olderKey), [200, 204, 200])
  t.same(await statusesWithKey(older, olderKey), [200, 404, 200])
  t.same(await statusesWithKey(newer, newerKey), [200, 204, 403])
  t.same(await statusesWithKey(older, newerKey), [200, 404, 403])
  for (const { url } of [newer, older]) t.equal((await owner.call('GET', `${url}/api_keys`)).status, 200)
  const leaver = await Owner.signUp(older.url)
  const page = await leaver.createPage(older.url, '{}')
  const readAt = async ({ url }: Service) => (await read(url, page.public_id)).status
  t.same([await readAt(newer), await readAt(older)], [200, 200])
  const deletion = { json: { password: PASSWORD } }
  t.equal((await leaver.call('DELETE', `${newer.url}/auth/me`, deletion)).status, 204)
  t.equal(await leaver.accessStatus(older.url), 401)
  for (const service of [newer, older]) {
    await until(async () => await readAt(service) === 404, 'the page is gone')
  }
}

const SCHEDULES = 1000
const WEBHOOKS = 10
const LINKS = 20

/** Creates an account that uses what only this release knows, up to its limits. */
async function startPlanner (t: Test, { url }: Service) {
  const planner = await Owner.signUp(url)
  const receiver = await startReceiver(t)
  const page = await planner.createPage(url, '{"version":1}')
  const post = async (path: string, json: object) => {
    const { status, text } = await planner.call('POST', `${url}${path}`, { json })
    if (status !== 201) throw new Error(text)
    return JSON.parse(text) as { token: string }
  }
  for (let n = 0; n < WEBHOOKS; n++) await post('/webhooks', { url: receiver.url, pages: [page.id] })
  const tokens: string[] = []
  while (tokens.length < LINKS) {
    tokens.push((await post(`/manage/landing_pages/${page.id}/preview_links`, {})).token)
  }
  await query(
    settings.DATABASE_URL,
    `WITH pages AS (
      INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash, published)
      SELECT gen_random_uuid(), 'scheduled-' || n, id, '{}', 'x', false
      FROM users, generate_series(1, ${SCHEDULES}) n WHERE email = '${planner.email}'
      RETURNING id, user_id
    )
    INSERT INTO landing_page_schedules (page_id, user_id, publish_at, author_type, author_name)
      SELECT id, user_id, now() + interval '1 day', 'user', 'planner' FROM pages`
  )
  return {
    /** Writes the page with the webhooks. */
    write: async (url: string, version: number) => {
      t.equal((await planner.update(url, page.id, `{"version":${version}}`)).status, 200)
    },
    /** How many messages tell a version. */
    told: (version: number) => receiver.messages.filter(({ data }) => data.version === version).length,
    /** The statuses of requests with the preview links. */
    previews: async (url: string) => {
      const preview = `${url}/previews/${page.public_id}`
      const all = await Promise
        .all(tokens.map(async (token) =>
          (await call('GET', preview, { headers: { authorization: `Bearer ${token}` } })).status
        ))
      return [...new Set(all)]
    },
    makeHalfDue: async () => {
      await query(
        settings.DATABASE_URL,
        `UPDATE landing_page_schedules SET publish_at = now() WHERE page_id IN (
          SELECT page_id FROM landing_page_schedules WHERE publish_at > now() LIMIT ${SCHEDULES / 2})`
      )
    },
    /** How many pages were published once, and more than once. */
    published: async () =>
      (await query(
        settings.DATABASE_URL,
        `SELECT count(*) FILTER (WHERE version = 2 AND published)::integer AS once,
          count(*) FILTER (WHERE version > 2)::integer AS more
        FROM landing_pages WHERE public_id LIKE 'scheduled-%'`
      ))[0] as unknown as { once: number, more: number }
  }
}

/** Checks the limit on two services of this release. */
async function checkLimit (t: Test, one: Service, other: Service): Promise<void> {
  const client = newClient()
  const [here = 0, there = 0] = await spend(t, [one, other], client, 40)
  t.equal(here + there, LIMIT)
}

t.test('an upgrade, a rollback and another upgrade go unnoticed', async (t) => {
  const urls = [first.url, second.url]
  const readers = new Readers(t, { urls, publicIds: [steadyId], headers: LOAD })
  /** Starts one service in place of another, on its port as behind a load balancer, and ends the other. */
  const replace = async (old: Service, start: () => Promise<Service>): Promise<Service> => {
    const next = await start()
    urls[urls.indexOf(old.url)] = next.url
    await readers.for(0) // reads that were sent to the old URL
    t.equal(await old.end('SIGTERM'), 0)
    return next
  }
  const reads = await readers.during(async () => {
    first = await replace(first, startThis)
    const planner = await startPlanner(t, first)
    await planner.makeHalfDue()
    await t.test('one replica is upgraded', async (t) => {
      await checkTogether(t, first, second)
      t.same([await planner.previews(first.url), await planner.previews(second.url)], [[200], [404]])
      olderKey = await owner.createKey(second.url, ['pages:read', 'pages:write'])
      newerKey = await owner.createKey(first.url, ['pages:read', 'drafts:write'])
      const draft = `${first.url}/manage/landing_pages/${keyed.id}/draft`
      t.equal((await owner.call('PUT', draft, { json: {} })).status, 201)
      await checkNewer(t, first, second)
    })
    second = await replace(second, startThis)
    await t.test('both replicas are upgraded', async (t) => {
      await planner.write(second.url, 2)
      await checkTogether(t, first, second)
      await until(() => planner.told(2) >= WEBHOOKS, 'a message of each webhook')
      await until(async () => (await planner.published()).once === SCHEDULES / 2, 'half of the schedules')
      await checkLimit(t, first, second)
    })
    first = await replace(first, startEarlier)
    await t.test('one replica is rolled back', async (t) => {
      await checkTogether(t, first, second)
      await checkNewer(t, second, first)
    })
    await planner.write(second.url, 3) // its messages may wait until this release is back
    second = await replace(second, startEarlier)
    await planner.makeHalfDue()
    await t.test('both replicas are rolled back', async (t) => {
      await checkTogether(t, first, second)
      t.match(await planner.published(), { once: SCHEDULES / 2 }, 'schedules wait')
    })
    first = await replace(first, startThis)
    await t.test('one replica is upgraded again', async (t) => {
      await checkTogether(t, second, first)
      await checkNewer(t, first, second)
      await until(async () => (await planner.published()).once === SCHEDULES, 'the other schedules')
      await until(() => planner.told(3) >= WEBHOOKS, 'no message is lost')
      t.same(await planner.previews(first.url), [200])
    })
    second = await replace(second, startThis)
    await t.test('both replicas are upgraded again', async (t) => {
      await checkLimit(t, first, second)
      for (const service of [first, second]) {
        t.same(await statusesWithKey(service, newerKey), [200, 204, 403])
        t.same(await statusesWithKey(service, olderKey), [200, 204, 200])
      }
      t.same(await planner.published(), { once: SCHEDULES, more: 0 }, 'each schedule ran once')
    })
  })
  t.same(statuses(reads), { 200: reads.length }, 'no read of the load failed')
})
