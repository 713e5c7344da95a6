import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { JWT_SECRET, PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { buildRelease } from './release-before.ts'
import { createDatabase, startRedisServer } from '../../helpers/servers.ts'
import { SERVE, startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// The release before and this one, side by side on one PostgreSQL, one Redis and one folder of uploads: an
// upgrade, a rollback, and an upgrade again.

const { commit } = JSON.parse(readFileSync(join(import.meta.dirname, 'release-before.json'), 'utf8')) as {
  commit: string
}
const LIMIT = 30
const SECOND_MS = 1000

const earlier = await buildRelease(commit)
const redis = await startRedisServer(t)
const admin = new Redis(redis.url)
t.teardown(() => admin.disconnect())
const settings = {
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
  t.ok(slowestMs < 5 * SECOND_MS, `no read hangs (${Math.round(slowestMs)} ms)`)
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
const asset = JSON.parse((await owner.upload(first.url, Buffer.from('kept'), 'kept.txt')).text) as {
  url: string
}
let version = 1

/** Checks what both releases must agree on. */
async function checkTogether (t: Test, one: Service, other: Service): Promise<void> {
  await t.test('a write on either is read on both', async (t) => {
    for (const [writer, reader] of [[one, other], [other, one]] as const) {
      for (const { url } of [one, other]) {
        await call('GET', `${url}/landing_pages/${publicId}`, { headers: { origin: 'https://load.example' } })
      }
      t.equal((await owner.update(writer.url, id, `{"version":${++version}}`)).status, 200)
      await until(async () => {
        const { text } = await call('GET', `${reader.url}/landing_pages/${publicId}`, {
          headers: { origin: 'https://load.example' }
        })
        return text === `{"version":${version}}`
      }, `version ${version} is read`)
    }
  })

  await t.test('a session of either works on both, and ends on both', async (t) => {
    for (const [here, there] of [[one, other], [other, one]] as const) {
      const session = await Owner.signUp(here.url)
      t.equal((await session.call('GET', `${there.url}/auth/me`)).status, 200)
      const body = { json: { refresh_token: session.refreshToken } }
      const { status, text } = await call('POST', `${there.url}/auth/refresh`, body)
      t.equal(status, 200)
      t.equal((await call('POST', `${here.url}/auth/refresh`, body)).status, 401, 'a spent token')
      const { refresh_token: refreshToken } = JSON.parse(text) as { refresh_token: string }
      const signOut = { json: { refresh_token: refreshToken } }
      t.equal((await session.call('DELETE', `${there.url}/auth/sign_out`, signOut)).status, 204)
      t.equal((await session.call('GET', `${here.url}/auth/me`)).status, 401)
      const signIn = { json: { user: { email: session.email, password: PASSWORD } } }
      t.equal((await call('POST', `${there.url}/auth/sign_in`, signIn)).status, 200)
    }
  })

  await t.test('files of either are served by both', async (t) => {
    for (const [here, there] of [[one, other], [other, one]] as const) {
      const { url } = JSON.parse((await owner.upload(here.url, Buffer.from('new'), 'new.txt')).text) as {
        url: string
      }
      t.equal((await call('GET', `${there.url}${new URL(url).pathname}`)).text, 'new')
      t.equal((await call('GET', `${there.url}${new URL(asset.url).pathname}`)).text, 'kept')
    }
  })

  await t.test('a client at its limit is refused without a wait, and one below it is not', async (t) => {
    const before = await redisCommands()
    for (const order of [[one, other], [other, one]]) {
      const atLimit = newClient()
      const alone = (await spend(t, order.slice(0, 1), atLimit, 11))[0] as number
      t.equal(alone, 11, 'below the limit')
      const [more = 0, elsewhere = 0] = await spend(t, order, atLimit, 90)
      const here = alone + more
      t.ok(
        here <= LIMIT && elsewhere <= LIMIT,
        `no release allows more than the limit: ${here}, ${elsewhere}`
      )
      // Releases with other formats in Redis count apart (docs/adr/0027-versions-of-redis-names.md).
      t.ok(here + elsewhere >= LIMIT, 'both together allow the limit')
      const wellBelow = await spend(t, order, newClient(), 10)
      t.same(wellBelow, [5, 5])
    }
    const reads = 2 * (11 + 90 + 10)
    const perRead = (await redisCommands() - before) / reads
    t.ok(perRead < 100, `${perRead.toFixed(1)} commands for each read`)
  })
}

let key = ''
const statusWithKey = async (url: string): Promise<number> =>
  (await call('GET', `${url}/manage/landing_pages`, { headers: { authorization: `Bearer ${key}` } })).status

/** Checks what only this release knows: its API keys, and the deletion of accounts. */
async function checkNewer (t: Test, newer: Service, older: Service): Promise<void> {
  t.equal(await statusWithKey(newer.url), 200)
  t.equal(await statusWithKey(older.url), 401)
  const leaver = await Owner.signUp(older.url)
  const page = await leaver.createPage(older.url, '{}')
  const readAt = async ({ url }: Service): Promise<number> =>
    (await call('GET', `${url}/landing_pages/${page.public_id}`, {
      headers: { origin: 'https://load.example' }
    })).status
  t.same([await readAt(newer), await readAt(older)], [200, 200])
  const deletion = { json: { password: PASSWORD } }
  t.equal((await leaver.call('DELETE', `${newer.url}/auth/me`, deletion)).status, 204)
  t.equal((await leaver.call('GET', `${older.url}/auth/me`)).status, 401)
  for (const service of [newer, older]) {
    await until(async () => await readAt(service) === 404, 'the page is gone')
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
  const readers = new Readers(t, { urls, publicIds: [steadyId], headers: { origin: 'https://load.example' } })
  /** Starts one service in place of another, on its port as behind a load balancer, and ends the other. */
  const replace = async (old: Service, start: () => Promise<Service>): Promise<Service> => {
    const next = await start()
    urls[urls.indexOf(old.url)] = next.url
    await new Promise((resolve) => setTimeout(resolve, 100)) // reads that were sent to the old URL
    t.equal(await old.end('SIGTERM'), 0)
    return next
  }
  const reads = await readers.during(async () => {
    first = await replace(first, startThis)
    await t.test('one replica is upgraded', async (t) => {
      await checkTogether(t, first, second)
      key = await owner.createKey(first.url, ['pages:read'])
      await checkNewer(t, first, second)
    })
    second = await replace(second, startThis)
    await t.test('both replicas are upgraded', async (t) => {
      await checkTogether(t, first, second)
      await checkLimit(t, first, second)
    })
    first = await replace(first, startEarlier)
    await t.test('one replica is rolled back', async (t) => {
      await checkTogether(t, first, second)
      await checkNewer(t, second, first)
    })
    second = await replace(second, startEarlier)
    await t.test('both replicas are rolled back', async (t) => await checkTogether(t, first, second))
    first = await replace(first, startThis)
    await t.test('one replica is upgraded again', async (t) => {
      await checkTogether(t, second, first)
      await checkNewer(t, first, second)
    })
    second = await replace(second, startThis)
    await t.test('both replicas are upgraded again', async (t) => {
      await checkLimit(t, first, second)
      for (const { url } of [first, second]) t.equal(await statusWithKey(url), 200)
    })
  })
  t.same(
    Object.keys(statuses(reads)),
    ['200'],
    `no read of the load failed: ${JSON.stringify(statuses(reads))}`
  )
})
