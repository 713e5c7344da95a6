import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { upload, PNG } from '../../helpers/assets.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings, type Account,
  type CreatedPage } from '../../helpers/app.ts'
import { startCdn, type FakeCdn } from '../../helpers/cdn.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { query } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'
import { claimPurges, endClaim } from '../../../src/modules/cdn/purge-repository.ts'
import { CDN_AGAIN_TARGET, CDN_TARGET,
  deleteOldPurges } from '../../../src/modules/landing-pages/outbox-repository.ts'

// Purges without Redis, where a change is settled at once. The servers check requests as the documentation of
// each CDN describes them. test/system/deploy/varnish.test.ts runs Varnish.

// The tests mostly wait for purges.
t.jobs = 4

const AGAIN_MS = 5_000
const CACHED = { PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=3600' }

async function startApp (t: Test, cdn: FakeCdn, more: Record<string, string> = {}) {
  const settings: Record<string, string> = {
    ...await testSettings(t),
    ...CACHED,
    CDN_PURGE: 'http',
    CDN_PURGE_URL: cdn.url,
    CDN_PURGE_TOKEN: 'operators-token',
    ...more
  }
  const app = await buildTestApp(t, settings)
  return { app, account: await signUp(app), settings, url: settings.DATABASE_URL as string }
}

async function call (
  app: FastifyInstance,
  account: Account,
  method: Parameters<typeof sendAs>[2],
  url: string,
  payload?: object
) {
  const response = await sendAs(app, account, method, url, payload)
  if (response.statusCode >= 300) throw new Error(`${method} ${url}: ${response.statusCode} ${response.body}`)
  return response.body === '' ? undefined : response.json()
}

const cdnOf = async (app: FastifyInstance, account: Account, { id }: CreatedPage) =>
  (await call(app, account, 'GET', `/manage/landing_pages/${id}/publication`)).cdn

const cdnIn = async (app: FastifyInstance, account: Account, page: CreatedPage, state: string) =>
  await until(async () => {
    const cdn = await cdnOf(app, account, page)
    return cdn?.state === state && cdn
  }, state)

const KINDS = [
  {
    kind: 'cloudflare',
    tagHeader: 'cache-tag',
    request: (tag: string) => ({
      method: 'POST',
      path: '/client/v4/zones/zone-1/purge_cache',
      headers: { authorization: 'Bearer operators-token', 'content-type': 'application/json' },
      body: JSON.stringify({ tags: [tag] })
    }),
    response: { success: true, errors: [], messages: [], result: { id: 'zone-1' } }
  },
  {
    kind: 'fastly',
    tagHeader: 'surrogate-key',
    request: (tag: string) => ({
      method: 'POST',
      path: '/service/zone-1/purge',
      headers: { 'fastly-key': 'operators-token', accept: 'application/json', 'surrogate-key': tag },
      body: ''
    }),
    response: { 'lf-page': '108-1391560174-974124' }
  },
  {
    kind: 'varnish',
    tagHeader: 'xkey',
    request: (tag: string) => ({ method: 'PURGE', path: '/', headers: { 'xkey-purge': tag }, body: '' }),
    response: {}
  },
  {
    kind: 'http',
    tagHeader: 'cache-tag',
    request: (tag: string) => ({
      method: 'POST',
      path: '/',
      headers: { authorization: 'Bearer operators-token', 'content-type': 'application/json' },
      body: JSON.stringify({
        tags: [tag],
        urls: [`http://landfall.test/landing_pages/${tag.replace('lf-', '')}`]
      })
    }),
    response: {}
  }
]

t.test('a page is purged by its tag when it has changed', async (t) => {
  await Promise.all(KINDS.map(async ({ kind, tagHeader, request, response }) => {
    const cdn = await startCdn(t, () => ({ status: 200, body: response }))
    const { app, account } = await startApp(t, cdn, { CDN_PURGE: kind, CDN_PURGE_TARGET: 'zone-1' })
    const page = await createPage(app, account)
    const tag = `lf-${page.public_id}`
    t.match(await cdn.purge(page.public_id), request(tag), kind)
    const read = await app.inject({ url: `/landing_pages/${page.public_id}` })
    t.equal(read.headers[tagHeader], tag, kind)
    t.match(await cdnIn(app, account, page, 'purged'), { version: 1, at: /Z$/ })
  }))
})

t.test('a page is purged once more after five seconds', async (t) => {
  const cdn = await startCdn(t)
  const { app, account } = await startApp(t, cdn)
  const page = await createPage(app, account)
  const first = await cdn.purge(page.public_id)
  const purged = await cdnIn(app, account, page, 'purged')
  const second = await cdn.purge(page.public_id, 2)
  t.ok(second.at - first.at >= AGAIN_MS, `${second.at - first.at} ms later`)
  t.same(await cdnOf(app, account, page), purged, 'the second one is not another state')
})

t.test('a page that changes while its second purge begins gets another one', async (t) => {
  const cdn = await startCdn(t)
  const { app, account, url } = await startApp(t, cdn)
  const page = await createPage(app, account)
  await cdnIn(app, account, page, 'purged')
  const { client } = await openTransaction(t, url)
  const second = await client.query('SELECT FROM outbox WHERE target = $1 FOR UPDATE', [CDN_AGAIN_TARGET])
  t.equal(second.rowCount, 1)
  await call(app, account, 'PATCH', `/manage/landing_pages/${page.id}`, { current_data: { a: 2 } })
  await untilBlocked(url, 1)
  const claim = "UPDATE outbox SET state = 'sending', due_at = now() + interval '1 h' WHERE target = $1"
  await client.query(claim, [CDN_AGAIN_TARGET])
  await client.query('COMMIT')
  t.match(await cdnIn(app, account, page, 'purged'), { version: 2 })
  const where = { target: CDN_AGAIN_TARGET, state: 'waiting' }
  t.equal(await app.database.outboxMessage.count({ where }), 1)
})

t.test('a write with Prefer: wait tells when the CDN was purged, and when it was not in time', async (t) => {
  let status = 200
  const cdn = await startCdn(t, () => ({ status }))
  const { app, account } = await startApp(t, cdn)
  const page = await createPage(app, account)
  const write = async (a: number, seconds: number) => {
    const [url, prefer] = [`/manage/landing_pages/${page.id}`, `wait=${seconds}`]
    const { statusCode, headers } = await sendAs(app, account, 'PATCH', url, { current_data: { a } }, {
      prefer
    })
    return [statusCode, headers['landfall-publication'], headers['preference-applied']]
  }
  t.same(await write(1, 50), [200, 'replicas, cdn', 'wait'])
  t.match(await cdnOf(app, account, page), { state: 'purged', version: 2 })
  status = 503
  t.same(await write(2, 2), [200, 'replicas', undefined])
})

t.test('the message of a webhook leaves after the purge', async (t) => {
  const cdn = await startCdn(t, (_request, count) => ({ status: count > 1 ? 200 : 500 }))
  const { app, account } = await startApp(t, cdn, RECEIVABLE)
  let requests = 0
  const receiver = await startReceiver(t, () => {
    requests ||= cdn.requests.length
    return 204
  })
  await call(app, account, 'POST', '/webhooks', { url: receiver.url })
  await createPage(app, account)
  await receiver.message(1)
  t.ok(requests > 1, `the CDN had got ${requests} requests`)
})

t.test('responses that caches keep carry the tag, others do not', async (t) => {
  const cdn = await startCdn(t)
  const { app, account } = await startApp(t, cdn, { RATE_LIMIT_PUBLIC: '6', IMAGE_WIDTHS: '16' })
  const page = await createPage(app, account, JSON.stringify({ text: 'x'.repeat(5000) }))
  const url = `/landing_pages/${page.public_id}`
  const read = async (headers: Record<string, string> = {}, path = url) => {
    const response = await app.inject({ url: path, headers })
    return [response.statusCode, response.headers['cache-tag']]
  }
  const tag = `lf-${page.public_id}`
  for (const encoding of ['identity', 'gzip', 'br']) {
    t.same(await read({ 'accept-encoding': encoding }), [200, tag], encoding)
  }
  t.same(await read({ 'if-none-match': page.etag }), [304, tag])
  t.same(await read({}, `/landing_pages/${'A'.repeat(22)}`), [404, undefined])
  await read()
  t.same(await read(), [429, undefined])

  const { url: file } = (await upload(app, account, PNG)).json()
  const path = new URL(file).pathname
  const key = path.split('/').pop()
  t.same(await read({}, path), [200, `lf-${key}`])
  t.same(await read({ range: 'bytes=0-9' }, path), [206, `lf-${key}`])
  t.same(await read({}, '/uploads/none'), [404, undefined])
})

t.test('without CDN_PURGE there are no tags and no purges', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const page = await createPage(app, account)
  const { headers } = await app.inject({ url: `/landing_pages/${page.public_id}` })
  for (const name of ['cache-tag', 'surrogate-key', 'xkey']) t.equal(headers[name], undefined)
  t.equal(await cdnOf(app, account, page), null)
  t.equal(await app.database.outboxMessage.count(), 0)
})

t.test('everything that readers no longer get is purged', async (t) => {
  const cdn = await startCdn(t)
  const { app, account } = await startApp(t, cdn)
  const [unpublished, deleted, kept] = await Promise
    .all([1, 2, 3].map(async () => await createPage(app, account)))
  const asset = (await upload(app, account, PNG)).json()
  const lost = (await upload(app, account, PNG)).json()
  const keyOf = ({ url }: { url: string }) => url.split('/').pop() as string
  for (const page of [unpublished, deleted, kept]) await cdn.purge(page!.public_id)

  await call(app, account, 'POST', `/manage/landing_pages/${unpublished!.id}/unpublish`)
  await call(app, account, 'DELETE', `/manage/landing_pages/${deleted!.id}`)
  await call(app, account, 'DELETE', `/assets/${asset.id}`)
  await until(
    () => cdn.requests.filter(({ tags }) => tags.includes(`lf-${unpublished!.public_id}`)).length >= 2,
    'the unpublished page'
  )
  await cdn.purge(deleted!.public_id, 2)
  const { body } = await cdn.purge(keyOf(asset))
  t.match(JSON.parse(body).urls, [asset.url])
  await cdn.purge(keyOf(asset).slice(0, 22)) // its variants
  t.match(await cdnIn(app, account, unpublished!, 'purged'), { version: 2 })

  await call(app, account, 'DELETE', '/auth/me', { password: 'correct horse battery' })
  await cdn.purge(keyOf(lost))
  // Nobody has told when all replicas had heard of it, so it would take a minute.
  const due = await app.database.outboxMessage.updateMany({
    where: { publicId: kept!.public_id, type: 'page.deleted' },
    data: { dueAt: new Date(), settledAt: new Date() }
  })
  t.equal(due.count, 1)
  const count = cdn.requests.filter(({ tags }) => tags.includes(`lf-${kept!.public_id}`)).length
  await cdn.purge(kept!.public_id, count + 1)
})

t.test('after a 429, purges collect until Retry-After and go in batches', async (t) => {
  const PAGES = 120
  const cdn = await startCdn(
    t,
    (_request, count) => count === 1 ? { status: 429, headers: { 'retry-after': '8' } } : { status: 200 }
  )
  const { app, account, url } = await startApp(t, cdn)
  const first = await createPage(app, account)
  await until(() => cdn.requests.length === 1, 'a refused purge')
  const pages = await Promise.all(Array.from({ length: PAGES }, async () => await createPage(app, account)))
  t.match(await cdnOf(app, account, first), { state: 'waiting', version: 1, at: null })
  for (const a of [2, 3]) {
    await call(app, account, 'PATCH', `/manage/landing_pages/${first.id}`, { current_data: { a } })
  }
  t.equal((await query(url, `SELECT FROM outbox WHERE page_id = '${first.id}'`)).length, 2, 'one waits')

  for (const page of pages) await cdn.purge(page.public_id)
  t.match(await cdnIn(app, account, first, 'purged'), { version: 3 })
  const [refused, next] = cdn.requests
  t.ok(next!.at - refused!.at >= 7_900, `${next!.at - refused!.at} ms later`)
  t.equal(next!.tags.length, 100)
  t.ok(cdn.requests.every(({ tags }) => tags.length <= 100))
  const metrics = await app.metrics.metrics()
  t.match(metrics, /landfall_cdn_purge_requests_total\{result="failed"\} 1\n/)
})

t.test('a purge waits for every address, for three days at most', async (t) => {
  const [good, bad] = [await startCdn(t), await startCdn(t, () => ({ status: 503 }))]
  const { app, account, url } = await startApp(t, good, {
    CDN_PURGE: 'varnish',
    CDN_PURGE_URL: `${good.url},${bad.url}`
  })
  const page = await createPage(app, account)
  await until(() => bad.requests.length === 1, 'an attempt')
  t.match(await cdnOf(app, account, page), { state: 'waiting', version: 1 })
  const isPostponed = "state = 'sending' AND due_at < now() + interval '10 s'" // not claimed for 30 s
  await until(async () => (await query(url, `SELECT FROM outbox WHERE ${isPostponed}`)).length === 1)
  await query(url, "UPDATE outbox SET changed_at = now() - interval '73 hours'")
  t.match(await cdnIn(app, account, page, 'failed'), { version: 1, at: /Z$/ })
  t.same([good.requests.length, bad.requests.length], [2, 2], 'every address was tried again')
  t.match(await app.metrics.metrics(), /landfall_cdn_purges_given_up_total 1\n/)
})

t.test('a purge that is tried again at the end of its claim is not given up', async (t) => {
  const { database } = await buildTestApp(t)
  const [id, past] = ['019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57', new Date(0)]
  const times = { dueAt: past, settledAt: past }
  const data = { id, pageId: id, target: CDN_TARGET, userId: 0, publicId: 'a.png', type: 'file', ...times }
  await database.outboxMessage.create({ data })
  const claim = await claimPurges(database, 1)
  if (claim === undefined) throw new Error('no purge')
  const now = () => claim.dueAt.getTime() - 5000
  t.equal(await endClaim(database, { ...claim, now }, 5), 0)
  t.equal(await database.outboxMessage.count(), 1)
})

t.test('purges wait while CDN_PURGE is off, and a dead process loses none', async (t) => {
  const away = await startCdn(t, () => ({ status: 503 }))
  const { app, account, settings, url } = await startApp(t, away)
  const page = await createPage(app, account)
  await until(() => away.requests.length > 0, 'an attempt')
  await app.close()
  await query(url, "UPDATE outbox SET due_at = now() - interval '1 s'")

  const cdn = await startCdn(t)
  const without = await buildTestApp(t, { ...settings, CDN_PURGE: undefined, OPS_PORT: '0' })
  await call(without, account, 'PATCH', `/manage/landing_pages/${page.id}`, { current_data: { a: 2 } })
  without.wakeMessageSender()
  await deleteOldPurges(without.database)
  t.match(await query(url, 'SELECT state FROM outbox'), [{ state: 'sending' }])
  await without.close()

  const again = await buildTestApp(t, { ...settings, CDN_PURGE_URL: cdn.url })
  await cdn.purge(page.public_id)
  t.match(await cdnIn(again, account, page, 'purged'), { version: 1 })
  const monthAgo = (Date.now() - 31 * 24 * 60 * 60 * 1000).toString(16).padStart(12, '0')
  const old = `${monthAgo.slice(0, 8)}-${monthAgo.slice(8)}-7000-8000-000000000000`
  await query(url, `UPDATE outbox SET id = '${old}' WHERE state = 'delivered'`)
  await deleteOldPurges(again.database)
  t.equal(await cdnOf(again, account, page), null)
})
