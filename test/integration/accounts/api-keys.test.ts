import { pino } from 'pino'
import t from 'tap'
import { sweepExpired } from '../../../src/modules/accounts/cleanup-repository.ts'
import { buildTestApp, createKey, createPage, PASSWORD, sendAs, signUp, testSettings, walkList,
  type Account } from '../../helpers/app.ts'

let log = ''
const logger = pino({ level: 'debug' }, {
  write (line: string) {
    log += line
  }
})
const settings = await testSettings(t)
const app = await buildTestApp(t, { ...settings, LOG_LEVEL: 'debug' }, logger)
const replica = await buildTestApp(t, settings)
const SCOPES = ['pages:read', 'pages:write', 'assets:read', 'assets:write']

const create = async (account: Pick<Account, 'headers'>, body: object, on = app) => {
  const whole = { name: 'a program', scopes: ['pages:read'], current_password: PASSWORD, ...body }
  return await sendAs(on, account, 'POST', '/api_keys', whole)
}
const get = async ({ headers }: Pick<Account, 'headers'>, url: string, on = app) =>
  await on.inject({ url, headers })

/** Adds 99 keys to an account. */
const addKeys = async ({ user }: Account) =>
  await app.database.$executeRaw`
    INSERT INTO api_keys (id, user_id, name, scopes, key_hash)
    SELECT gen_random_uuid(), ${user.id}, 'key ' || n, '{pages:read}', sha256((${user.email} || n)::bytea)
    FROM generate_series(1, 99) n`

interface Operation {
  readonly method: string
  readonly url: string
  readonly security: readonly Record<string, readonly string[]>[]
}
const operations: Operation[] = Object.entries((await app.inject('/openapi.json')).json().paths as Record<
  string,
  Record<string, Pick<Operation, 'security'>>
>).flatMap(([path, item]) =>
  Object.entries(item).map(([method, { security }]) => ({
    method: method.toUpperCase(),
    url: path.replaceAll(/\{\w+\}/g, '1'),
    security: security ?? []
  }))
)
const scopeOf = ({ security }: Operation): string | undefined =>
  security.flatMap(({ apiKey = [] }) => apiKey)[0]
const call = async ({ method, url }: Operation, authorization: string) =>
  await app.inject({ method: method as 'GET', url, headers: { authorization } })

t.test('a new key is shown once, with everything that describes it', async (t) => {
  const owner = await signUp(app)
  const response = await create(owner, {
    name: 'Nightly build ✓',
    scopes: ['assets:read', 'pages:read', 'assets:read'],
    expires_at: '2999-01-31T09:00:00+01:00'
  })
  t.equal(response.statusCode, 201)
  t.equal(response.headers['cache-control'], 'no-store')
  const { key, ...record } = response.json()
  t.match(key, /^lf_[0-9A-Za-z]{46}$/)
  t.match(record, {
    name: 'Nightly build ✓',
    scopes: ['assets:read', 'pages:read'],
    expires_at: '2999-01-31T08:00:00.000Z',
    last_used_at: null
  })
  t.equal(response.headers.location, `/api_keys/${record.id}`)
  t.same((await get(owner, `/api_keys/${record.id}`)).json(), record)
  t.same((await get(owner, '/api_keys')).json(), [record])
  const rows = await app.database.apiKey.findMany({ where: { id: record.id } })
  t.notMatch(JSON.stringify(rows), key.slice(3))
  t.notOk(Buffer.from(rows[0]!.keyHash).includes(key))
})

t.test('every broken rule of a new key is reported, and none is made', async (t) => {
  const owner = await signUp(app)
  const scopeRule = 'Scopes must be pages:read or drafts:write or pages:write or assets:read or assets:write'
  const blank = ["Name can't be blank", "Scopes can't be blank", "Current password can't be blank"]
  const badName = 'Name contains characters that are not valid'
  const expired = 'Expires at must be in the future'
  const wrong = { current_password: 'something else' }
  const past = { expires_at: '2020-01-01T00:00:00Z' }
  const all = { ...wrong, ...past, name: '', scopes: ['x'] }
  const cases: [string, object, ...errors: string[]][] = [
    ['everything missing', { name: undefined, scopes: undefined, current_password: undefined }, ...blank],
    ['nothing in it', { name: '', scopes: [], current_password: '' }, ...blank],
    ['a long name', { name: 'x'.repeat(101) }, 'Name is too long (maximum is 100 characters)'],
    ['a name with a line break', { name: 'a\r\nb' }, badName],
    ['a name with NUL', { name: 'a\0b' }, badName],
    ['an unknown scope', { scopes: ['pages:read', 'users:write', 'x'] }, scopeRule],
    ['no list of scopes', { scopes: 'pages:read' }, 'Scopes must be a JSON array'],
    ['no time', { expires_at: 'tomorrow' }, 'Expires at must be a time such as 2027-01-31T08:00:00Z'],
    ['the past', past, expired],
    ['a wrong password', wrong, 'Current password is wrong'],
    ['all of them at once', all, 'Current password is wrong', "Name can't be blank", scopeRule, expired]
  ]
  for (const [name, body, ...errors] of cases) {
    const response = await create(owner, body)
    t.equal(response.statusCode, 422, name)
    t.same(response.json(), { errors }, name)
  }
  t.same((await get(owner, '/api_keys')).json(), [])
  t.equal((await create(owner, { name: 'x'.repeat(100), expires_at: null })).statusCode, 201)
  t.equal((await create(owner, { name: '😀'.repeat(100) })).statusCode, 201, 'characters, not code units')
})

t.test('a key without the scope gets a 403 that names it', async (t) => {
  const owner = await signUp(app)
  for (const scope of SCOPES) {
    const without = await createKey(app, owner, SCOPES.filter((other) => other !== scope))
    const having = await createKey(app, owner, [scope])
    for (const operation of operations.filter((one) => scopeOf(one) === scope)) {
      const name = `${operation.method} ${operation.url}`
      const refused = await call(operation, without.headers.authorization)
      t.equal(refused.statusCode, 403, name)
      t.same(refused.json(), { errors: [`API key lacks the scope ${scope}`] }, name)
      const challenge = `Bearer error="insufficient_scope", scope="${scope}"`
      t.equal(refused.headers['www-authenticate'], challenge, name)
      t.notOk([401, 403].includes((await call(operation, having.headers.authorization)).statusCode), name)
    }
  }
})

t.test('a key is refused on accounts, sessions and keys, with all scopes', async (t) => {
  const owner = await signUp(app)
  const key = await createKey(app, owner, SCOPES)
  const forSessions = operations.filter(({ security }) =>
    security.some(({ bearer }) => bearer !== undefined) &&
    security.every(({ apiKey }) => apiKey === undefined)
  )
  t.ok(forSessions.length >= 10)
  for (const operation of forSessions) {
    const name = `${operation.method} ${operation.url}`
    const response = await call(operation, key.headers.authorization)
    t.equal(response.statusCode, 401, name)
    t.equal(response.headers['www-authenticate'], 'Bearer error="invalid_token"', name)
    t.same(response.json(), { errors: ['API keys are not accepted here, use an access token'] }, name)
  }
})

t.test("a key opens its owner's records only", async (t) => {
  const owner = await signUp(app)
  const stranger = await signUp(app)
  const { id } = await createPage(app, stranger)
  const key = await createKey(app, owner, SCOPES)
  t.equal((await get(key, `/manage/landing_pages/${id}`)).statusCode, 404)
  t.same((await get(key, '/manage/landing_pages')).json(), [])
  for (const method of ['GET', 'DELETE'] as const) {
    const response = await app.inject({ method, url: `/api_keys/${key.id}`, headers: stranger.headers })
    t.equal(response.statusCode, 404)
    t.same(response.json(), { errors: ['Not found'] })
  }
  t.same((await get(stranger, '/api_keys')).json(), [])
})

t.test('a deleted or expired key is refused at once on every replica; one that expired is still listed', async (t) => {
  const owner = await signUp(app)
  const [deleted, expired] = [await createKey(app, owner, SCOPES), await createKey(app, owner, SCOPES)]
  for (const key of [deleted, expired]) t.equal((await get(key, '/assets', replica)).statusCode, 200)
  t.equal((await sendAs(app, owner, 'DELETE', `/api_keys/${deleted.id}`)).statusCode, 204)
  await app.database.apiKey.update({
    where: { id: expired.id },
    data: { expiresAt: new Date(Date.now() - 1) }
  })
  for (const key of [deleted, expired]) {
    const refused = await get(key, '/assets', replica)
    t.equal(refused.statusCode, 401)
    t.equal(refused.headers['www-authenticate'], 'Bearer error="invalid_token"')
  }
  t.same((await get(owner, '/api_keys')).json().map(({ id }: { id: string }) => id), [expired.id])
})

t.test('what only looks like a key is a 401', async (t) => {
  const owner = await signUp(app)
  const { key } = await createKey(app, owner, SCOPES)
  const wrong = [
    key.slice(0, -1),
    `${key}A`,
    key.replace('lf_', 'LF_'),
    key.slice(3),
    `lf_${'0'.repeat(46)}`,
    `lf_${'A'.repeat(40)}000000`,
    'lf_',
    `${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`
  ]
  for (const token of wrong) {
    const response = await get({ headers: { authorization: `Bearer ${token}` } }, '/assets')
    t.equal(response.statusCode, 401, token)
    const says = token.startsWith('lf_') ? 'API key is mistyped, deleted or expired'
      : 'Missing or invalid access token'
    t.same(response.json(), { errors: [says] }, token)
    t.equal(response.headers['www-authenticate'], 'Bearer error="invalid_token"', token)
  }
})

t.test('the use of a key is noted to the minute', async (t) => {
  const owner = await signUp(app)
  const key = await createKey(app, owner, ['pages:read'])
  await get(key, '/manage/landing_pages', replica)
  const { last_used_at: lastUsedAt } = (await get(owner, `/api_keys/${key.id}`)).json()
  t.match(lastUsedAt, /:00\.000Z$/)
  t.ok(Math.abs(Date.parse(lastUsedAt) - Date.now()) < 2 * 60_000)
})

t.test('a key is removed 90 days after it has expired', async (t) => {
  const owner = await signUp(app)
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60 * 1000)
  const keys: string[] = []
  for (const expiresAt of [daysAgo(91), daysAgo(89), null]) {
    const { id } = await createKey(app, owner, ['pages:read'])
    await app.database.apiKey.update({ where: { id }, data: { expiresAt } })
    keys.push(id)
  }
  await sweepExpired(app.database)
  const [, expired, lasting] = keys
  t.same((await get(owner, '/api_keys')).json().map(({ id }: { id: string }) => id), [lasting, expired])
})

t.test('an account has at most 100 keys, and expired ones do not count', async (t) => {
  const owner = await signUp(app)
  const { id } = await createKey(app, owner, ['pages:read'], { expires_at: '2999-01-01T00:00:00Z' })
  await addKeys(owner)
  const response = await create(owner, {})
  t.equal(response.statusCode, 422)
  const full = 'An account can have 100 API keys: delete one that is not needed any more'
  t.same(response.json(), { errors: [full] })
  t.same((await create(owner, { name: '', current_password: 'something else' })).json(), {
    errors: ['Current password is wrong', "Name can't be blank", full]
  })
  await app.database.apiKey.update({ where: { id }, data: { expiresAt: new Date(0) } })
  const atOnce = await Promise.all([app, replica].map(async (one) => await create(owner, {}, one)))
  t.same(atOnce.map(({ statusCode }) => statusCode).sort(), [201, 422])
  t.same((await walkList(app, owner, '/api_keys?limit=100')).map((part) => part.length), [100, 1])
})

t.test('logs and metrics name the id of a key, never the key', async (t) => {
  const owner = await signUp(app)
  const { id, key, headers } = await createKey(app, owner, ['pages:read'])
  log = ''
  await get({ headers }, '/manage/landing_pages')
  await app.inject({ method: 'POST', url: '/landing_pages', headers })
  const metrics = await app.metrics.metrics()
  t.match(metrics, `landfall_api_key_requests_total{key="${id}"} 2`)
  t.match(log, `"key":"${id}"`)
  t.notMatch(log + metrics, key.slice(3))
})
