import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe, type Route } from '../../helpers/hostile-service.ts'

// JSON bodies of every shape and size, for every route that reads one. Tests of documents and accounts:
// test/integration/landing-pages/manage.test.ts, test/integration/accounts/accounts.test.ts.

const service = await hostileService(t)
const { account, page } = service
const probe = new Probe(t, service.url)
const NOT_JSON = /^\{"errors":\["Request body is not valid JSON \((line \d+, column \d+|not UTF-8)\)"\]\}$/
const takers = service.routes.filter(({ takes }) => takes === 'json')
const headersOf = ({ owned }: Route): Record<string, string> =>
  owned ? { Authorization: account.headers.authorization } : {}
const JSON_TYPE = { 'Content-Type': 'application/json' }
/** Sends a body and expects a status. */
const send = async (
  route: Route,
  body: string | Buffer,
  status: number,
  what: string,
  headers: Record<string, string> = JSON_TYPE
) => {
  const request = requestWith(body, route.method, route.path, { ...headersOf(route), ...headers })
  return await probe.expect(request, status, `${route.name}, ${what}`, route.method)
}
/** A request without a body. */
const headOf = (route: Route, headers: Record<string, string> = JSON_TYPE) =>
  requestOf(route.path, { ...headersOf(route), ...headers }, route.method)

const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => Buffer.from(part as string)))

// The grammar: test/unit/json-text/json-text.test.ts.
t.test('malformed JSON gets the same 400 on every route', async (t) => {
  const malformed: Record<string, string | Buffer> = {
    'white space': ' \r\n\t',
    'only a BOM': '\ufeff',
    'two BOMs': '\ufeff\ufeff{}',
    'an unterminated escape': '{"user":"\\',
    'two documents': '{}{}',
    'a trailing NUL': '{}\0',
    'an extra comma': '{"user":1,}',
    'a comment': '{}//',
    NaN: '{"user":NaN}',
    'other white space': '\u00a0{}',
    'a form': 'user%5Bemail%5D=x',
    '60,000 open arrays': '['.repeat(60_000),
    '10,000 open objects': '{"a":'.repeat(10_000),
    'a continuation byte without a start': bytes('{"user":"', [0x80], '"}'),
    'half a character': bytes('{"user":"', [0xc3], '"}'),
    'an overlong slash': bytes('{"user":"', [0xc0, 0xaf], '"}'),
    'a surrogate in UTF-8': bytes('{"user":"', [0xed, 0xa0, 0x80], '"}'),
    'a code point past Unicode': bytes('{"user":"', [0xf4, 0x90, 0x80, 0x80], '"}'),
    'UTF-16 with a BOM': Buffer.from('\ufeff{}', 'utf16le')
  }
  for (const route of takers) {
    for (const [what, body] of Object.entries(malformed)) {
      const response = await send(route, body, 400, what)
      t.match(response.body.toString(), NOT_JSON, `${route.name}, ${what}`)
      t.notMatch(response.head, /\r\nconnection: close/i, `${route.name}, ${what}`)
    }
  }
})

/** The status for a body of the wrong shape. An update without a document gets 200 and changes nothing. */
const REFUSED: Record<string, number> = {
  'sign-up': 422,
  'sign-in': 422,
  refresh: 401,
  'sign-out': 401,
  create: 422,
  update: 422
}
/** The same for any body. A sign-in with a `user` object gets 401. */
function refusalOf ({ name }: Route, body: string): number {
  const user: unknown = JSON.parse(body)?.user
  const hasUser = typeof user === 'object' && user !== null && !Array.isArray(user)
  return name === 'sign-in' && hasUser ? 401 : REFUSED[name] as number
}
const { email } = account.user
const right = JSON.stringify({ email, password: PASSWORD, password_confirmation: PASSWORD })
const newcomer = right.replace(email, 'nobody-yet@example.com')
const token = JSON.stringify(account.refresh_token)

t.test('JSON of the wrong shape is refused and changes nothing', async (t) => {
  const values = ['null', 'true', '0', '1e999', '"text"', '"\\ud800"', '"\\u0000"', '12345678901234567890']
  const shapes: string[] = [
    ...values,
    ...['[]', '[[]]', '[{}]', `[{"user":${right}}]`],
    ...[...values, '[]', '[{}]', `[${right}]`].map((value) =>
      `{"user":${value},"refresh_token":${value === '[]' ? '[]' : `[${value}]`},"current_data":${
        /^\[/.test(value) ? '1' : value
      }}`
    ),
    ...[...values, '[]', '{}', `["${email}"]`, '{"toString":1}', `{"0":"${email}"}`].map((value) =>
      `{"user":{"email":${value},"password":${value},"password_confirmation":${value}},"refresh_token":{"0":${token}},"current_data":7}`
    ),
    // Only own properties of the parsed body are read, never inherited ones.
    `{"__proto__":{"user":${right},"refresh_token":${token},"current_data":{}},"current_data":1}`,
    `{"user":{"__proto__":${newcomer}},"landing_page":{"__proto__":{"current_data":{}}},"current_data":1}`,
    `{"constructor":{"prototype":{"user":${right}}},"current_data":1}`,
    '{"user":{"constructor":1,"valueOf":1,"email":{"toString":"x"}},"current_data":"x"}',
    `{"user.email":"${email}","user[email]":"${email}","current_data":1}`,
    `{"User":${right},"REFRESH_TOKEN":${token},"refreshToken":${token},"current_data":1}`,
    `{"refresh_token":[${token}],"current_data":1}`,
    `{"refresh_token":" ${account.refresh_token}","current_data":1}`,
    `{"refresh_token":"${account.refresh_token}\\u0000","current_data":1}`,
    `{"refresh_token":"${account.refresh_token}=","current_data":1}`,
    `{"user":${right},"user":null,"refresh_token":${token},"refresh_token":null,"current_data":{},"current_data":null}`
  ]
  const before = await service.app.database.user.count()
  const pages = await service.app.database.landingPage.count()
  for (const route of takers) {
    for (const shape of shapes) await send(route, shape, refusalOf(route, shape), shape.slice(0, 120))
  }
  t.equal(await service.app.database.user.count(), before)
  t.equal(await service.app.database.landingPage.count(), pages)
  const { statusCode } = await service.app.inject({ url: '/auth/me', headers: account.headers })
  t.equal(statusCode, 200, 'the session is still valid')
  t.equal((await service.app.inject({ url: `/landing_pages/${page.public_id}` })).body, '{"hello":"world"}')
  t.equal(({} as Record<string, unknown>).user, undefined)
})

t.test('no body and an empty one are as missing fields', async () => {
  for (const route of takers) {
    const expected = route.name === 'update' ? 200 : REFUSED[route.name] as number
    const cases = [
      ['no body', headOf(route, {})],
      ['no body, but a Content-Type', headOf(route)],
      ['an empty body', headOf(route, { ...JSON_TYPE, 'Content-Length': '0' })],
      ['no chunks', `${headOf(route, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' })}0\r\n\r\n`]
    ] as const
    for (const [what, bytes] of cases) {
      await probe.expect(bytes, expected, `${route.name}, ${what}`, route.method)
    }
    await send(route, '{}', expected, 'an empty object')
    await send(route, '\ufeff{}', expected, 'a BOM')
  }
})

t.test('a body over the size limit gets 413', async () => {
  const KIBIBYTE = 1024
  for (const route of takers) {
    const limit = ['create', 'update'].includes(route.name) ? 1024 * KIBIBYTE + 64 * KIBIBYTE : 64 * KIBIBYTE
    const chunked = (size: number) =>
      `${headOf(route, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' })}${size.toString(16)}\r\n` +
      `${'{}'.padEnd(size)}\r\n0\r\n\r\n`
    const ofLimit = route.name === 'update' ? 200 : REFUSED[route.name] as number
    for (const [size, status] of [[limit, ofLimit], [limit + 1, 413]] as const) {
      await send(route, '{}'.padEnd(size), status, `${size} bytes`)
      await probe.expect(chunked(size), status, `${route.name}, ${size} bytes in a chunk`, route.method)
    }
    const announced = headOf(route, { ...JSON_TYPE, 'Content-Length': '9999999999999' })
    await probe.expect(announced, 413, `${route.name}, an announced size`, route.method)
  }
})

t.test('many keys, long values and deep nesting get the usual responses', async (t) => {
  const [create, update] = ['create', 'update'].map((name) =>
    takers.find((route) => route.name === name)
  ) as [Route, Route]
  const keys = (count: number, name: (n: number) => string) =>
    `{${Array.from({ length: count }, (_, n) => `"${name(n)}":0`).join(',')}}`
  const short = (n: number) => n.toString(36)
  const documents = [
    ['100,000 keys', keys(100_000, short)],
    ['one key 100,000 times', keys(100_000, () => 'a')],
    ['__proto__ 60,000 times', keys(60_000, () => '__proto__')],
    ['100,000 numbers that look like indices', keys(100_000, String)],
    ['a number of 900,000 digits', `[${'9'.repeat(900_000)}]`],
    ['a key of 900,000 characters', `{"${'k'.repeat(900_000)}":0}`],
    ['a string of escapes', `["${'\\u0000'.repeat(170_000)}"]`]
  ] as const
  for (const [what, document] of documents) {
    const response = await send(create, `{"current_data":${document}}`, 201, what)
    t.ok(response.body.includes(`"current_data":${document},`), `${what}: the document is returned unchanged`)
  }
  await send(create, `{"a":${keys(100_000, short)},"current_data":{}}`, 201, 'keys next to the document')
  await send(create, keys(100_000, short), 422, 'keys instead of the document')
  await send(update, `{"a":${'['.repeat(500_000)}${']'.repeat(500_000)}}`, 422, 'levels without a document')
  for (const route of takers.filter(({ name }) => name.startsWith('sign') || name === 'refresh')) {
    const deep = `{"user":${'['.repeat(30_000)}${']'.repeat(30_000)}}`
    await send(route, deep, REFUSED[route.name] as number, '30,000 levels')
    const long = `{"user":{"email":"${'a'.repeat(60_000)}"}}`
    await send(route, long, refusalOf(route, long), 'a long address')
  }
})

t.test('only JSON in UTF-8 without a content encoding is accepted', async () => {
  const json = (more: string) => ({ 'Content-Type': `application/json${more}` })
  const types: [what: string, headers: Record<string, string>, accepted: boolean][] = [
    ['no type', {}, false],
    ['an empty type', { 'Content-Type': '' }, false],
    ['text', { 'Content-Type': 'text/plain' }, false],
    ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, false],
    ['a type similar to JSON', json('x'), false],
    ['two types', json(', text/plain'), false],
    ['two Content-Type headers', { ...json(''), 'content-type': 'application/json' }, false],
    ['nonsense', { 'Content-Type': ';;;' }, false],
    ['UTF-16', json('; charset=utf-16'), false],
    ['Latin 1', json('; charset="iso-8859-1"'), false],
    ['UTF-7', json(';charset=utf-7'), false],
    ['UTF-8', json('; charset=UTF-8'), true],
    ['a quoted charset', json('; charset="utf-8"'), true],
    ['another parameter', json('; profile="x"'), true],
    ['a type in capitals', { 'Content-Type': 'APPLICATION/JSON' }, true],
    ['gzip', { ...json(''), 'Content-Encoding': 'gzip' }, false],
    ['identity', { ...json(''), 'Content-Encoding': 'identity' }, true],
    ['two encodings', { ...json(''), 'Content-Encoding': 'identity, gzip' }, false]
  ]
  for (const route of takers) {
    for (const [what, headers, accepted] of types) {
      const status = !accepted ? 415 : route.name === 'update' ? 200 : REFUSED[route.name] as number
      await send(route, '{}', status, what, headers)
    }
  }
})
