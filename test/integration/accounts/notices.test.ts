import t from 'tap'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, createKey, PASSWORD, sendAs, signUp } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { until } from '../../helpers/until.ts'

// Mails that tell users what has happened to their accounts.

const mail = await startMailServer(t)
const mailsAbout = (email: string, subject: string) =>
  mail.mails.filter(({ to, headers }) => to.includes(email) && headers.subject === subject)
const mailAbout = async (email: string, subject: string) =>
  await until(() => mailsAbout(email, subject)[0], subject)
const app = await buildTestApp(t, mail.settings)

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
  await until(async () => await app.database.mail.count({ where: { recipient: owner.user.email } }) === 0)
  t.equal(received(), 10)
  await sendAs(app, owner, 'DELETE', '/auth/me', { password: PASSWORD })
  t.ok(await mailAbout(owner.user.email, 'Your account was deleted'))
})

t.test('flooding an address with links: the limit outlives the account', async (t) => {
  let account = await signUp(app)
  const { email } = account.user
  const ask = async () =>
    await app.inject({ method: 'POST', url: '/auth/password_resets', payload: { email } })
  const received = () => mailsAbout(email, 'Reset your password').length
  await ask()
  await until(() => received() === 1)
  for (let round = 0; round < 3; round++) {
    await sendAs(app, account, 'DELETE', '/auth/me', { password: PASSWORD })
    account = await signUp(app, email)
    await ask()
    await until(async () => await app.database.mail.count({ where: { recipient: email } }) === 0)
  }
  t.equal(received(), 3)
})
