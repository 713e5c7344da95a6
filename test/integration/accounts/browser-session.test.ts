import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { buildTestApp, sendAs, signIn, signUp, testSettings, type Account } from '../../helpers/app.ts'
import { createProxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// POST and DELETE /auth/browser_session: the refresh token of a browser in a cookie that scripts can't read.

const ORIGIN = 'http://landfall.test'
const NAME = 'landfall_session'
const base = await testSettings(t)
const settings = { ...base, REFRESHES_PER_ADDRESS: '10000', SIGN_UPS_PER_ADDRESS: '10000' }
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)

type Response = Awaited<ReturnType<typeof send>>
interface Options {
  readonly cookie?: string
  readonly origin?: string | undefined
  readonly headers?: Record<string, string>
  readonly payload?: string | object
  readonly on?: FastifyInstance
}

/** Sends a request to the route, from a page of the service unless the options say otherwise. */
const send = async (method: 'POST' | 'DELETE', { cookie, headers, payload, on = app, ...more }: Options) => {
  const from = 'origin' in more ? more.origin : ORIGIN
  const sent = {
    ...from !== undefined && { origin: from },
    ...cookie !== undefined && { cookie },
    ...headers
  }
  return await sendAs(on, { headers: {} }, method, '/auth/browser_session', payload, sent)
}
const renew = async (options: Options = {}) => await send('POST', options)
const end = async (options: Options = {}) => await send('DELETE', options)

/** Returns the cookie of a response as a browser sends it back. */
const cookieOf = ({ headers }: Response): string => String(headers['set-cookie']).replace(/;.*/s, '')
const isCleared = ({ headers }: Response): boolean => /=; Max-Age=0;/.test(String(headers['set-cookie']))
const lives = async (accessToken: string, on: FastifyInstance = app): Promise<boolean> =>
  (await on.inject({ url: '/auth/me', headers: { authorization: `Bearer ${accessToken}` } })).statusCode ===
    200

/** Signs up and exchanges the refresh token for a cookie. */
async function startBrowser (on: FastifyInstance = app): Promise<Account & { readonly cookie: string }> {
  const account = await signUp(on)
  const response = await renew({ payload: { refresh_token: account.refresh_token }, on })
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${response.body}`)
  return { ...account, cookie: cookieOf(response) }
}

/** Moves the use of the spent refresh tokens of a user into the past. */
const spentAgo = async ({ user }: Pick<Account, 'user'>, seconds: number) =>
  await app.database.$executeRaw`
    UPDATE refresh_tokens t SET rotated_at = rotated_at - make_interval(secs => ${seconds}::double precision)
    FROM sessions s WHERE s.id = t.session_id AND s.user_id = ${user.id} AND rotated_at IS NOT NULL`

/** @param clears whether the response deletes the cookie; `later` if the browser will get the next one */
function refused (t: Test, response: Response, clears: boolean | 'later', name: string): void {
  t.equal(response.statusCode, 401, name)
  t.same(response.json(), { errors: ['Invalid or expired refresh token'] }, name)
  t.equal(response.headers['www-authenticate'], 'Bearer', name)
  t.equal(response.headers['cache-control'], 'no-store', name)
  t.equal(response.headers['retry-after'], clears === 'later' ? '1' : undefined, name)
  if (clears === true) t.ok(isCleared(response), name)
  else t.equal(response.headers['set-cookie'], undefined, name)
}

t.test('a refresh token is exchanged for a cookie, which is renewed with each use', async (t) => {
  const account = await signUp(app)
  const first = await renew({ payload: { refresh_token: account.refresh_token } })
  t.equal(first.statusCode, 200)
  t.same(Object.keys(first.json()).sort(), ['access_token', 'user'], 'no refresh token is in the body')
  t.same(first.json().user, account.user)
  t.match(first.headers, {
    'cache-control': 'no-store',
    'access-control-allow-origin': undefined,
    'set-cookie':
      /^landfall_session=[\w-]{43}; Max-Age=2592000; Path=\/auth\/browser_session; HttpOnly; SameSite=Strict$/
  })
  t.notOk(cookieOf(first).includes(account.refresh_token), 'the token of the body is spent')
  const second = await renew({ cookie: cookieOf(first), on: replica })
  t.equal(second.statusCode, 200)
  t.same(second.json().user, account.user)
  t.not(cookieOf(second), cookieOf(first))
  t.ok(await lives(second.json().access_token))
  t.equal((await renew({ cookie: `theme=dark; ${cookieOf(second)}; other=1` })).statusCode, 200)
})

t.test('the cookie has the scheme and the path of BASE_URL', async (t) => {
  const cases = [
    ['https://landfall.test', '__Secure-landfall_session', '/auth/browser_session', '; Secure'],
    ['https://landfall.test/x/y', '__Secure-landfall_session', '/x/y/auth/browser_session', '; Secure'],
    ['http://landfall.test/x', 'landfall_session', '/x/auth/browser_session', '']
  ] as const
  for (const [BASE_URL, name, path, secure] of cases) {
    const app = await buildTestApp(t, { ...settings, BASE_URL })
    const { origin } = new URL(BASE_URL)
    const { refresh_token: token } = await signUp(app)
    const response = await renew({ payload: { refresh_token: token }, origin, on: app })
    const attributes = `Path=${path}; HttpOnly; SameSite=Strict${secure}`
    t.equal(
      response.headers['set-cookie'],
      `${name}=${cookieOf(response).split('=')[1]}; Max-Age=2592000; ${attributes}`
    )
    const ended = await end({ cookie: cookieOf(response), origin, on: app })
    t.match(ended, { statusCode: 204, headers: { 'set-cookie': `${name}=; Max-Age=0; ${attributes}` } })
    const other = name === NAME ? `__Secure-${NAME}` : NAME
    const planted = `${other}=${cookieOf(response).split('=')[1]}`
    const unused = await renew({ cookie: planted, origin, on: app })
    t.match(unused, { statusCode: 204, body: '', headers: { 'set-cookie': undefined } }, 'the other name')
  }
})

t.test('a body is optional, also one with a type', async (t) => {
  const { cookie } = await startBrowser()
  const types = ['application/json', 'text/plain;charset=UTF-8']
  const empty = types.map((type) => ({ payload: '', headers: { 'content-type': type } }))
  let next = cookie
  for (const options of [{}, { payload: {} }, ...empty, { payload: 'null' }]) {
    const response = await renew({ cookie: next, ...options })
    t.equal(response.statusCode, 200, JSON.stringify(options))
    next = cookieOf(response)
  }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  t.equal((await renew({ cookie: next, payload: 'refresh_token=x', headers: form })).statusCode, 415)
})

t.test('attack: other origins can neither renew, end nor plant a session', async (t) => {
  const victim = await startBrowser()
  const attacker = await signUp(app)
  const origins = [
    ...[undefined, 'null', '', 'https://evil.example', 'http://landfall.test:3000', 'https://landfall.test'],
    ...['http://landfall.test.evil.example', 'http://evil-landfall.test', 'http://landfall.test/'],
    ...['http://landfall.test, http://evil.example', 'http://x@landfall.test', 'http://localhost:5173'],
    ...['http://127.0.0.1', 'file://', 'HTTP://LANDFALL.TEST']
  ]
  const errors = [`Cookie sessions are accepted only from this service's own pages; open it at ${ORIGIN}`]
  for (const origin of origins) {
    const from = { origin, headers: { host: 'localhost:3000' } }
    const cases = [
      await renew({ cookie: victim.cookie, ...from }),
      await end({ cookie: victim.cookie, ...from }),
      // Login CSRF: the victim would work in the account of the attacker.
      await renew({ payload: { refresh_token: attacker.refresh_token }, ...from })
    ]
    for (const response of cases) {
      t.equal(response.statusCode, 403, String(origin))
      t.same(response.json(), { errors })
      t.match(response.headers, { 'set-cookie': undefined, 'access-control-allow-origin': undefined })
    }
  }
  t.equal((await renew({ payload: { refresh_token: attacker.refresh_token } })).statusCode, 200, 'not spent')
  t.equal((await renew({ cookie: victim.cookie })).statusCode, 200)
})

t.test('pages of the host to which a request is sent may use the session, too', async (t) => {
  const hosts = [
    ['127.0.0.1:3000', 'http://127.0.0.1:3000', 200],
    ['127.0.0.1:3000', 'http://127.0.0.1:3001', 403],
    ['localhost:3000', 'http://127.0.0.1:3000', 403],
    ['[::1]:3000', 'http://[::1]:3000', 200],
    ['Pages.example.com', 'https://pages.example.com', 200],
    ['pages.example.com:443', 'https://pages.example.com', 200],
    ['pages.example.com', 'https://pages.example.com:8443', 403]
  ] as const
  for (const [host, origin, status] of hosts) {
    const { cookie } = await startBrowser()
    t.equal((await renew({ cookie, origin, headers: { host } })).statusCode, status, `${origin} at ${host}`)
  }

  const secure = await buildTestApp(t, { ...settings, BASE_URL: 'https://landfall.test' })
  const from = async (origin: string) =>
    (await renew({ origin, headers: { host: 'other.example' }, on: secure })).statusCode
  t.equal(await from('https://other.example'), 204, 'allowed, but without a cookie')
  t.equal(await from('http://other.example'), 403, 'without TLS')
})

t.test('attack: X-Forwarded-Host makes no foreign page one of the service', async (t) => {
  const behind = await buildTestApp(t, { ...settings, TRUST_PROXY: '127.0.0.1' })
  for (const on of [app, behind]) {
    const { cookie } = await startBrowser(on)
    for (const name of ['x-forwarded-host', 'x-forwarded-server', 'x-original-host', 'forwarded']) {
      const headers = { [name]: name === 'forwarded' ? 'host=evil.example' : 'evil.example' }
      t.equal((await renew({ cookie, origin: 'http://evil.example', headers, on })).statusCode, 403, name)
      t.equal((await end({ cookie, origin: 'http://evil.example', headers, on })).statusCode, 403, name)
    }
    const headers = { host: 'pages.example.com', 'x-forwarded-host': 'evil.example' }
    t.equal((await renew({ cookie, origin: 'http://pages.example.com', headers, on })).statusCode, 200)
  }
})

t.test('CORS_ORIGINS does not open the session to other pages', async (t) => {
  const origin = 'https://app.example.com'
  for (const CORS_ORIGINS of [origin, '*']) {
    const app = await buildTestApp(t, { ...settings, CORS_ORIGINS })
    const { cookie } = await startBrowser(app)
    t.equal((await renew({ cookie, origin, on: app })).statusCode, 403)
    const response = await renew({ cookie, on: app })
    t.match(response, { statusCode: 200, headers: { 'access-control-allow-origin': undefined } })
  }
})

t.test('without a cookie the response is 204; one without a usable token is refused and cleared', async (t) => {
  const { refresh_token: token } = await signUp(app)
  const cases = [
    ['no cookie', undefined, false],
    ['other cookies', `x=${token}; y${NAME}=${token}; ${NAME}x=${token}`, false],
    ['an empty one', `${NAME}=`, true],
    ['a malformed one', `${NAME}=${token}x`, true],
    ['quotes', `${NAME}="${token}"`, true],
    ['an unknown one', `${NAME}=${'A'.repeat(43)}`, true],
    ['an oversized one', `${NAME}=${'A'.repeat(12_000)}`, true],
    ['an oversized header', `${';'.repeat(6000)}${NAME}${'='.repeat(6000)}`, true],
    ['no pairs', ';;; = ;=;,', false],
    ['the name alone', NAME, false]
  ] as const
  for (const [what, cookie, clears] of cases) {
    const options = cookie === undefined ? {} : { cookie }
    if (clears) refused(t, await renew(options), clears, what)
    else {
      t.match(await renew(options), { statusCode: 204, body: '', headers: { 'set-cookie': undefined } }, what)
    }
    refused(t, await end(options), clears, what)
  }
  for (const given of [null, 1, [], {}, '', 'x', 'A'.repeat(43)]) {
    const { cookie } = await startBrowser()
    const response = await renew({ cookie, payload: { refresh_token: given } })
    refused(t, response, false, `${JSON.stringify(given)} in the body says nothing about the cookie`)
    t.equal((await renew({ cookie })).statusCode, 200, 'nor is the cookie used')
  }
  for (const payload of ['[]', '"x"', '7']) refused(t, await renew({ payload }), false, payload)
})

t.test('attack: a second cookie of the name plants no session', async (t) => {
  const victim = await startBrowser()
  const attacker = await startBrowser()
  for (const cookie of [`${attacker.cookie}; ${victim.cookie}`, `${victim.cookie}; ${attacker.cookie}`]) {
    refused(t, await renew({ cookie }), false, 'nobody can tell which one is planted')
    refused(t, await end({ cookie }), false, 'nobody can tell which one is planted')
  }
  t.equal((await renew({ cookie: victim.cookie })).statusCode, 200)
})

t.test('of two tabs that renew at once one succeeds, and the other does not clear the new cookie', async (t) => {
  for (let round = 0; round < 5; round++) {
    const { cookie } = await startBrowser()
    const responses = await Promise.all([app, replica].map(async (on) => await renew({ cookie, on })))
    const [won, lost] = responses.sort((a, b) => a.statusCode - b.statusCode)
    t.equal(won?.statusCode, 200)
    refused(t, lost!, 'later', 'the other tab')
    t.equal((await renew({ cookie: cookieOf(won!) })).statusCode, 200)
  }
})

t.test('attack: a stolen cookie that is replayed after 10 s ends the session', async (t) => {
  const owner = await startBrowser()
  const next = await renew({ cookie: owner.cookie })
  await spentAgo(owner, 8)
  refused(t, await renew({ cookie: owner.cookie }), 'later', 'within the tolerance')
  t.ok(await lives(next.json().access_token))
  await spentAgo(owner, 3)
  refused(t, await renew({ cookie: owner.cookie }), true, 'a replay')
  t.notOk(await lives(next.json().access_token, replica))
  refused(t, await renew({ cookie: cookieOf(next) }), true, 'the newest cookie of the session')
})

t.test('DELETE ends the session and clears the cookie', async (t) => {
  const owner = await startBrowser()
  const other = await signIn(app, owner)
  const renewed = await renew({ cookie: owner.cookie })
  refused(t, await end({ cookie: owner.cookie }), 'later', 'a spent cookie ends nothing')
  t.ok(await lives(owner.access_token))
  const response = await end({ cookie: cookieOf(renewed) })
  t.match(response, { statusCode: 204, headers: { 'cache-control': 'no-store' } })
  t.ok(isCleared(response))
  t.notOk(await lives(owner.access_token))
  t.notOk(await lives(renewed.json().access_token, replica))
  t.ok(await lives(other.access_token), 'another session of the account lives on')
  refused(t, await renew({ cookie: cookieOf(renewed) }), true, 'the cookie afterwards')
  refused(t, await end({ cookie: cookieOf(renewed) }), true, 'the cookie afterwards')
})

t.test('while the database is away, a cookie is not spent', async (t) => {
  const database = await createProxy(t, base.DATABASE_URL ?? '')
  const app = await buildTestApp(t, { ...settings, DATABASE_URL: database.url, DATABASE_TIMEOUT_MS: '300' })
  const { cookie } = await startBrowser()
  database.blackhole()
  const response = await renew({ cookie, on: app })
  t.match(response, { statusCode: 503, headers: { 'set-cookie': undefined } })
  await database.restore() // what was sent meanwhile arrives now
  await until(async () => (await app.inject('/health/ready')).statusCode === 200)
  t.equal((await renew({ cookie, on: app })).statusCode, 200)
})

t.test('requests share the limit of refreshes, and a 429 leaves the cookie', async (t) => {
  const app = await buildTestApp(t, { ...settings, REFRESHES_PER_ADDRESS: '3' })
  const { cookie } = await startBrowser(app)
  const next = await renew({ cookie, on: app })
  t.equal((await app.inject({ method: 'POST', url: '/auth/refresh', payload: {} })).statusCode, 401)
  for (const response of [await renew({ cookie: cookieOf(next), on: app }), await end({ on: app })]) {
    t.match(response, { statusCode: 429, headers: { 'retry-after': /^[1-9]/, 'set-cookie': undefined } })
  }
})
