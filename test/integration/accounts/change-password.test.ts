import { randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, createKey, NOBODY, PASSWORD, sendAs, signIn, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'

const settings = await testSettings(t)
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)

const NEW = 'staple battery horse'
const change = async (account: Account, body: object, on = app) =>
  await sendAs(on, account, 'PUT', '/auth/password', body)
const valid = { current_password: PASSWORD, password: NEW, password_confirmation: NEW }
const status = async ({ headers }: Pick<Account, 'headers'>, url = '/auth/me') =>
  (await replica.inject({ url, headers })).statusCode

t.test('a new password replaces the old one and ends other sessions', async (t) => {
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
  const token = { refresh_token: owner.refresh_token }
  t.equal((await sendAs(app, NOBODY, 'POST', '/auth/refresh', token)).statusCode, 200)
})

t.test('every broken rule of a new password is reported', async (t) => {
  const owner = await signUp(app)
  const { email } = owner.user
  const wrong = 'Current password is wrong'
  const short = 'Password is too short (minimum is 8 characters)'
  const unlike = "Password confirmation doesn't match Password"
  const bad = { password: 'short', password_confirmation: 'other' }
  const of = (password: string) => ({ ...valid, password, password_confirmation: password })
  const cases: [string, object, ...errors: string[]][] = [
    ['too short and another one', { ...valid, ...bad }, short, unlike],
    ['the email', of(email), "Password can't be the same as the email"],
    ['a common one', of('password1'), 'Password is too common'],
    ['a wrong current one', { ...valid, current_password: 'something else' }, wrong],
    ['a wrong current one and a bad new one', { ...bad, current_password: 'x' }, wrong, short, unlike]
  ]
  for (const [name, body, ...errors] of cases) {
    const response = await change(owner, body)
    t.equal(response.statusCode, 422, name)
    t.same(response.json(), { errors }, name)
  }
  t.equal(await signInStatus(app, owner.user.email, PASSWORD), 200)
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

t.test('a session begun with the old password during the change ends', async (t) => {
  const owner = await signUp(app)
  const url = settings.DATABASE_URL as string
  // What the statement of a sign-in does, while it lasts.
  const { client } = await openTransaction(t, url)
  await client.query('SELECT id FROM users WHERE id = $1 FOR SHARE', [owner.user.id])
  const id = randomUUID()
  const insert = "INSERT INTO sessions (id, user_id, expires_at) VALUES ($1, $2, now() + interval '1 day')"
  await client.query(insert, [id, owner.user.id])
  const changed = change(owner, valid)
  await untilBlocked(url, 1)
  await client.query('COMMIT')
  t.equal((await changed).statusCode, 204)
  t.ok((await app.database.session.findUnique({ where: { id } }))?.revokedAt)
  t.equal(await status(owner), 200)
})
