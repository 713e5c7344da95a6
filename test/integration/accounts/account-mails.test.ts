import t from 'tap'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, createKey, NOBODY, PASSWORD, sendAs, signIn, signInStatus, signUp,
  testSettings } from '../../helpers/app.ts'
import { startMailServer, tokenIn } from '../../helpers/mail-server.ts'
import { until } from '../../helpers/until.ts'

// Mails to users: links that reset the password or confirm the address, and notices of what has happened.

const NEW_PASSWORD = 'a brand-new staple'
const INVALID_LINK = { errors: ['Link is invalid or has expired: ask for a new one'] }

const mail = await startMailServer(t)
const app = await buildTestApp(t, {
  ...await testSettings(t),
  ...mail.settings,
  PASSWORD_RESETS_PER_ADDRESS: '1000',
  SIGN_IN_FAILURES_PER_ACCOUNT: '2'
})

const mailsAbout = (email: string, subject: string) =>
  mail.mails.filter(({ to, headers }) => to.includes(email) && headers.subject === subject)
const mailAbout = async (email: string, subject: string) =>
  await until(() => mailsAbout(email, subject)[0], subject)
const resetsTo = (email: string) => mailsAbout(email, 'Reset your password')
/** The number of mails to an address that wait to be sent, of one kind or of all. */
const countWaiting = async (recipient: string, kind?: string) =>
  await app.database.mail.count({ where: { recipient, ...kind && { kind } } })
const me = async (headers: Readonly<Record<string, string>>) => await app.inject({ url: '/auth/me', headers })

const sendReset = async (method: 'POST' | 'PUT', payload: object) =>
  await sendAs(app, NOBODY, method, '/auth/password_resets', payload)
const askForReset = async (email: string) => await sendReset('POST', { email })
const reset = async (token: unknown, password = NEW_PASSWORD) =>
  await sendReset('PUT', { token, password, password_confirmation: password })
/** Asks for a reset whose mail waits. */
async function askForLaterReset (email: string): Promise<void> {
  await app.database.$executeRaw`ALTER TABLE mails ALTER COLUMN due_at SET DEFAULT now() + interval '1 hour'`
  await askForReset(email)
  await app.database.$executeRaw`ALTER TABLE mails ALTER COLUMN due_at SET DEFAULT now()`
}
async function sendWaiting (): Promise<void> {
  await app.database.$executeRaw`UPDATE mails SET due_at = now()`
  app.wakeMailSender()
}
async function askForToken (email: string): Promise<string> {
  const before = resetsTo(email).length
  if ((await askForReset(email)).statusCode !== 202) throw new Error('not accepted')
  return tokenIn(await until(() => resetsTo(email)[before], 'a link'))
}

const askToConfirm = async (headers: { authorization: string }) =>
  await app.inject({ method: 'POST', url: '/auth/email_confirmations', headers })
const confirm = async (token: string, headers: Readonly<Record<string, string>> = {}) =>
  (await sendAs(app, { headers }, 'PUT', '/auth/email_confirmations', { token })).statusCode

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

t.test('replay: only one of several uses of a link succeeds', async (t) => {
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
  const broken = await sendReset('PUT', { token: 'x', password: 'short', password_confirmation: 'other' })
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
  const find = async () =>
    await app.database.mailLink.findUniqueOrThrow({
      where: { userId_kind: { userId, kind: 'password_reset' } }
    })
  await askForLaterReset(email)
  t.equal((await find()).tokenHash, null, 'the token is made when the mail is sent')
  await sendWaiting()
  const token = tokenIn(await until(() => resetsTo(email)[0], 'a link'))
  t.equal(Buffer.from(token, 'base64url').length, 32)
  const link = await find()
  const minutes = (Number(link.expiresAt) - Date.now()) / 60_000
  t.ok(minutes > 58 && minutes < 61)
  t.equal(link.tokenHash?.length, 32)
  t.notOk(Buffer.from(link.tokenHash ?? []).includes(token))
})

t.test('flooding one address: three mails an hour, the last link works', async (t) => {
  const { user: { email } } = await signUp(app)
  const tokens: string[] = []
  for (let n = 0; n < 3; n++) tokens.push(await askForToken(email))
  for (let n = 0; n < 3; n++) t.equal((await askForReset(email)).statusCode, 202)
  t.equal(await countWaiting(email), 0, 'nothing waits')
  t.equal(resetsTo(email).length, 3)
  t.equal(await signInStatus(app, email, PASSWORD), 200, 'no request locks the account')
  t.same((await reset(tokens[1])).json(), INVALID_LINK, 'a newer link ends the older one')
  t.equal((await reset(tokens[2])).statusCode, 204)
})

t.test('a change of the password ends a link, also one that has not been sent', async (t) => {
  const { user: { email }, headers } = await signUp(app)
  const token = await askForToken(email)
  await askForLaterReset(email)
  const payload = { current_password: PASSWORD, password: NEW_PASSWORD, password_confirmation: NEW_PASSWORD }
  await sendAs(app, { headers }, 'PUT', '/auth/password', payload)
  t.same((await reset(token)).json(), INVALID_LINK)
  t.equal(await countWaiting(email, 'password_reset'), 1)
  await sendWaiting()
  await until(async () => await countWaiting(email, 'password_reset') === 0)
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

t.test('sign-up mails a link that confirms the address', async (t) => {
  const { user, headers } = await signUp(app)
  t.match(user, { email_confirmed_at: null })
  const token = await mail.linkTo(user.email)
  t.match(
    mailsAbout(user.email, 'Confirm your email address')[0]?.text,
    `http://landfall.test/account/confirm-email#token=${token}`
  )
  t.equal(await confirm(token, headers), 204)
  const { email_confirmed_at: at } = (await me(headers)).json().user
  t.match(at, /^\d{4}-\d\d-\d\dT.*Z$/)
  t.equal((await signIn(app, { user })).user.email_confirmed_at, at)
})

t.test('a link confirms once, also if it is used several times at once', async (t) => {
  const { user, headers } = await signUp(app)
  const token = await mail.linkTo(user.email)
  const statuses = await Promise.all([1, 2, 3].map(async () => await confirm(token, headers)))
  t.same(statuses.toSorted(), [204, 422, 422])
  const response = await sendAs(app, NOBODY, 'PUT', '/auth/email_confirmations', { token })
  t.same(response.json(), INVALID_LINK)
})

t.test('who signed up with a foreign address keeps no session and no key', async (t) => {
  const { user, headers } = await signUp(app)
  const key = await createKey(app, { headers }, ['pages:read'])
  const { headers: confirming } = await signIn(app, { user })
  t.equal(await confirm(await mail.linkTo(user.email), confirming), 204)
  t.equal((await me(headers)).statusCode, 401)
  t.equal((await me(confirming)).statusCode, 200, 'the session that confirms stays')
  t.equal((await app.inject({ url: '/manage/landing_pages', headers: key.headers })).statusCode, 401)
})

t.test('an invalid access token or an API key is a 401 and leaves the link usable', async (t) => {
  const { user, headers } = await signUp(app)
  const key = await createKey(app, { headers }, ['pages:read'])
  const token = await mail.linkTo(user.email)
  for (
    const authorization of ['Bearer x', '', 'Basic x', key.headers.authorization, `${headers.authorization}x`]
  ) {
    t.equal(await confirm(token, { authorization }), 401, authorization)
  }
  t.equal(await confirm(token, headers), 204)
})

t.test('without a session of the account a link confirms, too, and ends all sessions', async (t) => {
  for (const sender of [NOBODY, await signUp(app)]) {
    const { user, headers } = await signUp(app)
    t.equal(await confirm(await mail.linkTo(user.email), sender.headers), 204)
    t.equal((await me(headers)).statusCode, 401)
    if (sender !== NOBODY) t.equal((await me(sender.headers)).json().user.email_confirmed_at, null)
  }
})

t.test('another link replaces the first; three are sent in an hour', async (t) => {
  const { user, headers } = await signUp(app)
  const first = await mail.linkTo(user.email)
  for (let n = 2; n <= 3; n++) {
    const response = await askToConfirm(headers)
    t.equal(response.statusCode, 202)
    t.equal(response.body, '')
    await mail.mailTo(user.email, n)
  }
  t.equal((await askToConfirm(headers)).statusCode, 202)
  t.equal(await countWaiting(user.email), 0)
  t.equal(await confirm(first), 422)
  t.equal(await confirm(await mail.linkTo(user.email, 3), headers), 204)
})

t.test('no link is sent for an address that is confirmed', async (t) => {
  const { user, headers } = await signUp(app)
  await confirm(await mail.linkTo(user.email), headers)
  t.equal((await askToConfirm(headers)).statusCode, 202)
  t.equal(await countWaiting(user.email), 0)
  t.equal((await askToConfirm({ authorization: 'Bearer x' })).statusCode, 401)
})

t.test('a mail tells the user about a new API key, without the key', async (t) => {
  const owner = await signUp(app)
  const { key } = await createKey(app, owner, ['pages:read', 'assets:write'], {
    name: 'Your account is locked: http://evil.example/',
    expires_at: '2999-01-31T08:00:00Z'
  })
  const { text } = await mailAbout(owner.user.email, 'A new API key was created')
  for (const words of ['pages:read, assets:write', '31 January 2999']) {
    t.ok(text.includes(words), words)
  }
  t.notMatch(text, key.slice(3))
  t.notMatch(text, /evil/, 'nobody can use the name to write to the owner of an address')
})

t.test('a mail tells the user about a new password, without the password', async (t) => {
  const [owner, other] = [await signUp(app), await signUp(app)]
  const password = 'staple battery horse'
  const change = { current_password: PASSWORD, password, password_confirmation: password }
  t.equal((await sendAs(app, owner, 'PUT', '/auth/password', change)).statusCode, 204)
  // As the command line does.
  const newPasswordHash = await app.passwords.hash(password)
  await setPassword(app.database, operatorOf(other.user.email), { newPasswordHash, hasMail: true })
  for (const { user } of [owner, other]) {
    const { text } = await mailAbout(user.email, 'Your password was changed')
    t.notMatch(text, password)
  }
})

t.test('flooding an address with notices: ten of a kind in an hour, and the other kinds still arrive', async (t) => {
  const owner = await signUp(app)
  for (let n = 0; n < 13; n++) {
    const { id } = await createKey(app, owner, ['pages:read'])
    await sendAs(app, owner, 'DELETE', `/api_keys/${id}`)
  }
  const received = () => mailsAbout(owner.user.email, 'A new API key was created').length
  await until(() => received() === 10)
  await until(async () => await countWaiting(owner.user.email) === 0)
  t.equal(received(), 10)
  await sendAs(app, owner, 'DELETE', '/auth/me', { password: PASSWORD })
  t.ok(await mailAbout(owner.user.email, 'Your account was deleted'))
})

t.test('flooding an address with links: the limit outlives the account', async (t) => {
  let account = await signUp(app)
  const { email } = account.user
  const received = () => resetsTo(email).length
  await askForReset(email)
  await until(() => received() === 1)
  for (let round = 0; round < 3; round++) {
    await sendAs(app, account, 'DELETE', '/auth/me', { password: PASSWORD })
    account = await signUp(app, email)
    await askForReset(email)
    await until(async () => await countWaiting(email) === 0)
  }
  t.equal(received(), 3)
})
