import t from 'tap'
import { buildTestApp, createPage, signUp, testSettings } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'

// An overloaded process refuses management requests, so that public reads go on.

t.test('over a memory limit, management gets 503, while public reads, files and health go on', async (t) => {
  const settings = {
    ...await testSettings(t),
    RATE_LIMIT_PUBLIC: '1000',
    CORS_ORIGINS: 'https://app.example.com'
  }
  const before = await buildTestApp(t, { settings })
  const owner = await signUp(before)
  const page = await createPage(before, owner)

  for (const limit of ['MAX_RSS_BYTES', 'MAX_HEAP_BYTES']) {
    const app = await buildTestApp(t, { settings: { ...settings, [limit]: '1' } })
    while ((await app.inject({ url: '/auth/me', headers: owner.headers })).statusCode !== 503) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    for (
      const [method, url, payload] of [
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
    ) {
      const response = await app.inject({
        method,
        url,
        headers: { ...owner.headers, origin: 'https://app.example.com' },
        ...(payload !== undefined && { payload })
      })
      t.equal(response.statusCode, 503, `${method} ${url}`)
      t.equal(response.body, '{"errors":["The service is overloaded, try again shortly"]}')
      t.match(response.headers['retry-after'], /^[1-9]\d*$/)
      t.ok(response.headers['x-request-id'])
      t.equal(
        response.headers['access-control-allow-origin'],
        'https://app.example.com',
        'the origin may read the response'
      )
    }
    t.equal(
      (await app.inject({
        method: 'OPTIONS',
        url: '/assets',
        headers: { origin: 'https://app.example.com', 'access-control-request-method': 'GET' }
      })).statusCode,
      204,
      'a preflight succeeds'
    )
    for (
      const [url, status] of [
        [`/landing_pages/${page.public_id}`, 200],
        ['/landing_pages/unknown', 404],
        [
          '/uploads/unknown',
          404
        ],
        ['/health/live', 200],
        ['/health/ready', 200],
        ['/nothing', 404]
      ] as const
    ) {
      t.equal((await app.inject({ url })).statusCode, status, url)
    }
  }
  t.equal(
    (await before.inject({ url: `/manage/landing_pages/${page.id}`, headers: owner.headers })).statusCode,
    200,
    'nothing was deleted'
  )
})

t.test('while the event loop is delayed, management gets 503 and public reads are served', async (t) => {
  const app = await buildTestApp(t, {
    settings: { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000000', MAX_EVENT_LOOP_DELAY_MS: '50' }
  })
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const manage = async () => (await app.inject({ url: '/auth/me', headers: owner.headers })).statusCode
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
