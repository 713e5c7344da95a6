import t from 'tap'
import { buildTestApp, createKey, NOBODY, PASSWORD, sendAs, signIn, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { countStatements } from '../../helpers/statements.ts'

const settings = await testSettings(t)
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)

interface Listed {
  readonly id: string
  readonly created_at: string
  readonly last_used_at: string | null
  readonly user_agent: string | null
  readonly address: string
  readonly current: boolean
}

const listed = async ({ headers }: Pick<Account, 'headers'>, more = {}): Promise<Listed[]> =>
  (await app.inject({ url: '/auth/sessions', headers: { ...headers, ...more } })).json()
const end = async (account: Account, path = '') =>
  await sendAs(app, account, 'DELETE', `/auth/sessions${path}`)
/** Tries to refresh a session on the other replica. */
const refresh = async ({ refresh_token: token }: Account) =>
  (await sendAs(replica, NOBODY, 'POST', '/auth/refresh', { refresh_token: token })).statusCode
const status = async ({ headers }: Account, on = replica) =>
  (await on.inject({ url: '/auth/me', headers })).statusCode

t.test('the list shows each session once, newest first, and which one asks', async (t) => {
  const first = await signUp(app)
  const tablet = { 'user-agent': 'a tablet' }
  const second = await signIn(app, first, { remoteAddress: '203.0.113.7', headers: tablet })
  const before = Date.now()
  const [newest, oldest, ...others] = await listed(first, { 'user-agent': 'a laptop' })
  t.same(others, [])
  t.match(newest, { user_agent: 'a tablet', address: '203.0.113.7', last_used_at: null, current: false })
  t.match(oldest, { user_agent: 'a laptop', address: '127.0.0.1', current: true })
  t.same(Object.keys(newest!).sort(), 'address created_at current id last_used_at user_agent'.split(' '))
  const lastUsed = oldest?.last_used_at ?? ''
  t.match(lastUsed, /:00\.000Z$/, 'to the minute')
  t.ok(Math.abs(Date.parse(lastUsed) - before) < 2 * 60_000)
  t.same((await listed(second)).map(({ current }) => current), [true, false])
})

/** Lets the next request be the first one of a minute. */
const endMinute = async ({ user }: Account) =>
  await app.database.$executeRaw`
    UPDATE sessions SET last_used_at = last_used_at - interval '1 minute' WHERE user_id = ${user.id}`

t.test('the list shows from where the session was used in its last minute, or refreshed', async (t) => {
  const owner = await signUp(app)
  const other = await signIn(app, owner)
  const use = async (remoteAddress: string) =>
    await replica.inject({
      url: '/auth/me',
      headers: { ...other.headers, 'user-agent': 'a phone' },
      remoteAddress
    })
  await use('203.0.113.1')
  t.match((await listed(owner))[0], { address: '203.0.113.1', user_agent: 'a phone' })
  await endMinute(owner)
  await use('203.0.113.2')
  t.match((await listed(owner))[0], { address: '203.0.113.2', user_agent: 'a phone' })
  t.equal(await refresh(other), 200)
  t.match((await listed(owner))[0], { address: '127.0.0.1' })

  await endMinute(owner)
  const long = { 'user-agent': 'x'.repeat(300) }
  t.equal((await listed(owner, long)).at(-1)?.user_agent, 'x'.repeat(256), 'cut')
  await endMinute(owner)
  t.equal((await listed(owner, { 'user-agent': undefined })).at(-1)?.user_agent, null)
})

t.test('using a session or a key writes at most once a minute, from however many addresses', async (t) => {
  const counted = await countStatements(t)
  const app = await buildTestApp(t, counted.settings)
  const owner = await signUp(app)
  const key = await createKey(app, owner, ['pages:read'])
  for (const [table, { headers }] of [['sessions', owner], ['api_keys', key]] as const) {
    const use = async (n: number) =>
      await app.inject({
        url: '/manage/landing_pages',
        headers: { ...headers, 'user-agent': `browser ${n}` },
        remoteAddress: `203.0.113.${n}`
      })
    const updatesOf = async (uses: number) =>
      (await counted.during(async () => {
        for (let n = 0; n < uses; n++) await use(n)
      })).filter((statement) => statement.includes('UPDATE')).length
    await use(0)
    t.ok(await updatesOf(20) <= 1, 'the minute may end in between')
    await app.database.$executeRawUnsafe(`UPDATE ${table} SET last_used_at = now() - interval '1 minute'`)
    t.equal(await updatesOf(1), 1, table)
  }
})

t.test('ending a session refuses it alone, at once on every replica', async (t) => {
  const owner = await signUp(app)
  const other = await signIn(app, owner)
  const third = await signIn(app, owner)
  t.equal(await status(other), 200)
  const [, { id }] = await listed(owner) as [Listed, Listed]
  const response = await end(owner, `/${id}`)
  t.equal(response.statusCode, 204)
  t.equal(response.body, '')
  t.equal(await status(other), 401)
  t.equal(await refresh(other), 401)
  t.equal(await status(owner), 200)
  t.equal(await status(third), 200)
  t.equal((await end(owner, `/${id}`)).statusCode, 404, 'it has ended')
  t.same((await listed(owner)).map((session) => session.id).includes(id), false)
})

t.test('a session may end itself, or all others at once', async (t) => {
  const owner = await signUp(app)
  const others = [await signIn(app, owner), await signIn(app, owner)]
  t.equal((await end(owner)).statusCode, 204)
  for (const other of others) t.equal(await status(other), 401)
  t.equal(await status(owner), 200)
  const [{ id, current }, ...left] = await listed(owner) as [Listed]
  t.same([current, left], [true, []])
  t.equal((await end(owner)).statusCode, 204, 'also when there is no other')
  t.equal((await end(owner, `/${id.toUpperCase()}`)).statusCode, 204)
  t.equal(await status(owner), 401)
})

t.test('sessions that can not be used any more are not listed', async (t) => {
  const owner = await signUp(app)
  const [signedOut, expired, unrefreshable] = [
    await signIn(app, owner),
    await signIn(app, owner),
    await signIn(app, owner)
  ]
  const token = { refresh_token: signedOut.refresh_token }
  await sendAs(app, signedOut, 'DELETE', '/auth/sign_out', token)
  const ids = (await listed(owner)).map(({ id }) => id)
  t.equal(ids.length, 3)
  await app.database.session.update({ where: { id: ids[1]! }, data: { expiresAt: new Date(0) } })
  await app.database.refreshToken.updateMany({
    where: { sessionId: ids[0]! },
    data: { expiresAt: new Date(0) }
  })
  t.same((await listed(owner)).map(({ current }) => current), [true])
  t.equal(await status(expired), 401)
  t.equal((await listed(unrefreshable)).length, 2, 'the bearer sees its own session')
})

t.test('a session that ends while its password is compared changes nothing', async (t) => {
  const password = 'staple battery horse'
  const requests = [
    ['PUT', '/auth/password', { current_password: PASSWORD, password, password_confirmation: password }],
    ['POST', '/api_keys', { current_password: PASSWORD, name: 'x', scopes: ['pages:read'] }],
    ['DELETE', '/auth/me', { password: PASSWORD }]
  ] as const
  for (const [method, url, payload] of requests) {
    const owner = await signUp(app)
    const stolen = await signIn(app, owner)
    const { passwords } = app
    const verify = passwords.verify.bind(passwords)
    // As if many sign-ins were waiting for the comparison.
    passwords.verify = async (...given) => {
      await end(owner)
      return await verify(...given)
    }
    const response = await sendAs(app, stolen, method, url, payload)
    passwords.verify = verify
    t.equal(response.statusCode, 401, `${method} ${url}`)
    t.equal(await status(owner), 200)
    t.equal(await app.database.apiKey.count({ where: { userId: owner.user.id } }), 0)
    await signIn(app, owner)
  }
})
