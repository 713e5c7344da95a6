import t from 'tap'
import { brokenRules } from '../../helpers/http-rules.js'

// helpers/conformance.js applies these rules to every response of every test.

const DATE = 'Sun, 06 Nov 1994 08:49:37 GMT'

const broken = (
  status: number,
  headers: Record<string, string | undefined> = {},
  { method = 'GET', body = Buffer.alloc(0) } = {}
) =>
  brokenRules({
    method,
    status,
    headers: { date: DATE, 'cache-control': status < 400 ? 'no-cache' : 'no-store', ...headers },
    body
  })

t.test('answers that follow the rules break none', async (t) => {
  const json = { 'content-type': 'application/json; charset=utf-8', 'content-length': '2' }
  const body = Buffer.from('{}')
  t.same(broken(200, { ...json, etag: 'W/"x"', 'last-modified': DATE }, { body }), [])
  t.same(broken(200, { ...json, 'content-encoding': 'br', vary: 'Origin, Accept-Encoding' }, { body }), [])
  t.same(broken(200, { 'content-length': '100' }, { method: 'HEAD' }), [])
  t.same(broken(201, { ...json, location: '/assets/1' }, { body }), [])
  t.same(broken(204), [])
  t.same(broken(206, { 'content-range': 'bytes 0-1/2' }), [])
  t.same(broken(304, { etag: '"x"' }), [])
  t.same(broken(401, { 'www-authenticate': 'Bearer error="invalid_token"' }), [])
  t.same(broken(405, { allow: 'GET, HEAD' }), [])
  t.same(broken(405, { allow: '' }), [])
  t.same(broken(429, { 'retry-after': '3' }), [])
})

t.test('each rule is noticed when it is broken', async (t) => {
  const body = Buffer.from('{}')
  const type = { 'content-type': 'text/plain' }
  const cases: [rule: string, ...Parameters<typeof broken>][] = [
    ['Date', 200, { date: undefined }],
    ['Date', 200, { date: 'Sunday, 06-Nov-94 08:49:37 GMT' }],
    ['a 204 or 304 has no body', 204, { 'content-length': '0' }],
    ['a 204 or 304 has no body', 304, { etag: '"x"', ...type }, { body }],
    ['Content-Length or Transfer-Encoding', 200, { 'content-length': '0', 'transfer-encoding': 'chunked' }],
    ['Content-Length', 200, { ...type, 'content-length': '1' }, { body }],
    ['Content-Type of a body', 200, {}, { body }],
    ['Vary with Content-Encoding', 200, { 'content-encoding': 'br' }],
    ['Vary with the origin', 200, { 'access-control-allow-origin': 'https://a.example' }],
    ['ETag', 200, { etag: 'x' }],
    ['Last-Modified', 200, { 'last-modified': 'Sun, 06 Nov 1994 08:49:38 GMT' }],
    ['Cache-Control', 200, { 'cache-control': 'no-cache; private' }],
    ['an error is not stored', 404, { 'cache-control': 'no-cache' }],
    ['no Expires and no Pragma', 200, { expires: '0' }],
    ['Location', 201],
    ['Content-Range', 206],
    ['Content-Range', 416, { 'content-range': 'bytes 0-1/2' }],
    ['the ETag of a 304', 304],
    ['the ETag of a 412', 412],
    ['WWW-Authenticate', 401],
    ['Allow', 405],
    ['Allow', 204, { allow: 'GET, GET' }, { method: 'OPTIONS' }],
    ['Accept-Patch or Accept-Encoding', 415, {}, { method: 'PATCH' }],
    ['Retry-After', 503, { 'retry-after': '0' }]
  ]
  for (const [rule, ...response] of cases) {
    const found = broken(...response)
    t.ok(found.length === 1 && found[0]?.startsWith(rule), `${rule}: ${found.join()}`)
  }
})
