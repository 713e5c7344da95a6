import t from 'tap'
import { connection, requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Malformed HTTP, and HTTP that two servers could read differently. `Probe.is` checks that every refusal is a
// list of sentences in JSON with a request id.

const service = await hostileService(t)
const { account, page, routes, asset } = service
const probe = new Probe(t, service.url)
const auth = { Authorization: account.headers.authorization }
const publicPath = `/landing_pages/${page.public_id}`
const lines = (...all: string[]): string => [...all, '', ''].join('\r\n')
const live = (...headers: string[]): string => lines('GET /health/live HTTP/1.1', 'Host: x', ...headers)
/** A public read with these headers, which include the Host. */
const read = (...headers: string[]): string => lines(`GET ${publicPath} HTTP/1.1`, ...headers)
const signIn = (...headers: string[]): string =>
  lines('POST /auth/sign_in HTTP/1.1', 'Host: x', 'Content-Type: application/json', ...headers)
const IN_CHUNKS = 'Transfer-Encoding: chunked'
const CHUNKED = signIn(IN_CHUNKS)
const JSON_CHUNKS = '2\r\n{}\r\n0\r\n\r\n'

t.test('every message gets exactly one response with the expected status', async () => {
  const table: [what: string, status: number, bytes: string | Buffer][] = [
    ['absolute form', 200, lines(`GET http://x${publicPath} HTTP/1.1`, 'Host: x')],
    ['absolute form of another host', 200, lines(`GET http://other.test${publicPath} HTTP/1.1`, 'Host: x')],
    ['a scheme in upper case', 200, lines(`GET HTTP://X${publicPath} HTTP/1.1`, 'Host: x')],
    ['absolute form without a path', 404, lines('GET http://x?y HTTP/1.1', 'Host: x')],
    ['absolute form with dot segments', 404, lines('GET http://x/auth/../health/live HTTP/1.1', 'Host: x')],
    ['an escaped path', 200, lines('GET /health/l%69ve HTTP/1.1', 'Host: x')],
    ['absolute form of an unknown path', 404, lines('GET http://x/nothing HTTP/1.1', 'Host: x')],
    ['an unsupported scheme', 404, lines('GET ftp://x/auth/me HTTP/1.1', 'Host: x')],
    ['no Host', 400, lines(`GET ${publicPath} HTTP/1.1`)],
    ['an empty Host', 200, read('Host:')],
    ['two Hosts', 400, read('Host: x', 'Host: y')],
    ['the same Host twice', 400, read('Host: x', 'Host: x')],
    ['two Hosts, one of them empty', 400, read('Host:', 'Host: x')],
    ['two Hosts in HTTP/1.0', 400, lines(`GET ${publicPath} HTTP/1.0`, 'Host: x', 'Host: y')],
    ['two Hosts far apart', 431, read('Host: x', ...Array(3000).fill('a:b'), 'Host: y')],
    ['a Host with a space', 400, read('Host: x y')],
    ['a Host with a path', 400, read('Host: x/y')],
    ['a Host with a user', 400, read('Host: user@x')],
    ['a Host with a port', 200, read('Host: landfall.example:3000')],
    ['an IPv6 Host', 200, read('Host: [::1]:3000')],
    ['a leading empty line', 200, `\r\n${requestOf(publicPath)}`],
    ['a request line of one word', 400, lines('GET', 'Host: x')],
    ['no version, as in HTTP/0.9', 404, lines('GET /', 'Host: x')],
    ['HTTP/3.7', 400, lines('GET / HTTP/3.7', 'Host: x')],
    ['another protocol', 400, lines('GET / ICE/1.0', 'Host: x')],
    ['a method in lower case', 501, lines('get / HTTP/1.1', 'Host: x')],
    ['a method of 10,000 letters', 501, lines(`${'G'.repeat(10_000)} / HTTP/1.1`, 'Host: x')],
    ['two spaces in the request line', 404, lines('GET  / HTTP/1.1', 'Host: x')],
    ['a tab in the request line', 400, lines('GET\t/ HTTP/1.1', 'Host: x')],
    ['a space in the URL', 400, lines('GET /a b HTTP/1.1', 'Host: x')],
    ['a URL without a slash', 400, lines('GET health/live HTTP/1.1', 'Host: x')],
    ['an unknown method and a malformed version', 400, lines('BREW / HTCPCP/1.0', 'Host: x')],
    ['a URL of 30,000 characters', 414, lines(`GET /${'x'.repeat(30_000)} HTTP/1.1`, 'Host: x')],
    ['LF only', 400, 'GET /health/live HTTP/1.1\nHost: x\n\n'],
    ['CR only', 400, 'GET /health/live HTTP/1.1\rHost: x\r\r'],
    ['white space before the colon', 400, lines('GET /health/live HTTP/1.1', 'Host : x')],
    ['white space before the name', 400, live(' X: y')],
    ['a header without a colon', 400, live('nonsense')],
    ['a header without a name', 400, live(': y')],
    ['a header with NUL', 400, live('X: a\0b')],
    ['a header with a CR', 400, live('X: a\rY: b')],
    ['a header name outside ASCII', 400, Buffer.from(live('X\u00e9: b'), 'latin1')],
    ['a header value outside ASCII', 200, Buffer.from(live('X: \u00e9'), 'latin1')],
    ['headers within the size limit', 200, live(`X: ${'x'.repeat(15 * 1024)}`)],
    ['a URL of 15,000 characters', 404, lines(`GET /${'x'.repeat(15_000)} HTTP/1.1`, 'Host: x')],
    ['headers over the size limit', 431, live(`X: ${'x'.repeat(17 * 1024)}`)],
    ['100 headers', 200, live(...Array.from({ length: 99 }, (_, n) => `X${n}: y`))],
    ['101 headers', 431, live(...Array.from({ length: 100 }, (_, n) => `X${n}: y`))],
    ['101 headers of a public read', 431, read('Host: x', ...Array(100).fill('a:b'))],
    ['10,000 headers', 431, live(...Array.from({ length: 10_000 }, (_, n) => `X${n}: y`))],
    ['headers named like properties', 200, read('Host: x', '__proto__: x', 'constructor: x', 'toString: x')],
    ['OPTIONS *', 404, lines('OPTIONS * HTTP/1.1', 'Host: x')],
    ['GET *', 404, lines('GET * HTTP/1.1', 'Host: x')],
    ['a URL that begins with a star', 404, lines(`GET ${publicPath.replace('/', '*')} HTTP/1.1`, 'Host: x')],
    ['CONNECT', 405, lines('CONNECT x:443 HTTP/1.1', 'Host: x:443')],
    ['TRACE', 405, lines(`TRACE ${publicPath} HTTP/1.1`, 'Host: x', 'Cookie: secret=1')],
    ['an expectation', 417, live('Expect: nonsense')],
    ['an expectation in HTTP/1.0', 200, live('Expect: 100-continue').replace('/1.1', '/1.0')],
    ['an upgrade', 200, live('Connection: Upgrade', 'Upgrade: websocket')],
    ['garbage', 400, 'garbage\r\n\r\n'],
    ['NUL in the URL', 400, lines('GET /\0 HTTP/1.1', 'Host: x')],
    ['the preface of HTTP/2', 400, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['TLS', 400, Buffer.from('16030102000100010001fc0303', 'hex')],
    ['a method of WebDAV', 404, lines('PROPFIND / HTTP/1.1', 'Host: x')],
    ['a negative length', 400, signIn('Content-Length: -1')],
    ['a header folded over lines', 400, live('X: a', ' b\x01')],
    ['the uploads folder', 404, lines('GET /uploads/ HTTP/1.1', 'Host: x')],
    // Request smuggling: all servers must agree where a body ends.
    ['Content-Length and chunked', 400, signIn('Content-Length: 4', IN_CHUNKS) + JSON_CHUNKS],
    ['chunked and Content-Length', 400, signIn(IN_CHUNKS, 'Content-Length: 4') + JSON_CHUNKS],
    ['two different lengths', 400, `${signIn('Content-Length: 2', 'Content-Length: 3')}{} `],
    ['the same length twice', 400, `${signIn('Content-Length: 2', 'Content-Length: 2')}{}`],
    ['a list of lengths', 400, `${signIn('Content-Length: 2, 2')}{}`],
    ['a length with a sign', 400, `${signIn('Content-Length: +2')}{}`],
    ['a hexadecimal length', 400, `${signIn('Content-Length: 0x2')}{}`],
    ['a length with a fraction', 400, `${signIn('Content-Length: 2.0')}{}`],
    ['an empty length', 400, `${signIn('Content-Length:')}{}`],
    ['a length of 30 digits', 400, `${signIn(`Content-Length: ${'9'.repeat(30)}`)}{}`],
    ['chunked is not last', 400, signIn('Transfer-Encoding: chunked, identity') + JSON_CHUNKS],
    ['chunked twice', 400, signIn('Transfer-Encoding: chunked, chunked') + JSON_CHUNKS],
    ['an unknown transfer coding', 400, signIn('Transfer-Encoding: xchunked') + JSON_CHUNKS],
    ['chunked after a vertical tab', 400, signIn('Transfer-Encoding: \x0bchunked') + JSON_CHUNKS],
    ['chunks', 422, `${CHUNKED}1\r\n{\r\n1\r\n}\r\n0\r\n\r\n`],
    ['chunk extensions and a trailer', 422, `${CHUNKED}1;a=b;c="d"\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n`],
    ['a trailer like a header', 422, `${CHUNKED}2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n`],
    ['chunk extensions of 100,000 bytes', 413, `${CHUNKED}2;${'x'.repeat(100_000)}\r\n{}\r\n0\r\n\r\n`],
    ['20,000 trailers', 431, `${CHUNKED}2\r\n{}\r\n0\r\n${'X: y\r\n'.repeat(20_000)}\r\n`],
    ['an invalid chunk size', 400, `${CHUNKED}zz\r\n{}\r\n0\r\n\r\n`],
    ['a negative chunk size', 400, `${CHUNKED}-2\r\n{}\r\n0\r\n\r\n`],
    ['a chunk size past 64 bits', 400, `${CHUNKED}${'f'.repeat(17)}\r\n{}\r\n0\r\n\r\n`],
    ['a chunk that is longer than its size', 400, `${CHUNKED}1\r\n{}\r\n0\r\n\r\n`],
    ['a chunk size that ends with LF', 400, `${CHUNKED}2\n{}\r\n0\r\n\r\n`],
    ['a chunk size before a space', 400, `${CHUNKED}2 \r\n{}\r\n0\r\n\r\n`],
    ['an upgrade with a body', 422, `${signIn('Connection: Upgrade', 'Upgrade: z', 'Content-Length: 2')}{}`]
  ]
  for (const [what, status, bytes] of table) await probe.expect(bytes, status, what)
})

t.test('the body of a GET is not read as a request and does not change the response', async () => {
  const hidden = requestOf('/health/hidden')
  const chunks = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`
  for (const { name, method, path, owned, takes } of routes) {
    if (takes !== 'nothing' || method === 'DELETE') continue
    const headers = owned ? auth : {}
    const typed = { ...headers, 'Content-Type': 'application/json' }
    const chunked = requestOf(path, { ...headers, 'Transfer-Encoding': 'chunked' }, method)
    await probe.expect(requestWith(hidden, method, path, headers), 200, `${name}, with a length`, method)
    await probe.expect(chunked + chunks, 200, `${name}, in chunks`, method)
    await probe.expect(requestWith('{', method, path, typed), 200, `${name}, with a JSON type`, method)
  }
})

t.test('an unsupported method gets 405 with the supported methods in Allow', async (t) => {
  const cases = [
    [publicPath, 'GET, HEAD, OPTIONS'],
    ['/landing_pages/%00', 'GET, HEAD, OPTIONS'],
    [asset.path, 'GET, HEAD, OPTIONS'],
    ['/landing_pages', 'POST'],
    ['/auth/sign_up', 'POST'],
    ['/auth/sign_out', 'DELETE'],
    ['/auth/me', 'DELETE, GET, HEAD'],
    ['/manage/landing_pages', 'GET, HEAD'],
    [`/manage/landing_pages/${page.id}`, 'DELETE, GET, HEAD, PATCH'],
    ['/manage/landing_pages/malformed?x=1', 'DELETE, GET, HEAD, PATCH'],
    ['/assets', 'GET, HEAD, POST'],
    [`/assets/${asset.id}`, 'DELETE, GET, HEAD'],
    ['/health/live', 'GET, HEAD'],
    ['HTTP://X/health/l%69ve', 'GET, HEAD'],
    ['/landing%5Fpages/x', 'GET, HEAD, OPTIONS']
  ] as const
  for (const [path, allowed] of cases) {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'OPTIONS']) {
      if (allowed.split(', ').includes(method)) continue
      const what = `${method} ${path}`
      const bytes = requestOf(path, method === 'TRACE' ? {} : { 'Content-Length': '0' }, method)
      const { head } = await probe.expect(bytes, 405, what, method)
      t.equal(/\r\nallow: (.*)\r\n/i.exec(head)?.[1]?.split(', ').sort().join(', '), allowed, what)
    }
  }
  const unknown = [
    ...'/ /landing_page /landing_pages/ /landing_pages/x/y /manage /auth /uploadsx'.split(' '),
    ...'/assets/x/y /AUTH/ME /openapi_json /health%2Flive /auth/../health/live'.split(' ')
  ]
  for (const path of unknown) {
    await probe.expect(requestOf(path, { 'Content-Length': '0' }, 'POST'), 404, `POST ${path}`)
  }
})

t.test('a refusal without Fastify has a Date, a valid X-Request-Id of the client, and Allow with 405', async (t) => {
  const connectTo = (id: string) => lines('CONNECT x:1 HTTP/1.1', 'Host: x:1', `X-Request-Id: ${id}`)
  const expecting = (id: string) => requestOf('/health/live', { Expect: 'nonsense', 'X-Request-Id': id })
  const generated = /^[\w-]{12}-[0-9a-z]+$/
  const table: [status: number, bytes: string, id: RegExp][] = [
    [405, connectTo('mine'), /^mine$/],
    [405, connectTo('not sane'), generated],
    [417, expecting('mine'), /^mine$/],
    [417, expecting('not sane'), generated],
    [400, lines('GET', 'Host: x'), /^[\w-]+$/]
  ]
  for (const [status, bytes, id] of table) {
    const { head } = await probe.expect(bytes, status, `${status}`)
    t.match(head, /\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/i)
    t.equal(/\r\nallow:/i.test(head), status === 405)
    t.match(/\r\nx-request-id: (.*)\r\n/i.exec(head)?.[1], id)
  }
})

t.test('any origin may read the errors of public resources', async (t) => {
  const table: [status: number, bytes: string][] = [
    [400, requestOf('/landing_pages/%zz')],
    [400, requestOf('/uploads/%zz')],
    [400, lines(`GET ${publicPath} HTTP/1.1`)],
    [400, lines(`GET ${asset.path} HTTP/1.1`)],
    [405, requestOf(publicPath, {}, 'DELETE')],
    [405, requestOf(asset.path, {}, 'DELETE')],
    [404, requestOf('/landing_pages/x')]
  ]
  for (const [status, bytes] of table) {
    const { head } = await probe.expect(bytes, status, bytes)
    t.match(head, /\r\naccess-control-allow-origin: \*\r\n/i, bytes)
    t.match(head, /\r\naccess-control-expose-headers: .*X-Request-Id/i, bytes)
  }
  const cases = [
    requestOf('/manage/landing_pages/%zz', auth),
    requestOf('/auth/me'),
    requestOf('/manage/landing_pages/x', {}, 'PUT'),
    requestOf('/x/landing_pages/y')
  ]
  for (const bytes of cases) t.notMatch((await probe.send(bytes, bytes)).head, /access-control-/i, bytes)
})

t.test('an unreadable request suppresses no earlier answer', async (t) => {
  const before = [
    requestOf('/auth/me', auth),
    requestOf(asset.path),
    requestOf(publicPath),
    requestOf(publicPath, { 'Accept-Encoding': 'br' }),
    requestOf('/auth/me', { ...auth, Connection: 'close' })
  ]
  const unreadable = [
    '\0\0\0\r\n\r\n',
    requestOf('/', { 'Content-Length': 'x' }),
    requestOf('/', { X: 'x'.repeat(20_000) }),
    `${requestOf('/auth/sign_in', { 'Transfer-Encoding': 'chunked' }, 'POST')}zz\r\n`,
    requestOf('x:443', {}, 'CONNECT')
  ]
  for (const first of before) {
    for (const second of unreadable) {
      const pipelined = connection(t, service.url)
      pipelined.send(first + second)
      t.equal((await pipelined.response()).status, 200, `${first.slice(0, 100)}${second.slice(0, 100)}`)
      const rest = await pipelined.rest()
      if (rest !== '') t.match(rest, /^HTTP\/1\.1 4\d\d .*\r\nconnection: close\r\n/is, 'at most a refusal')
    }
  }
})

t.test('requests on one connection, including refused ones, are answered in order', async (t) => {
  const post = (body: string, type = 'application/json') =>
    requestWith(body, 'POST', '/auth/sign_in', { 'Content-Type': type }).toString()
  const wanted: [status: number, request: string][] = [
    [200, requestOf(publicPath)],
    [404, requestOf('/nothing')],
    [401, post('{"user":{}}')],
    [405, requestOf(publicPath, {}, 'DELETE')],
    [400, requestOf('/landing_pages/%zz')],
    [400, post('{')],
    [401, requestOf('/auth/me')],
    [200, requestOf('/auth/me', auth)],
    [400, lines('GET /health/live HTTP/1.1', 'Host: x', 'Host: y')],
    [200, requestOf(publicPath)],
    [415, post('x', 'text/plain')]
  ]
  const numbered = wanted.map(([status, request], n) =>
    [status, request.replace('\r\n', `\r\nX-Request-Id: n-${n}\r\n`)] as const
  )
  const kept = connection(t, service.url)
  for (const [n, [status, request]] of numbered.entries()) {
    kept.send(request)
    const response = await kept.response()
    t.equal(response.status, status, `answer ${n}`)
    t.match(response.head, new RegExp(`\\r\\nx-request-id: n-${n}\\r\\n`, 'i'))
  }
  // Requests in one packet are answered in order until the connection is closed.
  for (let first = 0; first < numbered.length; first++) {
    const pipelined = connection(t, service.url)
    pipelined.send(numbered.slice(first).map(([, request]) => request).join(''))
    let n = first
    let head
    do {
      const response = await pipelined.response()
      head = response.head
      t.equal(response.status, numbered[n]?.[0], `answer ${n} of the requests from ${first}`)
      t.match(head, new RegExp(`\\r\\nx-request-id: n-${n}\\r\\n`, 'i'))
      n++
    } while (n < numbered.length && !/\r\nconnection: close\r\n/i.test(head))
  }
})
