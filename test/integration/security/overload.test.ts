import t from 'tap'
import { buildTestApp, createPage, NOBODY, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { until } from '../../helpers/until.ts'

// An overloaded process refuses management requests, so that public reads go on.

t.test('over a memory limit, management gets 503 and reads go on', async (t) => {
  const origin = 'https://app.example.com'
  const settings = { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000', CORS_ORIGINS: origin }
  const before = await buildTestApp(t, settings)
  const owner = await signUp(before)
  const page = await createPage(before, owner)
  const routes = [
    ['POST', '/auth/sign_up', {}],
    ['POST', '/auth/sign_in', {}],
    ['POST', '/auth/refresh', {}],
    ['GET', '/auth/me'],
    ['DELETE', '/auth/sign_out', {}],
    ['POST', '/landing_pages', {}],
    ['GET', '/manage/landing_pages'],
    ['PATCH', `/manage/landing_pages/${page.id}`, {}],
    ['DELETE', `/manage/landing_pages/${page.id}`],
    ['POST', '/assets', {}],
    ['GET', '/assets']
  ] as const
  const served = [
    [`/landing_pages/${page.public_id}`, 200],
    ['/landing_pages/unknown', 404],
    ['/uploads/unknown', 404],
    ['/health/live', 200],
    ['/health/ready', 200],
    ['/nothing', 404]
  ] as const
  for (const limit of ['MAX_RSS_BYTES', 'MAX_HEAP_BYTES']) {
    const app = await buildTestApp(t, { ...settings, [limit]: '1' })
    await until(async () => (await sendAs(app, owner, 'GET', '/auth/me')).statusCode === 503)
    for (const [method, url, payload] of routes) {
      const response = await sendAs(app, owner, method, url, payload, { origin })
      t.equal(response.statusCode, 503, `${method} ${url}`)
      t.equal(response.body, '{"errors":["The service is overloaded, try again shortly"]}')
      t.ok(response.headers['x-request-id'])
      t.equal(response.headers['access-control-allow-origin'], origin, 'the origin may read the response')
    }
    const headers = { origin, 'access-control-request-method': 'GET' }
    const preflight = await app.inject({ method: 'OPTIONS', url: '/assets', headers })
    t.equal(preflight.statusCode, 204, 'a preflight succeeds')
    for (const [url, status] of served) {
      t.equal((await sendAs(app, NOBODY, 'GET', url)).statusCode, status, url)
    }
  }
  const kept = await sendAs(before, owner, 'GET', `/manage/landing_pages/${page.id}`)
  t.equal(kept.statusCode, 200, 'nothing was deleted')
})

t.test('delays of the event loop count from two seconds after the start', async (t) => {
  let now = 0
  replaceClock(t, () => now)
  const app = await buildTestApp(t, { MAX_EVENT_LOOP_DELAY_MS: '50' })
  const statusAfterDelay = async () => {
    const from = performance.now()
    while (performance.now() - from < 1500);
    await new Promise((resolve) => setImmediate(resolve))
    return (await sendAs(app, NOBODY, 'GET', '/auth/me')).statusCode
  }
  t.equal(await statusAfterDelay(), 401)
  now = 2001
  t.equal(await statusAfterDelay(), 503)
})

t.test('while the event loop is delayed, management gets 503 and public reads are served', async (t) => {
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000', MAX_EVENT_LOOP_DELAY_MS: '50' })
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const manage = async () => (await sendAs(app, owner, 'GET', '/auth/me')).statusCode
  const read = async () => (await app.inject({ url: `/landing_pages/${page.public_id}` })).statusCode
  await until(async () => await manage() === 200)

  const reads: number[] = []
  const late = new AbortController()
  const work = (async () => {
    while (!late.signal.aborted) {
      const from = performance.now()
      while (performance.now() - from < 200);
      reads.push(await read())
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  await until(async () => await manage() === 503)
  t.equal((await app.inject({ url: '/health/live' })).statusCode, 200)
  late.abort()
  await work
  t.ok(reads.length > 0 && reads.every((status) => status === 200), `${reads.length} reads during the delay`)
  await until(async () => await manage() === 200)
  t.pass('management is served again')
})
