import t, { type Test } from 'tap'
import { buildTestApp, createPage, listen, signUp, testSettings } from '../../helpers/app.ts'
import { pathOf, upload } from '../../helpers/assets.ts'
import { connection } from '../../helpers/raw.ts'

// The security headers of each kind of response. `undefined` means that a header must be absent.

type Expected = Readonly<Record<string, string | RegExp | undefined>>

const DATA: Expected = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer'
}
/** Headers that reveal the software or come from plugins are absent. */
const ANONYMOUS: Expected = {
  server: undefined,
  'x-powered-by': undefined,
  'set-cookie': undefined,
  'x-ratelimit-limit': undefined
}
const OWN: Expected = {
  ...ANONYMOUS,
  ...DATA,
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': /(^|[ ,])no-store/,
  'access-control-allow-origin': undefined
}
const READ: Expected = { ...OWN, 'cache-control': 'private, no-cache' }
const ERROR: Expected = { ...ANONYMOUS, ...DATA, 'cache-control': 'no-store' }
const SHARED: Expected = {
  ...ANONYMOUS,
  'x-content-type-options': 'nosniff',
  'access-control-allow-origin': '*'
}
const PUBLIC: Expected = { ...SHARED, 'cross-origin-resource-policy': 'cross-origin' }
const PUBLIC_REFUSAL: Expected = { ...SHARED, 'cache-control': 'no-store' }
const UPLOAD: Expected = {
  ...PUBLIC,
  'content-security-policy': /default-src 'none'.*; sandbox$/,
  'referrer-policy': 'no-referrer'
}

type Response = readonly [
  what: string,
  status: number,
  expected: Expected,
  headers: Readonly<Record<string, unknown>>
]

/** Starts an app with these settings and returns one response of each kind. */
async function responses (t: Test, settings: Record<string, string>): Promise<Response[]> {
  const base = await testSettings(t)
  const app = await buildTestApp(t, { ...base, RATE_LIMIT_PUBLIC: '4', ...settings })
  const url = await listen(app)
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const file = pathOf((await upload(app, owner, '<script>alert(1)</script>', 'page.html')).json())

  const bearer = { headers: owner.headers }
  const post = (body: unknown) => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body)
  })
  const signIn = { user: { email: owner.user.email, password: 'wrong' } }
  const notModified = { headers: { 'if-none-match': page.etag } }
  const download = { ...UPLOAD, 'content-disposition': /^attachment; filename=/ }
  const requests: [what: string, path: string, status: number, expected: Expected, init?: RequestInit][] = [
    ['sign-up', '/auth/sign_up', 422, OWN, post({})],
    ['tokens', '/auth/refresh', 200, OWN, post({ refresh_token: owner.refresh_token })],
    ['a wrong password', '/auth/sign_in', 401, OWN, post(signIn)],
    ['malformed JSON', '/auth/sign_in', 400, OWN, { ...post({}), body: '{' }],
    ['a record', `/manage/landing_pages/${page.id}`, 200, READ, bearer],
    ['a list', '/manage/landing_pages', 200, READ, bearer],
    ['an unknown record', '/assets/unknown', 404, OWN, bearer],
    ['no token', '/assets', 401, OWN],
    ['OPTIONS of a management route', '/assets', 405, ERROR, { method: 'OPTIONS' }],
    ['health', '/health/live', 200, OWN],
    ['readiness', '/health/ready', 200, OWN],
    ['an unknown path', '/.env', 404, ERROR],
    ['a bad escape', '/manage/landing_pages/%zz', 400, ERROR],
    ['a document', `/landing_pages/${page.public_id}`, 200, PUBLIC],
    ['a document that is not modified', `/landing_pages/${page.public_id}`, 304, PUBLIC, notModified],
    ['a malformed id', '/landing_pages/unknown', 404, PUBLIC_REFUSAL],
    ['an unknown document', `/landing_pages/${'A'.repeat(22)}`, 404, PUBLIC_REFUSAL],
    ['a read over the limit', `/landing_pages/${page.public_id}`, 429, PUBLIC_REFUSAL],
    ['an uploaded file', file, 200, download],
    ['an unknown file', '/uploads/unknown', 404, { ...UPLOAD, 'cache-control': 'no-store' }]
  ]
  const seen: Response[] = []
  for (const [what, path, status, expected, init] of requests) {
    const response = await fetch(url + path, init)
    await response.arrayBuffer()
    t.equal(response.status, status, what)
    seen.push([what, status, expected, Object.fromEntries(response.headers)])
  }
  const malformed = [
    ['invalid HTTP', 400, 'garbage\r\n\r\n'],
    ['headers that are too large', 431, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`],
    ['an expectation', 417, 'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n'],
    ['CONNECT', 405, 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n'],
    ['TRACE', 405, 'TRACE /auth/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n']
  ] as const
  for (const [what, status, bytes] of malformed) {
    const one = connection(t, url)
    one.send(bytes)
    const response = await one.response()
    t.equal(response.status, status, what)
    const headers = [...response.head.matchAll(/^(\S+): (.*)\r$/gm)]
    const byName = Object.fromEntries(headers.map(([, name = '', value]) => [name.toLowerCase(), value]))
    seen.push([what, status, ERROR, byName])
  }
  return seen
}

t.test('every kind of response has its security headers', async (t) => {
  for (const [what, , expected, headers] of await responses(t, {})) {
    for (const [name, value] of Object.entries(expected)) {
      if (value instanceof RegExp) t.match(headers[name], value, `${what}: ${name}`)
      else t.equal(headers[name], value, `${what}: ${name}`)
    }
    t.equal(headers['strict-transport-security'], undefined, `${what}: no HSTS on http://`)
  }
})

t.test('responses have STRICT_TRANSPORT_SECURITY when BASE_URL is an https URL', async (t) => {
  const value = 'max-age=31536000; includeSubDomains'
  const settings = { BASE_URL: 'https://landfall.test', STRICT_TRANSPORT_SECURITY: value }
  for (const [what, , , headers] of await responses(t, settings)) {
    // The code that sends these has no access to the settings, and no browser causes them.
    const raw = ['invalid HTTP', 'headers that are too large', 'an expectation', 'CONNECT'].includes(what)
    t.equal(headers['strict-transport-security'], raw ? undefined : value, what)
  }
})
