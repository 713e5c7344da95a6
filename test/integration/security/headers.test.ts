import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { buildTestApp, createPage, listen, signUp, testSettings } from '../../helpers/app.ts'

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
const PUBLIC: Expected = {
  ...ANONYMOUS,
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'cross-origin',
  'access-control-allow-origin': '*'
}
const PUBLIC_REFUSAL: Expected = {
  ...ANONYMOUS,
  'x-content-type-options': 'nosniff',
  'access-control-allow-origin': '*',
  'cache-control': 'no-store'
}
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
  const app = await buildTestApp(t, { settings: { ...base, RATE_LIMIT_PUBLIC: '4', ...settings } })
  const url = await listen(app)
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const form = new FormData()
  form.append('asset[file]', new Blob(['<script>alert(1)</script>']), 'page.html')
  const uploaded =
    await (await fetch(`${url}/assets`, { method: 'POST', headers: owner.headers, body: form })).json() as {
      url: string
    }

  const bearer = { headers: owner.headers }
  const post = (body: unknown) => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body)
  })
  const requests: [what: string, path: string, status: number, expected: Expected, init?: RequestInit][] = [
    ['sign-up', '/auth/sign_up', 422, OWN, post({})],
    ['tokens', '/auth/refresh', 200, OWN, post({ refresh_token: owner.refresh_token })],
    [
      'a wrong password',
      '/auth/sign_in',
      401,
      OWN,
      post({ user: { email: owner.user.email, password: 'wrong' } })
    ],
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
    ['a document that is not modified', `/landing_pages/${page.public_id}`, 304, PUBLIC, {
      headers: { 'if-none-match': page.etag }
    }],
    ['a malformed id', '/landing_pages/unknown', 404, PUBLIC_REFUSAL],
    ['an unknown document', `/landing_pages/${'A'.repeat(22)}`, 404, PUBLIC_REFUSAL],
    ['a read over the limit', `/landing_pages/${page.public_id}`, 429, PUBLIC_REFUSAL],
    ['an uploaded file', new URL(uploaded.url).pathname, 200, {
      ...UPLOAD,
      'content-disposition': /^attachment; filename=/
    }],
    ['an unknown file', '/uploads/unknown', 404, { ...UPLOAD, 'cache-control': 'no-store' }]
  ]
  const seen: Response[] = []
  for (const [what, path, status, expected, init] of requests) {
    const response = await fetch(url + path, init)
    await response.arrayBuffer()
    t.equal(response.status, status, what)
    seen.push([what, status, expected, Object.fromEntries(response.headers)])
  }
  for (
    const [what, status, bytes] of [
      ['invalid HTTP', 400, 'garbage\r\n\r\n'],
      ['headers that are too large', 431, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`],
      ['an expectation', 417, 'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n'],
      ['CONNECT', 405, 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n'],
      ['TRACE', 405, 'TRACE /auth/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n']
    ] as const
  ) {
    const head = await rawHead(url, bytes)
    t.match(head, new RegExp(`^HTTP/1.1 ${status} `), what)
    seen.push([
      what,
      status,
      ERROR,
      Object
        .fromEntries(head.split('\r\n').slice(1).map((
          line
        ) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]))
    ])
  }
  return seen
}

async function rawHead (url: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
  let answer = ''
  socket.on('data', (data) => {
    answer += data.toString('latin1')
  }).on('error', () => {})
  await once(socket, 'close')
  return answer.split('\r\n\r\n')[0] as string
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
  for (
    const [what, , , headers] of await responses(t, {
      BASE_URL: 'https://landfall.test',
      STRICT_TRANSPORT_SECURITY: value
    })
  ) {
    // The code that sends these has no access to the settings, and no browser causes them.
    const raw = ['invalid HTTP', 'headers that are too large', 'an expectation', 'CONNECT'].includes(what)
    t.equal(headers['strict-transport-security'], raw ? undefined : value, what)
  }
})

t.test('the longest head of a public read fits into the space before its body', async (t) => {
  const app = await buildTestApp(t, {
    settings: {
      ...await testSettings(t),
      BASE_URL: 'https://landfall.test',
      STRICT_TRANSPORT_SECURITY: 'max-age=63072000; includeSubDomains; preload'
    }
  })
  const page = await createPage(app, await signUp(app), `{"x":"${'x'.repeat(2000)}"}`)
  const { port } = new URL(await listen(app))
  const socket = connect(
    Number(port),
    '127.0.0.1',
    () =>
      socket
        .write(`GET /landing_pages/${page.public_id} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nX-Request-Id: ${
          'x'.repeat(36)
        }\r\n\r\n`)
  )
  let answer = ''
  socket.on('data', (data) => {
    answer += data.toString('latin1')
  })
  while (!answer.includes('\r\n\r\n')) await once(socket, 'data')
  socket.destroy()
  const { length } = answer.slice(0, answer.indexOf('\r\n\r\n') + 4)
  t.ok(length <= 1024, `${length} bytes`)
})
