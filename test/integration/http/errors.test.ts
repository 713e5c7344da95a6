import t from 'tap'
import { buildTestApp, listen, signUp } from '../../helpers/app.ts'
import { connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

const app = await buildTestApp(t)
const url = await listen(app)

t.test('a client that resets its connection does not stop the service', async (t) => {
  const requests = [
    'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
    'garbage\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n',
    'GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'
  ]
  for (const bytes of [...requests, ...requests, ...requests, ...requests, ...requests]) {
    const one = connection(t, url)
    one.socket.write(bytes, () => one.socket.resetAndDestroy())
    await until(() => one.closed)
  }
  t.equal((await fetch(`${url}/health/live`)).status, 200)
})

t.test('every response has X-Request-Id and repeats a valid one of the client', async (t) => {
  const idFor = async (given: string | undefined, path = '/health/live') =>
    (await app.inject({ url: path, headers: given === undefined ? {} : { 'x-request-id': given } }))
      .headers['x-request-id']
  t.equal(await idFor('abc-123'), 'abc-123')
  t.equal(await idFor('trace:4711/a.b_c=@+', '/nothing'), 'trace:4711/a.b_c=@+')
  for (const given of [undefined, '', 'x'.repeat(129), 'two words', 'a\u00e9', '<script>', 'a,b', 'a"b']) {
    t.match(await idFor(given), /^[\w-]{12}-[0-9a-z]+$/, String(given))
  }
  t.not(await idFor(undefined), await idFor(undefined))
  for (const path of ['/nothing', '/landing_pages/x', '/landing_pages/%zz', '/auth/me', '/uploads/x']) {
    t.equal(await idFor('kept', path), 'kept', path)
  }
})

t.test('a 500 reveals nothing but the request id', async (t) => {
  const broken = await buildTestApp(t)
  const account = await signUp(broken)
  await broken.database.$executeRaw`ALTER TABLE landing_pages RENAME COLUMN content_hash TO something_else`
  const response = await broken.inject({
    url: `/manage/landing_pages/${'0'.repeat(8)}-0000-0000-0000-000000000000`,
    headers: { ...account.headers, 'x-request-id': 'the-request' }
  })
  t.equal(response.statusCode, 500)
  t.equal(response.body, '{"errors":["Something went wrong (request the-request)"]}')
})
