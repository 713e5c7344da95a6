import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { secretsIn } from '../../helpers/secrets.ts'
import { createProxy, query, startPostgresServer, startRedisServer } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'

// The service prints no secret. `startService` applies the same check to the output of every service that
// tests start.

const JWT_SECRET = 'the key of the tokens of this test, long enough'
const TYPED = {
  'a password that was typed wrongly': 'mistyped horse battery',
  'a new password': 'brand-new staple 4711'
}
const DOCUMENT = 'what a page says'

async function raw (url: string, bytes: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.end(bytes))
  socket.resume().on('error', () => {})
  await once(socket, 'close')
}

t.test('no operation at LOG_LEVEL=trace prints a secret', async (t) => {
  const [postgres, redis] = await Promise.all([startPostgresServer(t), startRedisServer(t)])
  const [database, cache] = await Promise.all([createProxy(t, postgres.url), createProxy(t, redis.url)])
  const env = {
    DATABASE_URL: database.url,
    REDIS_URL: cache.url,
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    LOG_LEVEL: 'trace',
    LOG_PUBLIC_READS_SAMPLE: '1',
    DATABASE_TIMEOUT_MS: '500',
    CORS_ORIGINS: 'https://app.example.com'
  }
  const service = await startService(t, env)
  const { url } = service
  const secrets: Record<string, string> = { ...TYPED, 'a document': DOCUMENT }
  const typed = TYPED['a password that was typed wrongly']

  const owner = await Owner.signUp(url)
  secrets['an e-mail address'] = owner.email
  const keep = (what: string, token: string) => {
    secrets[what] = token
    return token
  }
  const access = keep('an access token', owner.accessToken)
  const refresh = keep('a refresh token', owner.refreshToken)
  const { 'a new password': newPassword } = TYPED
  const newUser = (email: string) => ({
    user: { email, password: newPassword, password_confirmation: newPassword }
  })
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) =>
    await call('POST', url + path, { json: body, headers })

  await post('/auth/sign_in', { user: { email: owner.email, password: PASSWORD } })
  t.equal((await post('/auth/sign_in', { user: { email: owner.email, password: typed } })).status, 401)
  await post('/auth/sign_up', newUser(owner.email))
  await post('/auth/sign_up', {
    user: { email: newPassword, password: typed, password_confirmation: PASSWORD }
  })
  await call('POST', `${url}/auth/sign_in`, { text: `{"user":{"password":"${typed}"` })
  await call('POST', `${url}/auth/sign_in`, { text: typed, headers: { 'content-type': 'text/plain' } })
  await call('POST', `${url}/auth/sign_in?password=${encodeURIComponent(typed)}`, { json: {} })
  const next = (await post('/auth/refresh', { refresh_token: refresh })).json()
  keep('the next access token', next.access_token)
  keep('the next refresh token', next.refresh_token)
  t.equal((await post('/auth/refresh', { refresh_token: refresh })).status, 401, 'a replay')
  await post('/auth/refresh', { refresh_token: `${refresh}x` })

  const authorizations = [
    `Bearer ${access}x`,
    `Bearer ${access.slice(0, -5)}`,
    `Token ${access}`,
    `Bearer ${access} ${access}`,
    `Bearer ${refresh}`,
    `Basic ${Buffer.from(`${owner.email}:${PASSWORD}`).toString('base64')}`,
    access
  ]
  for (const authorization of authorizations) {
    t.equal((await call('GET', `${url}/auth/me`, { headers: { authorization } })).status, 401)
    keep(`a header ${Object.keys(secrets).length}`, authorization.replace(/^\w+ /, ''))
  }
  const paths = [
    ...'/auth/me?access_token= /landing_pages/ /manage/landing_pages/'.split(' '),
    ...'/manage/landing_pages?cursor= /uploads/ /nothing/ /landing_pages/%zz'.split(' ')
  ]
  for (const path of paths) {
    await call('GET', `${url}${path}${access}`)
    await owner.call('GET', `${url}${path}${access}`, {
      headers: { cookie: `token=${access}`, referer: `${url}/?token=${refresh}` }
    })
  }
  for (const path of [`/${refresh}/${access}`, `/landing_pages/${'a'.repeat(22)}?email=${owner.email}`]) {
    t.equal((await call('GET', url + path)).status, 404)
  }
  await raw(url, `GET /auth/me?t=${access} HTTP/9.9\r\nAuthorization: Bearer ${access}\r\n\r\n`)
  await raw(
    url,
    `GET /auth/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${access}\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`
  )

  const page = await owner.createPage(url, `["${DOCUMENT}"]`)
  t.equal((await call('GET', `${url}/landing_pages/${page.public_id}`)).status, 200)
  t.equal((await owner.upload(url, Buffer.from(DOCUMENT))).status, 201)
  await call('POST', `${url}/assets`, {
    text: `--x\r\n${DOCUMENT}`,
    headers: { authorization: `Bearer ${access}`, 'content-type': 'multipart/form-data; boundary=x' }
  })

  const newKey = { name: 'a program', scopes: ['pages:read'], current_password: PASSWORD }
  const created = await owner.call('POST', `${url}/api_keys`, { json: newKey })
  const key = keep('an API key', (JSON.parse(created.text) as { key: string }).key)
  const requests = [
    ['GET', '/manage/landing_pages'],
    ['POST', '/assets'],
    ['GET', '/auth/me'],
    ['GET', `/api_keys/${key}`],
    ['GET', `/assets?key=${key}`]
  ] as const
  for (const [method, path] of requests) {
    await call(method, url + path, { headers: { authorization: `Bearer ${key}` } })
  }
  await call('GET', `${url}/assets`, { headers: { authorization: `Bearer ${key}x` } })
  const change = { current_password: typed, password: newPassword, password_confirmation: newPassword }
  t.equal((await owner.call('PUT', `${url}/auth/password`, { json: change })).status, 422)
  t.equal((await owner.call('GET', `${url}/auth/sessions`)).status, 200)

  // PostgreSQL quotes a row that violates a constraint.
  const alterTables = async (how: string) => {
    for (const table of ['users', 'refresh_tokens', 'api_keys', 'landing_pages', 'assets']) {
      await query(postgres.url, `ALTER TABLE ${table} ${how}`)
    }
  }
  await alterTables('ADD CONSTRAINT refused CHECK (false) NOT VALID')
  const fails = async (what: string, response: Promise<{ status: number }>) =>
    t.equal((await response).status, 500, what)
  const signIn = async () => await post('/auth/sign_in', { user: { email: owner.email, password: PASSWORD } })
  await fails('a sign-up', post('/auth/sign_up', newUser('new@example.com')))
  await fails('a sign-in', signIn())
  await fails('a refresh', post('/auth/refresh', { refresh_token: next.refresh_token }))
  await fails(
    'a page',
    owner.call('POST', `${url}/landing_pages`, { text: `{"current_data":["${DOCUMENT}"]}` })
  )
  await fails('a key', owner.call('POST', `${url}/api_keys`, { json: newKey }))
  await fails('an update', owner.update(url, page.id, `["${DOCUMENT}!"]`))
  await fails('an upload', owner.upload(url, Buffer.from(DOCUMENT)))
  await alterTables('DROP CONSTRAINT refused')
  await query(postgres.url, "UPDATE users SET password_hash = '$argon2id$not a hash'")
  await signIn()
  await query(postgres.url, 'ALTER TABLE users RENAME COLUMN password_hash TO something_else')
  await fails('a column that is gone', signIn())
  await query(postgres.url, 'ALTER TABLE users RENAME COLUMN something_else TO password_hash')

  for (const proxy of [cache, database]) {
    for (const broken of ['refused', 'silent']) {
      if (broken === 'refused') await proxy.refuse()
      else proxy.blackhole()
      await signIn()
      await post('/auth/refresh', { refresh_token: `${refresh}x` })
      await owner.call('GET', `${url}/auth/me`)
      await owner.update(url, page.id, `["${DOCUMENT}?"]`)
      await call('GET', `${url}/landing_pages/${page.public_id}`)
      await proxy.restore()
      while ((await call('GET', `${url}/health/ready`)).text.match(/"database":"ok","redis":"ok"/) === null) {
        await sleep(50)
      }
    }
  }
  t.equal(
    (await owner.call('DELETE', `${url}/auth/sign_out`, { json: { refresh_token: next.refresh_token } }))
      .status,
    204
  )
  t.equal(await service.end('SIGTERM'), 0)

  const printed = service.output()
  const lines = [
    '"route":"/auth/sign_in","path":"/auth/sign_in","status":401',
    '"msg":"request refused"',
    '"msg":"request failed"',
    'violates check constraint',
    '"msg":"request could not be served"',
    '"msg":"Redis is unavailable',
    '"status":503'
  ]
  for (const line of lines) {
    t.ok(printed.includes(line), `the output has ${line}`)
  }
  t.match(
    printed,
    /"route":"\/auth\/me","path":"\/auth\/me","status":200,"ms":[\d.]+,"bytes":\d+,"address":"127\.0\.0\.1","user":\d+/,
    'the log has user, route and address'
  )
  t.same(secretsIn(printed, env, secrets), [])
})
