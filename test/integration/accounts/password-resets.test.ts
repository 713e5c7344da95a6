import t from 'tap'
import { buildTestApp, createKey, NOBODY, PASSWORD, sendAs, signInStatus, signUp,
  testSettings } from '../../helpers/app.ts'
import { startMailServer, tokenIn } from '../../helpers/mail-server.ts'
import { until } from '../../helpers/until.ts'

// Resetting a password with a mailed link.

const NEW_PASSWORD = 'a brand-new staple'
const INVALID_LINK = { errors: ['Link is invalid or has expired: ask for a new one'] }

const mail = await startMailServer(t)
const settings: Record<string, string> = {
  ...await testSettings(t),
  ...mail.settings,
  PASSWORD_RESETS_PER_ADDRESS: '1000',
  SIGN_IN_FAILURES_PER_ACCOUNT: '2'
}
const app = await buildTestApp(t, settings)

const send = async (method: 'POST' | 'PUT', payload: object) =>
  await sendAs(app, NOBODY, method, '/auth/password_resets', payload)
const ask = async (email: string) => await send('POST', { email })
const reset = async (token: unknown, password = NEW_PASSWORD) =>
  await send('PUT', { token, password, password_confirmation: password })
/** The mails to an address with a link that resets the password. */
const resetsTo = (email: string) =>
  mail.mails.filter(({ to, headers }) => to.includes(email) && headers.subject === 'Reset your password')
/** The number of such mails that wait to be sent. */
const countWaiting = async (email: string) =>
  await app.database.mail.count({ where: { recipient: email, kind: 'password_reset' } })

async function askForToken (email: string): Promise<string> {
  const before = resetsTo(email).length
  if ((await ask(email)).statusCode !== 202) throw new Error('not accepted')
  return tokenIn(await until(() => resetsTo(email)[before], 'a link'))
}

t.test('a reset ends sessions and keys, and confirms the address', async (t) => {
  const { user: { email }, headers } = await signUp(app)
  const confirmation = await mail.linkTo(email)
  const key = await createKey(app, { headers }, ['pages:read'])
  const token = await askForToken(email)
  t.match(resetsTo(email)[0]?.text, `http://landfall.test/account/reset-password#token=${token}`)

  const response = await reset(token)
  t.equal(response.statusCode, 204)
  t.equal(response.headers['cache-control'], 'no-store')
  t.equal(await signInStatus(app, email, PASSWORD), 401)
  t.equal((await app.inject({ url: '/auth/me', headers })).statusCode, 401)
  t.equal((await sendAs(app, key, 'GET', '/manage/landing_pages')).statusCode, 401)
  const user = { email, password: NEW_PASSWORD }
  const signedIn = await sendAs(app, NOBODY, 'POST', '/auth/sign_in', { user })
  t.match(signedIn.json(), { user: { email, email_confirmed_at: /^\d{4}-.*Z$/ } })
  const used = await sendAs(app, NOBODY, 'PUT', '/auth/email_confirmations', { token: confirmation })
  t.equal(used.statusCode, 422, 'the link that confirms the address has ended')
  await until(() =>
    mail.mails.some(({ to, headers }) => to[0] === email && headers.subject === 'Your password was changed')
  )
})

t.test('replay: one of several uses of a link succeeds', async (t) => {
  const { user: { email } } = await signUp(app)
  const token = await askForToken(email)
  const passwords = Array.from({ length: 4 }, (_, n) => `${NEW_PASSWORD} ${n}`)
  const statuses = await Promise.all(passwords.map(async (one) => (await reset(token, one)).statusCode))
  t.same(statuses.toSorted(), [204, 422, 422, 422])
  t.same((await reset(token, 'yet another staple')).json(), INVALID_LINK)
  t.equal(await signInStatus(app, email, passwords[statuses.indexOf(204)] as string), 200)
})

t.test('a refused password leaves the link usable', async (t) => {
  const { user: { email } } = await signUp(app)
  const token = await askForToken(email)
  t.same((await reset(token, email)).json(), { errors: ["Password can't be the same as the email"] })
  t.same((await reset(token, 'password')).json(), { errors: ['Password is too common'] })
  const broken = await send('PUT', { token: 'x', password: 'short', password_confirmation: 'other' })
  t.equal(broken.statusCode, 422)
  t.same(broken.json().errors.toSorted(), [
    ...INVALID_LINK.errors,
    "Password confirmation doesn't match Password",
    'Password is too short (minimum is 8 characters)'
  ])
  t.equal((await reset(token)).statusCode, 204)
})

t.test('an unknown, expired or malformed token, and one of another kind, is a 422', async (t) => {
  const { user: { email } } = await signUp(app)
  const confirmation = await mail.linkTo(email)
  for (const token of [confirmation, 'x', 'A'.repeat(43), 'A'.repeat(10_000), '\u0000', '\ud800']) {
    t.match(await reset(token), { statusCode: 422, body: JSON.stringify(INVALID_LINK) })
  }
  const token = await askForToken(email)
  await app.database.mailLink.updateMany({ data: { expiresAt: new Date() } })
  t.same((await reset(token)).json(), INVALID_LINK)
})

t.test('a link is valid for an hour, and stored as a hash', async (t) => {
  const { user: { email, id: userId } } = await signUp(app)
  const token = await askForToken(email)
  const link = await app.database.mailLink.findUniqueOrThrow({
    where: { userId_kind: { userId, kind: 'password_reset' } }
  })
  const minutes = (Number(link.expiresAt) - Date.now()) / 60_000
  t.ok(minutes > 58 && minutes < 61)
  t.equal(link.tokenHash?.length, 32)
  t.notOk(Buffer.from(link.tokenHash ?? []).includes(token))
})

t.test('flooding one address: three mails an hour, the last link works', async (t) => {
  const { user: { email } } = await signUp(app)
  const tokens: string[] = []
  for (let n = 0; n < 3; n++) tokens.push(await askForToken(email))
  for (let n = 0; n < 3; n++) t.equal((await ask(email)).statusCode, 202)
  t.equal(await countWaiting(email), 0, 'nothing waits')
  t.equal(resetsTo(email).length, 3)
  t.same((await reset(tokens[1])).json(), INVALID_LINK, 'a newer link ends the older one')
  t.equal((await reset(tokens[2])).statusCode, 204)
})

t.test('a change of the password ends a link, also one that has not been sent', async (t) => {
  const { user: { email }, headers } = await signUp(app)
  const token = await askForToken(email)
  // A mail that waits: with its link it would be sent after the change.
  await app.database.$executeRaw`ALTER TABLE mails ALTER COLUMN due_at SET DEFAULT now() + interval '1 hour'`
  await ask(email)
  await app.database.$executeRaw`ALTER TABLE mails ALTER COLUMN due_at SET DEFAULT now()`
  const payload = { current_password: PASSWORD, password: NEW_PASSWORD, password_confirmation: NEW_PASSWORD }
  await sendAs(app, { headers }, 'PUT', '/auth/password', payload)
  t.same((await reset(token)).json(), INVALID_LINK)
  t.equal(await countWaiting(email), 1)
  await app.database.$executeRaw`UPDATE mails SET due_at = now()`
  app.wakeMailSender()
  await until(async () => await countWaiting(email) === 0)
  t.equal(resetsTo(email).length, 1)
})

t.test('a reset clears the count of failed sign-ins of the account', async (t) => {
  const { user: { email } } = await signUp(app)
  for (let n = 0; n < 2; n++) t.equal(await signInStatus(app, email, 'wrong password'), 401)
  t.equal(await signInStatus(app, email, PASSWORD), 429)
  await reset(await askForToken(email))
  t.equal(await signInStatus(app, email, NEW_PASSWORD), 200)
})

t.test('without SMTP_URL the routes of links are 404 and not described', async (t) => {
  const app = await buildTestApp(t)
  const owner = await signUp(app)
  for (const method of ['POST', 'PUT'] as const) {
    for (const url of ['/auth/password_resets', '/auth/email_confirmations']) {
      t.equal((await sendAs(app, owner, method, url, { email: 'a@example.com' })).statusCode, 404)
    }
  }
  const { paths } = (await app.inject('/openapi.json')).json<{ paths: object }>()
  t.notMatch(Object.keys(paths).join(), /password_resets|email_confirmations/)
  t.equal(await app.database.mail.count(), 0)
})
