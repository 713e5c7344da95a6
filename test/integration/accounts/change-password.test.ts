import { randomUUID } from 'node:crypto'
import argon2 from 'argon2'
import pg from 'pg'
import t from 'tap'
import { buildTestApp, createKey, PASSWORD, signIn, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'

const settings = await testSettings(t)
const app = await buildTestApp(t, { settings })
const replica = await buildTestApp(t, { settings })

const NEW = 'staple battery horse'
const change = async (account: Account, body: unknown, on = app) =>
  await on.inject({
    method: 'PUT',
    url: '/auth/password',
    headers: { ...account.headers, 'content-type': 'application/json' },
    payload: JSON.stringify(body)
  })
const valid = { current_password: PASSWORD, password: NEW, password_confirmation: NEW }
const status = async ({ headers }: Pick<Account, 'headers'>, url = '/auth/me') =>
  (await replica.inject({ url, headers })).statusCode

t.test('the new password replaces the old one, and only the session that changed it lives on', async (t) => {
  const owner = await signUp(app)
  const other = await signIn(app, owner)
  const key = await createKey(app, owner, ['pages:read'])
  t.equal(await status(key, '/manage/landing_pages'), 200)
  const response = await change(owner, valid)
  t.equal(response.statusCode, 204)
  t.equal(response.body, '')
  t.equal(await signInStatus(app, owner.user.email, PASSWORD), 401)
  t.equal(await signInStatus(app, owner.user.email, NEW), 200)
  t.equal(await status(owner), 200)
  t.equal(await status(other), 401)
  t.equal(await status(key, '/manage/landing_pages'), 401, 'keys are deleted')
  const refreshed = await app.inject({
    method: 'POST',
    url: '/auth/refresh',
    payload: { refresh_token: owner.refresh_token }
  })
  t.equal(refreshed.statusCode, 200)
})

t.test('every broken rule of the new password is reported, and nothing changes', async (t) => {
  const owner = await signUp(app)
  const { email } = owner.user
  const cases: [string, unknown, string[]][] = [
    ['nothing', {}, [
      "Current password can't be blank",
      "Password can't be blank",
      "Password confirmation can't be blank"
    ]],
    ['too short and another one', { ...valid, password: 'short', password_confirmation: 'other' }, [
      'Password is too short (minimum is 8 characters)',
      "Password confirmation doesn't match Password"
    ]],
    ['the email', { ...valid, password: email, password_confirmation: email }, [
      "Password can't be the same as the email"
    ]],
    ['a common one', { ...valid, password: 'password1', password_confirmation: 'password1' }, [
      'Password is too common'
    ]],
    ['a wrong current one', { ...valid, current_password: 'something else' }, ['Current password is wrong']],
    ['a wrong current one and a bad new one', {
      current_password: 'something else',
      password: 'short',
      password_confirmation: 'other'
    }, [
      'Current password is wrong',
      'Password is too short (minimum is 8 characters)',
      "Password confirmation doesn't match Password"
    ]],
    ['a wrong type', { ...valid, current_password: 1 }, ['Current password must be a string']]
  ]
  for (const [name, body, errors] of cases) {
    const response = await change(owner, body)
    t.equal(response.statusCode, 422, name)
    t.same(response.json(), { errors }, name)
  }
  t.equal(await signInStatus(app, owner.user.email, PASSWORD), 200)
  t.equal((await change(owner, [])).statusCode, 422)
})

t.test('wrong current passwords count as failed sign-ins', async (t) => {
  const owner = await signUp(app)
  for (let n = 0; n < 10; n++) {
    t.equal((await change(owner, { ...valid, current_password: `wrong ${n}` })).statusCode, 422)
  }
  const response = await change(owner, valid)
  t.equal(response.statusCode, 429)
  t.ok(Number(response.headers['retry-after']) > 0)
  t.equal(await signInStatus(app, owner.user.email, PASSWORD), 429)
})

t.test('whatever else is wrong, only wrong current passwords count as failed sign-ins', async (t) => {
  const owner = await signUp(app)
  const bad = { ...valid, password: 'short' }
  for (let n = 0; n < 11; n++) t.equal((await change(owner, bad)).statusCode, 422)
  const verified = t.capture(argon2, 'verify', argon2.verify)
  t.equal((await change(owner, { ...bad, current_password: '' })).statusCode, 422)
  t.equal(verified().length, 0, 'nothing is compared when the current password is missing')
  for (let n = 0; n < 10; n++) {
    t.equal((await change(owner, { ...bad, current_password: `wrong ${n}` })).statusCode, 422)
  }
  t.equal((await change(owner, bad)).statusCode, 429)
  t.equal(verified().length, 10)
})

t.test('of two changes at once, one wins', async (t) => {
  const owner = await signUp(app)
  const passwords = ['first new password', 'second new password']
  const statuses = (await Promise
    .all(passwords.map(async (password, n) =>
      await change(owner, { ...valid, password, password_confirmation: password }, n === 0 ? app : replica)
    ))).map(({ statusCode }) => statusCode)
  t.same([...statuses].sort(), [204, 422])
  t.equal(await signInStatus(app, owner.user.email, passwords[statuses.indexOf(204)] as string), 200)
})

t.test('a session that starts with the old password during the change ends, too', async (t) => {
  const owner = await signUp(app)
  const signIn = new pg.Client({ connectionString: settings.DATABASE_URL })
  await signIn.connect()
  t.teardown(async () => await signIn.end())
  // What the statement of a sign-in does, while it lasts.
  await signIn.query('BEGIN')
  await signIn.query('SELECT id FROM users WHERE id = $1 FOR SHARE', [owner.user.id])
  const id = randomUUID()
  await signIn.query(
    "INSERT INTO sessions (id, user_id, expires_at) VALUES ($1, $2, now() + interval '1 day')",
    [
      id,
      owner.user.id
    ]
  )
  const changed = change(owner, valid)
  await until(async () => {
    const [row] = await app.database.$queryRaw<{ waiting: number }[]>`
      SELECT count(*)::integer AS waiting FROM pg_locks WHERE NOT granted`
    return (row?.waiting ?? 0) > 0
  })
  await signIn.query('COMMIT')
  t.equal((await changed).statusCode, 204)
  t.ok((await app.database.session.findUnique({ where: { id } }))?.revokedAt)
  t.equal(await status(owner), 200)
})
