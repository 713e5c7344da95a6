import { once } from 'node:events'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { createPage, listen, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'
import { connection } from '../../helpers/raw.ts'
import { createProxy } from '../../helpers/servers.ts'
import { openTransaction } from '../../helpers/transaction.ts'
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
  /** Sends a request, and returns the response with all lines of its id. */
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(url + path, init)
    await response.arrayBuffer()
    return { response, lines: await linesOf(response.headers.get('x-request-id')) }
  }
  /** Sends what no HTTP client sends. */
  const raw = async (bytes: string): Promise<string> => {
    const one = connection(t, url)
    one.send(bytes)
    return await one.rest()
  }
  return { app, url, lines, linesOf, ask, raw }
}

const postJson = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body)
})
const idIn = (response: string): string => /x-request-id: (\S+)/i.exec(response)?.[1] ?? 'none'

t.test('the access log line has the method, route, status, duration, address and user', async (t) => {
  const { app, ask } = await logged(t)
  const account = await signUp(app)
  const { lines: [line, ...others] } = await ask('/manage/landing_pages?limit=3&token=secret-in-the-query', {
    headers: account.headers
  })
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

  const signedIn = await ask(
    '/auth/sign_in',
    postJson({ user: { email: account.user.email, password: PASSWORD } })
  )
  t.match(signedIn.lines, [{ route: '/auth/sign_in', status: 200, user: account.user.id }])
  const chosen = await ask('/auth/me', { headers: { 'x-request-id': 'from-the-client' } })
  t.match(chosen.lines, [{ reqId: 'from-the-client', route: '/auth/me', status: 401, level: 30 }])
})

t.test('a request that the HTTP parser refuses is logged, also when its body is malformed', async (t) => {
  const { linesOf, raw } = await logged(t, { HEADERS_TIMEOUT_MS: '300' })
  const chunked = 'Content-Type: application/json\r\nTransfer-Encoding: chunked'
  const cases = [
    ['GARBAGE\r\n\r\n', 400],
    [`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ['GET / HTTP/1.1\r\nHost:', 408],
    ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
    ['GET /auth/me HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n\r\n', 417],
    [`POST /auth/sign_in HTTP/1.1\r\nHost: x\r\n${chunked}\r\n\r\nnot hex\r\n`, 400]
  ] as const
  for (const [bytes, status] of cases) {
    const response = await raw(bytes)
    t.match(response, new RegExp(`^HTTP/1.1 ${status} `))
    const line = { msg: 'answered', status, address: '127.0.0.1' }
    t.match(await linesOf(idIn(response)), [line], bytes.slice(0, 30))
  }
})

t.test('a request whose client hangs up is logged', async (t) => {
  const { app, url, lines } = await logged(t)
  const type = 'Content-Type: application/json\r\nContent-Length: 100'
  const { socket } = connection(t, url)
  const arrived = once(app.server, 'request')
  socket.write(`POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\n${type}\r\n\r\n{`)
  await arrived
  socket.resetAndDestroy()
  await until(() => lines.some(({ reqId }) => reqId === 'gone'))
  const line = { msg: 'client disconnected', route: '/auth/sign_in', address: '127.0.0.1' }
  t.match(lines.filter(({ reqId }) => reqId === 'gone'), [line])
})

t.test('LOG_PUBLIC_READS_SAMPLE is the share of public reads logged; probes are logged at debug', async (t) => {
  for (const [share, expected] of [['0', 0], ['0.25', 3], ['1', 12]] as const) {
    const { app, url, lines, ask } = await logged(t, { LOG_PUBLIC_READS_SAMPLE: share })
    const account = await signUp(app)
    const path = `/landing_pages/${(await createPage(app, account)).public_id}`
    await ask('/auth/me')
    lines.length = 0
    const unlogged = async (path: string) => await (await fetch(url + path)).arrayBuffer()
    for (let n = 0; n < 10; n++) await unlogged(path)
    for (const other of ['/uploads/nothing', '/uploads/nothing', '/health/live']) await unlogged(other)
    await ask('/auth/me')
    const reads = lines.filter(({ route }) => route !== '/auth/me')
    t.equal(reads.length, expected, `${share}: the sample is deterministic`)
    if (expected > 0) {
      t.match(reads[0], { method: 'GET', route: '/landing_pages/:public_id', path, status: 200 })
    }
  }
  const { ask } = await logged(t, {}, 'debug')
  t.match((await ask('/health/live')).lines, [{ route: '/health/live', status: 200, level: 20 }])
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
  const { client: blocker } = await openTransaction(t, settings.DATABASE_URL as string)
  await blocker.query('LOCK TABLE landing_pages')
  const response = await fetch(`${url}/landing_pages/${'a'.repeat(22)}`)
  t.equal(response.status, 503)
  const id = response.headers.get('x-request-id')
  await until(() => lines.some(({ reqId }) => reqId === id))
  const line = { msg: 'request could not be served', level: 40, reason: String, code: '57014' }
  t.match(lines.filter(({ reqId }) => reqId === id), [line])
})
