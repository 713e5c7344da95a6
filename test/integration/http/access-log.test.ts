import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { createPage, listen, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'
import { createProxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// The access log has one line per request, with the request id of the response.

interface Line extends Record<string, unknown> {
  readonly msg: string
  readonly reqId?: string
  readonly level: number
}

/** Starts the service and collects the lines that it logs at `level` or above. */
async function logged (t: Test, settings: Record<string, string> = {}, level = 'info') {
  const lines: Line[] = []
  const app = await buildApp(
    loadConfig({ ...await testSettings(t), ...settings }),
    pino({ level }, { write: (line: string) => lines.push(JSON.parse(line)) })
  )
  t.teardown(async () => await app.close())
  const url = await listen(app)
  lines.length = 0
  /** Waits until a request has been logged and returns all lines with its id. */
  const linesOf = async (requestId: string | null): Promise<Line[]> => {
    const own = () => lines.filter(({ reqId, audit }) => reqId === requestId && audit === undefined)
    await until(() => own().some(({ msg }) => msg === 'answered' || msg === 'client disconnected'))
    return own()
  }
  return { app, url, lines, linesOf }
}

async function raw (url: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
  let received = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text
  }).on('error', () => {})
  await once(socket, 'close')
  return received
}
const idIn = (response: string): string => /x-request-id: (\S+)/i.exec(response)?.[1] ?? 'none'

t.test('the access log line has the method, route, status, duration, address and user', async (t) => {
  const { app, url, linesOf } = await logged(t)
  const account = await signUp(app)
  const response = await fetch(`${url}/manage/landing_pages?limit=3&token=secret-in-the-query`, {
    headers: account.headers
  })
  const [line, ...others] = await linesOf(response.headers.get('x-request-id'))
  t.same(others, [])
  t.match(line, {
    msg: 'answered',
    method: 'GET',
    route: '/manage/landing_pages',
    path: '/manage/landing_pages',
    status: 422,
    ms: Number,
    address: '127.0.0.1',
    user: account.user.id
  })
  t.ok(Number(line?.bytes) > 100, `${line?.bytes} bytes, including the headers`)

  const signedIn = await fetch(`${url}/auth/sign_in`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ user: { email: account.user.email, password: PASSWORD } })
  })
  t.match(await linesOf(signedIn.headers.get('x-request-id')), [{
    route: '/auth/sign_in',
    status: 200,
    user: account.user.id
  }])
  const chosen = await fetch(`${url}/auth/me`, { headers: { 'x-request-id': 'from-the-client' } })
  t.equal(chosen.status, 401)
  t.match(await linesOf('from-the-client'), [{ route: '/auth/me', status: 401, level: 30 }])
})

t.test('a request that matches no route is logged without its query, tokens and credentials', async (t) => {
  const { url, linesOf } = await logged(t)
  const token = `eyJhbGciOiJIUzI1NiJ9.${'x'.repeat(60)}.sig`
  for (
    const [method, path, status, loggedAs] of [
      ['GET', '/nothing/here?email=a@example.com', 404, '/nothing/here'],
      ['GET', `/${token}/x`, 404, '/…/x'],
      ['GET', `/${'a/'.repeat(110)}${token}`, 404, `/${'a/'.repeat(110)}…`],
      ['DELETE', '/landing_pages', 405, '/landing_pages'],
      ['GET', `/bad%zz?${token}`, 400, '/bad%zz']
    ] as const
  ) {
    const response = await fetch(url + path, { method })
    t.equal(response.status, status)
    t.match(await linesOf(response.headers.get('x-request-id')), [{ method, path: loggedAs, status }], path)
  }
  const absolute = await raw(
    url,
    'GET http://user:pass@host/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
  )
  t.match(await linesOf(idIn(absolute)), [{ path: '/nothing' }])
})

t.test('a request that the HTTP parser refuses is logged, also when its body is malformed', async (t) => {
  const { url, linesOf } = await logged(t, { HEADERS_TIMEOUT_MS: '300' })
  for (
    const [bytes, status] of [
      ['GARBAGE\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['GET / HTTP/1.1\r\nHost:', 408],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
      ['GET /auth/me HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n', 417],
      [
        'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: ' +
        'chunked\r\n\r\nnot hex\r\n',
        400
      ]
    ] as const
  ) {
    const response = await raw(url, bytes)
    t.match(response, new RegExp(`^HTTP/1.1 ${status} `))
    t.match(
      await linesOf(idIn(response)),
      [{ msg: 'answered', status, address: '127.0.0.1' }],
      bytes.slice(0, 30)
    )
  }
})

t.test('a pipelined request that is dropped is not logged', async (t) => {
  const { url, lines, linesOf } = await logged(t)
  const body = JSON.stringify({ user: { email: 'nobody@example.com', password: 'correct horse' } })
  const responses = await raw(
    url,
    'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nX-Request-Id: first\r\nContent-Type: ' +
      `application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}` +
      'GET /auth/me HTTP/1.1\r\nHost: x\r\nX-Request-Id: second\r\nExpect: wonders\r\nConnection: ' +
      'close\r\n\r\n'
  )
  t.match(responses, /^HTTP\/1\.1 401 /)
  t.notMatch(responses, /HTTP\/1\.1 417 /)
  t.match(await linesOf('first'), [{ msg: 'answered', status: 401, route: '/auth/sign_in' }])
  t.same(lines.filter(({ reqId }) => reqId === 'second'), [])
})

t.test('a request whose client hangs up is logged', async (t) => {
  const { url, lines } = await logged(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => {
    socket
      .write('POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\nContent-Type: ' +
        'application/json\r\nContent-Length: 100\r\n\r\n{')
  })
  socket.on('error', () => {})
  await once(socket, 'connect')
  await sleep(100)
  socket.resetAndDestroy()
  await until(() => lines.some(({ reqId }) => reqId === 'gone'))
  t.match(lines.filter(({ reqId }) => reqId === 'gone'), [{
    msg: 'client disconnected',
    route: '/auth/sign_in',
    address: '127.0.0.1'
  }])
})

t.test('LOG_PUBLIC_READS_SAMPLE is the share of public reads logged; probes are logged at debug', async (t) => {
  for (const [share, expected] of [['0', 0], ['0.25', 3], ['1', 12]] as const) {
    const { app, url, lines, linesOf } = await logged(t, { LOG_PUBLIC_READS_SAMPLE: share })
    const account = await signUp(app)
    const { public_id: publicId } = await createPage(app, account)
    await linesOf(String((await app.inject({ url: '/auth/me' })).headers['x-request-id']))
    lines.length = 0
    for (let n = 0; n < 10; n++) await (await fetch(`${url}/landing_pages/${publicId}`)).arrayBuffer()
    await (await fetch(`${url}/uploads/nothing`)).arrayBuffer()
    await (await fetch(`${url}/uploads/nothing`)).arrayBuffer()
    await (await fetch(`${url}/health/live`)).arrayBuffer()
    await linesOf((await fetch(`${url}/auth/me`)).headers.get('x-request-id'))
    const reads = lines.filter(({ route }) => route !== '/auth/me')
    t.equal(reads.length, expected, `${share}: the sample is deterministic`)
    if (expected > 0) {
      t.match(reads[0], {
        msg: 'answered',
        method: 'GET',
        route: '/landing_pages/:public_id',
        path: `/landing_pages/${publicId}`,
        status: 200,
        bytes: Number,
        address: '127.0.0.1',
        reqId: String
      })
    }
  }
  const { url, linesOf } = await logged(t, {}, 'debug')
  t.match(await linesOf((await fetch(`${url}/health/live`)).headers.get('x-request-id')), [{
    route: '/health/live',
    status: 200,
    level: 20
  }])
})

t.test('an outage of PostgreSQL is logged once and not for each request', async (t) => {
  const settings = await testSettings(t)
  const proxy = await createProxy(t, settings.DATABASE_URL as string)
  const { app, url, lines } = await logged(t, { ...settings, DATABASE_URL: proxy.url })
  const account = await signUp(app)
  await proxy.refuse()
  for (let n = 0; n < 20; n++) {
    t.equal((await fetch(`${url}/auth/me`, { headers: account.headers })).status, 503)
    t.equal((await fetch(`${url}/landing_pages/${'a'.repeat(22)}`)).status, 503)
  }
  await proxy.restore()
  await until(() => lines.some(({ msg }) => msg === 'PostgreSQL is available again'))
  t.same(lines.filter(({ level }) => level > 30).map(({ msg }) => msg), ['PostgreSQL is unavailable'])
})

t.test('a 503 while PostgreSQL answers is logged with its request id and cause', async (t) => {
  const settings = await testSettings(t)
  const { url, lines } = await logged(t, { ...settings, DATABASE_TIMEOUT_MS: '1000' })
  const blocker = new pg.Client({ connectionString: settings.DATABASE_URL })
  await blocker.connect()
  t.teardown(async () => await blocker.end())
  await blocker.query('BEGIN; LOCK TABLE landing_pages')
  const response = await fetch(`${url}/landing_pages/${'a'.repeat(22)}`)
  t.equal(response.status, 503)
  const id = response.headers.get('x-request-id')
  await until(() => lines.some(({ reqId }) => reqId === id))
  t.match(lines.filter(({ reqId }) => reqId === id), [
    { msg: 'request could not be served', level: 40, reason: String, code: '57014' }
  ])
})

t.test('a 401 or 429 is not logged as a warning', async (t) => {
  const { url, lines, linesOf } = await logged(t, { SIGN_IN_FAILURES_PER_ACCOUNT: '1' })
  const signIn = async () =>
    await fetch(`${url}/auth/sign_in`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"user":{"email":"a@example.com","password":"wrong horse"}}'
    })
  t.equal((await signIn()).status, 401)
  const refused = await signIn()
  t.equal(refused.status, 429)
  t.match(await linesOf(refused.headers.get('x-request-id')), [{ status: 429 }])
  t.same(lines.filter(({ level }) => level > 30), [])
})
