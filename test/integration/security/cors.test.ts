import t from 'tap'
import { buildTestApp, createPage, NOBODY, sendAs, signUp } from '../../helpers/app.ts'

// CORS_ORIGINS lists the origins that may call the management API from a browser.

const ALLOWED = ['https://app.example.com', 'http://localhost:5173']
const OTHERS = [
  ...'https://evil.example https://evil-app.example.com https://evilapp.example.com'.split(' '),
  ...'https://app.example.com.evil.com https://example.com https://sub.app.example.com'.split(' '),
  ...'http://app.example.com https://app.example.com:8443 https://app.example.com:443'.split(' '),
  ...'https://app.example.com/ https://app.example.com@evil.com https://app.examplexcom'.split(' '),
  ...'https://app.example.com. https://APP.example.com HTTPS://app.example.com'.split(' '),
  ...'http://localhost http://localhost:51730 http://127.0.0.1:5173 null file:// *'.split(' '),
  ...'app.example.com https://\u0430pp.example.com chrome-extension://abcdef'.split(' '),
  'https://app.example.com https://evil.example',
  'https://app.example.com, https://evil.example',
  ''
]
const PREFLIGHT = {
  'access-control-request-method': 'PATCH',
  'access-control-request-headers': 'authorization,content-type,if-match'
}

const given = { CORS_ORIGINS: ALLOWED.join(',').replace('app', 'APP'), RATE_LIMIT_PUBLIC: '1000' }
const app = await buildTestApp(t, given)
const owner = await signUp(app)
const page = await createPage(app, owner)

t.test('only listed origins may read responses', async (t) => {
  for (const origin of [...ALLOWED, ...OTHERS]) {
    const expected = ALLOWED.includes(origin) ? origin : undefined
    const preflight = { origin, ...PREFLIGHT }
    const responses = {
      'a response': await sendAs(app, owner, 'GET', '/auth/me', undefined, { origin }),
      'a refusal': await sendAs(app, NOBODY, 'GET', '/auth/me', undefined, { origin }),
      tokens: await sendAs(app, NOBODY, 'POST', '/auth/sign_in', {}, { origin }),
      'an unknown path': await sendAs(app, NOBODY, 'GET', '/nothing', undefined, { origin }),
      'an unknown method': await sendAs(app, NOBODY, 'PUT', '/auth/me', undefined, { origin }),
      'a bad escape': await sendAs(app, NOBODY, 'GET', '/manage/landing_pages/%zz', undefined, { origin }),
      'a preflight': await app.inject({
        method: 'OPTIONS',
        url: '/manage/landing_pages/x',
        headers: preflight
      })
    }
    for (const [name, { headers }] of Object.entries(responses)) {
      const what = `${name} for ${origin}`
      t.equal(headers['access-control-allow-origin'], expected, what)
      t.equal(headers['access-control-allow-credentials'], undefined, `${what}: tokens are sent in a header`)
      t.match(headers.vary, /(^|, )Origin(,|$)/, `${what}: caches store a response per origin`)
    }
  }
})

t.test('a preflight returns the allowed methods and headers, and needs no token', async (t) => {
  const paths = '/auth/sign_in /landing_pages /manage/landing_pages /manage/landing_pages/x/document ' +
    '/assets /assets/x /auth/sign_out'
  for (const url of paths.split(' ')) {
    const headers = { origin: ALLOWED[0], ...PREFLIGHT }
    const response = await app.inject({ method: 'OPTIONS', url, headers })
    t.equal(response.statusCode, 204, url)
    const allowed = String(response.headers.allow).split(', ')
    t.ok(allowed.includes('OPTIONS') && allowed.length > 1 && new Set(allowed).size === allowed.length, url)
    const permitted = String(response.headers['access-control-allow-methods']).split(', ')
    t.same(permitted, ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'], url)
    t.same(allowed.filter((method) => ![...permitted, 'OPTIONS'].includes(method)), [], `${url}: all methods`)
    const permittedHeaders = response.headers['access-control-allow-headers']
    t.equal(permittedHeaders, PREFLIGHT['access-control-request-headers'], url)
  }
})

t.test('an OPTIONS request that is not a preflight gets 204', async (t) => {
  t.equal((await app.inject({ method: 'OPTIONS', url: '/auth/sign_in' })).statusCode, 204)
})

t.test('every origin may ask for documents, files and previews, with the headers that it names', async (t) => {
  for (const url of [`/landing_pages/${page.public_id}`, '/uploads/x', '/previews/x']) {
    const preflight = {
      ...PREFLIGHT,
      origin: 'https://anywhere.example',
      'access-control-request-method': 'GET'
    }
    const response = await app.inject({ method: 'OPTIONS', url, headers: preflight })
    t.match(response, { statusCode: 204, body: '' }, url)
    t.match(response.headers, {
      'access-control-allow-origin': '*',
      'access-control-allow-methods': /GET, HEAD/,
      'access-control-allow-headers': PREFLIGHT['access-control-request-headers'],
      vary: /Access-Control-Request-Headers/,
      allow: 'GET, HEAD, OPTIONS',
      ratelimit: undefined
    }, url)
  }
})

t.test('without CORS_ORIGINS, no origin may read responses', async (t) => {
  const closed = await buildTestApp(t)
  for (const origin of [...ALLOWED, 'null', 'http://landfall.test']) {
    for (const method of ['GET', 'OPTIONS'] as const) {
      const { headers } = await closed.inject({ method, url: '/auth/me', headers: { origin, ...PREFLIGHT } })
      const names = Object.keys(headers).filter((name) => name.startsWith('access-control-'))
      t.same(names, [], `${method} for ${origin}`)
    }
  }
})

t.test('with CORS_ORIGINS=*, every origin may read responses, but without credentials', async (t) => {
  const open = await buildTestApp(t, { CORS_ORIGINS: '*' })
  for (const origin of [...ALLOWED, ...OTHERS]) {
    const { headers } = await open.inject({ url: '/auth/me', headers: { origin } })
    t.equal(headers['access-control-allow-origin'], '*', origin)
    t.equal(headers['access-control-allow-credentials'], undefined, origin)
  }
})

t.test('every origin may read public documents, whatever CORS_ORIGINS is', async (t) => {
  for (const origin of [...ALLOWED, ...OTHERS]) {
    const { headers } = await app.inject({ url: `/landing_pages/${page.public_id}`, headers: { origin } })
    t.equal(headers['access-control-allow-origin'], '*', origin)
    t.equal(headers['access-control-allow-credentials'], undefined, origin)
  }
})
