import t from 'tap'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, createKey, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { until } from '../../helpers/until.ts'

// Mails that tell users what has happened to their accounts.

const mail = await startMailServer(t)
const mailAbout = async (email: string, subject: string) =>
  await until(() => mail.mails.find(({ to, headers }) => to.includes(email) && headers.subject === subject))
const app = await buildTestApp(t, { settings: { ...await testSettings(t), ...mail.settings } })

t.test('a mail tells the user about a new API key, without the key', async (t) => {
  const owner = await signUp(app)
  const { key } = await createKey(app, owner, ['pages:read', 'assets:write'], {
    name: 'Your account is locked: http://evil.example/',
    expires_at: '2999-01-31T08:00:00Z'
  })
  const { text, html } = await mailAbout(owner.user.email, 'A new API key was created')
  for (const words of ['pages:read, assets:write', '31 January 2999']) {
    t.ok(text.includes(words), words)
  }
  t.notMatch(text + html, key.slice(3))
  t.notMatch(text + html, /evil/, 'nobody can use the name to write to the owner of an address')
})

t.test('a mail tells the user about a new password, without the password', async (t) => {
  const owner = await signUp(app)
  const password = 'staple battery horse'
  const response = await app.inject({
    method: 'PUT',
    url: '/auth/password',
    headers: owner.headers,
    payload: { current_password: PASSWORD, password, password_confirmation: password }
  })
  t.equal(response.statusCode, 204)
  const { text, html } = await mailAbout(owner.user.email, 'Your password was changed')
  t.notMatch(text + html, password)
})

t.test('a mail tells the user about a password that the command line has set', async (t) => {
  const { user: { email } } = await signUp(app)
  await setPassword(app.database, operatorOf(email), {
    newPasswordHash: await app.passwords.hash('staple battery horse'),
    hasMail: true
  })
  t.ok(await mailAbout(email, 'Your password was changed'))
})

t.test('flooding an address with notices: ten of a kind in an hour, and the other kinds still arrive', async (t) => {
  const owner = await signUp(app)
  for (let n = 0; n < 13; n++) {
    const { id } = await createKey(app, owner, ['pages:read'])
    await app.inject({ method: 'DELETE', url: `/api_keys/${id}`, headers: owner.headers })
  }
  const received = () =>
    mail.mails.filter(({ to, headers }) =>
      to.includes(owner.user.email) && headers.subject === 'A new API key was created'
    ).length
  await until(() => received() === 10)
  await until(async () => await app.database.mail.count({ where: { recipient: owner.user.email } }) === 0)
  t.equal(received(), 10)
  const { headers } = owner
  await app.inject({ method: 'DELETE', url: '/auth/me', headers, payload: { password: PASSWORD } })
  t.ok(await mailAbout(owner.user.email, 'Your account was deleted'))
})

t.test('flooding an address with links: the limit outlives the account', async (t) => {
  let account = await signUp(app)
  const { email } = account.user
  const ask = async () =>
    await app.inject({ method: 'POST', url: '/auth/password_resets', payload: { email } })
  const received = () =>
    mail.mails.filter(({ to, headers }) => to.includes(email) && headers.subject === 'Reset your password')
      .length
  await ask()
  await until(() => received() === 1)
  for (let round = 0; round < 3; round++) {
    const { headers } = account
    await app.inject({ method: 'DELETE', url: '/auth/me', headers, payload: { password: PASSWORD } })
    account = await signUp(app, email)
    await ask()
    await until(async () => await app.database.mail.count({ where: { recipient: email } }) === 0)
  }
  t.equal(received(), 3)
})

t.test('a change that is refused sends no mail', async (t) => {
  const owner = await signUp(app)
  const wrong = { current_password: 'something else' }
  const password = { password: 'staple battery', password_confirmation: 'staple battery' }
  for (
    const [method, url, payload] of [
      ['PUT', '/auth/password', { ...wrong, ...password }],
      ['POST', '/api_keys', { ...wrong, name: 'x', scopes: ['pages:read'] }],
      ['DELETE', '/auth/me', { password: 'something else' }]
    ] as const
  ) {
    t.equal((await app.inject({ method, url, headers: owner.headers, payload })).statusCode, 422)
  }
  t.equal(
    await app.database.mail.count({ where: { userId: owner.user.id, kind: { not: 'email_confirmation' } } }),
    0
  )
})
