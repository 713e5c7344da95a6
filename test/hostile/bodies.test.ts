import t from 'tap'
import { PASSWORD } from '../helpers/app.ts'
import { requestOf } from '../helpers/raw.ts'
import { hostileService, Probe, type Route } from './service.ts'

// JSON bodies of every shape and size, for every route that reads one. test/landing-pages/manage.test.ts and
// test/auth/accounts.test.ts have what is particular to documents and accounts.

const service = await hostileService(t)
const { account, page } = service
const probe = new Probe(t, service.url)
const takers = service.routes.filter(({ takes }) => takes === 'json')
const headersOf = ({ owned }: Route): Record<string, string> => owned ? { Authorization: account.headers.authorization } : {}
const send = async (route: Route, body: string | Buffer, what: string, headers: Record<string, string> = { 'Content-Type': 'application/json' }) =>
  await probe.sendBody(body, route.method, route.path, { ...headersOf(route), ...headers }, `${route.name}, ${what}`)

const bytes = (...parts: (string | number[])[]): Buffer => Buffer.concat(parts.map((part) => Buffer.from(part as string)))

t.test('what is no JSON is one 400 everywhere, and leaves the connection as it was', async (t) => {
  const malformed: Record<string, string | Buffer> = {
    'white space': ' \r\n\t',
    'a BOM alone': '\ufeff',
    'two BOMs': '\ufeff\ufeff{}',
    'a BOM inside': '{\ufeff}',
    'an open brace': '{',
    'a closed one': '}',
    'a name alone': '{"user"}',
    'no value': '{"user":}',
    'an open string': '{"user":"',
    'an open escape': '{"user":"\\',
    'half an escape': '{"user":"\\u12"}',
    'an unknown escape': '{"user":"\\x"}',
    'trailing garbage': '{} x',
    'two documents': '{}{}',
    'two documents on two lines': '{}\n{}',
    'trailing NUL': '{}\0',
    'leading NUL': '\0{}',
    'NUL in a string': '{"user":"\0"}',
    'a tab in a string': '{"user":"\t"}',
    'single quotes': "{'user':1}",
    'no quotes': '{user:1}',
    'a comma too many': '{"user":1,}',
    'a comma too few': '{"a":1 "b":2}',
    'a comma in a list': '[1,]',
    'a comment': '{}//',
    'a comment first': '/**/{}',
    NaN: '{"user":NaN}',
    Infinity: '{"user":-Infinity}',
    undefined: 'undefined',
    hexadecimal: '{"user":0x10}',
    'leading zeros': '{"user":007}',
    'a plus': '{"user":+1}',
    'a dot first': '{"user":.5}',
    'a dot last': '{"user":5.}',
    'an exponent alone': '{"user":1e}',
    True: '{"user":True}',
    'other white space': '\u00a0{}',
    'a form': 'user%5Bemail%5D=x',
    'depth without end': '['.repeat(60_000),
    'objects without end': '{"a":'.repeat(10_000),
    'a bare continuation': bytes('{"user":"', [0x80], '"}'),
    'half a character': bytes('{"user":"', [0xc3], '"}'),
    'an overlong slash': bytes('{"user":"', [0xc0, 0xaf], '"}'),
    'a surrogate in UTF-8': bytes('{"user":"', [0xed, 0xa0, 0x80], '"}'),
    'past Unicode': bytes('{"user":"', [0xf4, 0x90, 0x80, 0x80], '"}'),
    'bytes that never are': bytes([0xfe, 0xff]),
    'UTF-16': Buffer.from('{"user":{}}', 'utf16le'),
    'UTF-16 with a BOM': Buffer.from('\ufeff{}', 'utf16le'),
    'random bytes': Buffer.from('d41d8cd98f00b204e9800998ecf8427e', 'hex')
  }
  for (const route of takers) {
    for (const [what, body] of Object.entries(malformed)) {
      const answer = await send(route, body, what)
      probe.is(answer, 400, `${route.name}, ${what}`)
      t.equal(answer.body.toString(), '{"errors":["Request body is not valid JSON"]}', `${route.name}, ${what}`)
      t.notMatch(answer.head, /\r\nconnection: close/i, `${route.name}, ${what}`)
    }
  }
})

/** What each route answers to a body of the wrong shape; an update without a document changes nothing. */
const REFUSED: Record<string, number> = { 'sign-up': 422, 'sign-in': 401, refresh: 401, 'sign-out': 401, create: 422, update: 422 }
const { email } = account.user
const right = JSON.stringify({ email, password: PASSWORD, password_confirmation: PASSWORD })
const newcomer = JSON.stringify({ email: 'nobody-yet@example.com', password: PASSWORD, password_confirmation: PASSWORD })
const token = JSON.stringify(account.refresh_token)

t.test('JSON of the wrong shape is refused, and changes nothing', async (t) => {
  const values = ['null', 'true', 'false', '0', '-0', '1e999', '"text"', '""', '"\\ud800"', '"\\u0000"', '12345678901234567890']
  const shapes: string[] = [
    ...values, '[]', '[[]]', '[{}]', `[{"user":${right}}]`, '[null]',
    ...[...values, '[]', '[{}]', `[${right}]`].map((value) => `{"user":${value},"refresh_token":${value === '[]' ? '[]' : `[${value}]`},"current_data":${/^\[/.test(value) ? '1' : value}}`),
    ...[...values, '[]', '{}', `["${email}"]`, '{"toString":1}', `{"0":"${email}"}`].map((value) => `{"user":{"email":${value},"password":${value},"password_confirmation":${value}},"refresh_token":{"0":${token}},"current_data":7}`),
    // Nothing is read from where an object has it without having been sent it.
    `{"__proto__":{"user":${right},"refresh_token":${token},"current_data":{}},"current_data":1}`, `{"user":{"__proto__":${newcomer}},"landing_page":{"__proto__":{"current_data":{}}},"current_data":1}`,
    `{"constructor":{"prototype":{"user":${right}}},"current_data":1}`, '{"user":{"constructor":1,"valueOf":1,"email":{"toString":"x"}},"current_data":"x"}',
    `{"user.email":"${email}","user[email]":"${email}","current_data":1}`, `{"User":${right},"REFRESH_TOKEN":${token},"refreshToken":${token},"current_data":1}`, `{"refresh_token":[${token}],"current_data":1}`,
    `{"refresh_token":" ${account.refresh_token}","current_data":1}`, `{"refresh_token":"${account.refresh_token}\\u0000","current_data":1}`, `{"refresh_token":"${account.refresh_token}=","current_data":1}`,
    `{"user":${right},"user":null,"refresh_token":${token},"refresh_token":null,"current_data":{},"current_data":null}`
  ]
  const before = await service.app.database.user.count()
  const pages = await service.app.database.landingPage.count()
  for (const route of takers) for (const shape of shapes) probe.is(await send(route, shape, shape.slice(0, 120)), REFUSED[route.name] as number, `${route.name}, ${shape.slice(0, 120)}`)
  t.equal(await service.app.database.user.count(), before)
  t.equal(await service.app.database.landingPage.count(), pages)
  t.equal((await service.app.inject({ url: '/auth/me', headers: account.headers })).statusCode, 200, 'the session lives')
  t.equal((await service.app.inject({ url: `/landing_pages/${page.public_id}` })).body, '{"hello":"world"}')
  t.equal(({} as Record<string, unknown>).user, undefined)
})

t.test('no body, an empty one and an empty object are what the route says to a missing field', async () => {
  for (const route of takers) {
    const expected = route.name === 'update' ? 200 : REFUSED[route.name] as number
    for (const [what, bytes] of [
      ['no body', requestOf(route.path, headersOf(route), route.method)],
      ['no body, but its type', requestOf(route.path, { ...headersOf(route), 'Content-Type': 'application/json' }, route.method)],
      ['an empty body', requestOf(route.path, { ...headersOf(route), 'Content-Type': 'application/json', 'Content-Length': '0' }, route.method)],
      ['no chunk', `${requestOf(route.path, { ...headersOf(route), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }, route.method)}0\r\n\r\n`]
    ] as const) probe.is(await probe.send(bytes, `${route.name}, ${what}`, route.method), expected, `${route.name}, ${what}`)
    probe.is(await send(route, '{}', 'an empty object'), expected, `${route.name}, an empty object`)
    probe.is(await send(route, '\ufeff{}', 'a BOM'), expected, `${route.name}, a BOM`)
  }
})

t.test('a body at its limit is read, one byte more is a 413', async () => {
  const KIBIBYTE = 1024
  for (const route of takers) {
    const limit = ['create', 'update'].includes(route.name) ? 1024 * KIBIBYTE + 64 * KIBIBYTE : 64 * KIBIBYTE
    const chunked = (size: number) => `${requestOf(route.path, { ...headersOf(route), 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }, route.method)}${size.toString(16)}\r\n${'{}'.padEnd(size)}\r\n0\r\n\r\n`
    const ofLimit = route.name === 'update' ? 200 : REFUSED[route.name] as number
    for (const [size, status] of [[limit, ofLimit], [limit + 1, 413]] as const) {
      probe.is(await send(route, '{}'.padEnd(size), `${size} bytes`), status, `${route.name}, ${size} bytes`)
      probe.is(await probe.send(chunked(size), `${route.name}, ${size} bytes in a chunk`, route.method), status, `${route.name}, ${size} bytes in a chunk`)
    }
    const announced = await probe.send(requestOf(route.path, { ...headersOf(route), 'Content-Type': 'application/json', 'Content-Length': '9999999999999' }, route.method), `${route.name}, announced`, route.method)
    probe.is(announced, 413, `${route.name}, an announced size`)
  }
})

t.test('many keys, and much depth where nobody looks', async (t) => {
  const [create, update] = ['create', 'update'].map((name) => takers.find((route) => route.name === name)) as [Route, Route]
  const keys = (count: number, name: (n: number) => string) => `{${Array.from({ length: count }, (_, n) => `"${name(n)}":0`).join(',')}}`
  const short = (n: number) => n.toString(36)
  for (const [what, document] of [
    ['100,000 keys', keys(100_000, short)], ['one key 100,000 times', keys(100_000, () => 'a')], ['__proto__ 60,000 times', keys(60_000, () => '__proto__')],
    ['100,000 numbers that look like indices', keys(100_000, String)], ['a number of 900,000 digits', `[${'9'.repeat(900_000)}]`], ['a key of 900,000 characters', `{"${'k'.repeat(900_000)}":0}`], ['a string of escapes', `["${'\\u0000'.repeat(170_000)}"]`]
  ] as const) {
    const answer = await send(create, `{"current_data":${document}}`, what)
    probe.is(answer, 201, what)
    t.ok(answer.body.includes(`"current_data":${document},`), `${what}: as it was sent`)
  }
  probe.is(await send(create, `{"a":${keys(100_000, short)},"current_data":{}}`, 'beside'), 201, '100,000 keys beside the document')
  probe.is(await send(create, keys(100_000, short), 'in its place'), 422, '100,000 keys in its place')
  probe.is(await send(update, `{"a":${'['.repeat(500_000)}${']'.repeat(500_000)}}`, 'deep'), 200, '500,000 levels beside no document')
  for (const route of takers.filter(({ name }) => name.startsWith('sign') || name === 'refresh')) {
    probe.is(await send(route, `{"user":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, 'deep'), REFUSED[route.name] as number, `${route.name}, 30,000 levels`)
    probe.is(await send(route, `{"user":{"email":"${'a'.repeat(60_000)}"}}`, 'long'), REFUSED[route.name] as number, `${route.name}, a long address`)
  }
})

t.test('only JSON in UTF-8, not encoded, is read', async () => {
  const types: [what: string, headers: Record<string, string>, accepted: boolean][] = [
    ['none', {}, false], ['an empty one', { 'Content-Type': '' }, false], ['text', { 'Content-Type': 'text/plain' }, false], ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, false],
    ['JSON in name only', { 'Content-Type': 'application/jsonx' }, false], ['a JSON of its own', { 'Content-Type': 'application/vnd.api+json' }, false], ['two types', { 'Content-Type': 'application/json, text/plain' }, false],
    ['two types in two lines', { 'Content-Type': 'application/json', 'content-type': 'application/json' }, false], ['nonsense', { 'Content-Type': ';;;' }, false], ['a slash', { 'Content-Type': '/' }, false],
    ['UTF-16', { 'Content-Type': 'application/json; charset=utf-16' }, false], ['Latin 1', { 'Content-Type': 'application/json; charset="iso-8859-1"' }, false], ['UTF-7', { 'Content-Type': 'application/json;charset=utf-7' }, false],
    ['UTF-8', { 'Content-Type': 'application/json; charset=UTF-8' }, true], ['quoted', { 'Content-Type': 'application/json; charset="utf-8"' }, true], ['another parameter', { 'Content-Type': 'application/json; profile="x"' }, true], ['capitals', { 'Content-Type': 'APPLICATION/JSON' }, true],
    ['gzip', { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }, false], ['br', { 'Content-Type': 'application/json', 'Content-Encoding': 'br' }, false], ['an unknown encoding', { 'Content-Type': 'application/json', 'Content-Encoding': 'x' }, false],
    ['identity', { 'Content-Type': 'application/json', 'Content-Encoding': 'identity' }, true], ['twice encoded', { 'Content-Type': 'application/json', 'Content-Encoding': 'identity, gzip' }, false]
  ]
  for (const route of takers) {
    for (const [what, headers, accepted] of types) {
      const status = !accepted ? 415 : route.name === 'update' ? 200 : REFUSED[route.name] as number
      probe.is(await send(route, '{}', what, headers), status, `${route.name}, ${what}`)
    }
  }
})

t.test('a password counts to its last character, whatever is in it', async (t) => {
  const user = (password: string, name: string) => JSON.stringify({ user: { email: `${name}@example.com`, password, password_confirmation: password } })
  const [signUp, signIn] = takers as [Route, Route]
  for (const [n, [mine, other]] of [['secret\0one-and-more', 'secret\0two-and-more'], ['\0\0\0\0\0\0\0\0', '\0\0\0\0\0\0\0\0\0'], ['a\u{1f600}bcdefgh', 'a\u{1f601}bcdefgh'], [`${'x'.repeat(255)}y`, `${'x'.repeat(255)}z`]].entries()) {
    t.equal((await send(signUp, user(mine as string, `odd-${n}`), 'odd')).status, 201)
    t.equal((await send(signIn, user(mine as string, `odd-${n}`), 'odd')).status, 200)
    t.equal((await send(signIn, user(other as string, `odd-${n}`), 'odd')).status, 401)
  }
})
