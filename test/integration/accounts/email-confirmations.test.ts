import t from 'tap'
import { buildTestApp, createKey, NOBODY, sendAs, signIn, signUp } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'

// Confirming an e-mail address with a mailed link.

const INVALID_LINK = { errors: ['Link is invalid or has expired: ask for a new one'] }

const mail = await startMailServer(t)
const app = await buildTestApp(t, mail.settings)
const confirm = async (token: string, headers: Readonly<Record<string, string>> = {}) =>
  (await sendAs(app, { headers }, 'PUT', '/auth/email_confirmations', { token })).statusCode
const ask = async (headers: { authorization: string }) =>
  await app.inject({ method: 'POST', url: '/auth/email_confirmations', headers })
const me = async (headers: Readonly<Record<string, string>>) => await app.inject({ url: '/auth/me', headers })
/** The number of mails to a user that wait to be sent. */
const countWaiting = async ({ email }: { readonly email: string }) =>
  await app.database.mail.count({ where: { recipient: email } })

t.test('sign-up mails a link that confirms the address', async (t) => {
  const { user, headers } = await signUp(app)
  t.match(user, { email_confirmed_at: null })
  const token = await mail.linkTo(user.email)
  t.match(mail.mails[0]?.text, `http://landfall.test/account/confirm-email#token=${token}`)
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

t.test('who signed up with a foreign address keeps nothing', async (t) => {
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
    const response = await ask(headers)
    t.equal(response.statusCode, 202)
    t.equal(response.body, '')
    await mail.mailTo(user.email, n)
  }
  t.equal((await ask(headers)).statusCode, 202)
  t.equal(await countWaiting(user), 0)
  t.equal(await confirm(first), 422)
  t.equal(await confirm(await mail.linkTo(user.email, 3), headers), 204)
})

t.test('no link is sent for an address that is confirmed', async (t) => {
  const { user, headers } = await signUp(app)
  await confirm(await mail.linkTo(user.email), headers)
  t.equal((await ask(headers)).statusCode, 202)
  t.equal(await countWaiting(user), 0)
  t.equal((await ask({ authorization: 'Bearer x' })).statusCode, 401)
})
