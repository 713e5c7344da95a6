import t from 'tap'
import { createLandfallClient, memoryTokens, type Credentials } from '../../../packages/client/src/index.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { credentials, failure, losing, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const mail = await startMailServer(t)
const { url } = await startApp(t, { BASE_URL: 'http://localhost:3000', ...mail.settings })
const NEW_PASSWORD = 'staple battery'

async function createAccount () {
  const account = credentials()
  await createLandfallClient({ baseUrl: url }).auth.signUp(account)
  return account
}

async function signIn (account: Credentials) {
  const { auth } = createLandfallClient({ baseUrl: url })
  await auth.signIn(account)
  return auth
}

t.test('changePassword() ends the other sessions, and the client stays signed in', async (t) => {
  const account = await createAccount()
  const [auth, other] = [await signIn(account), await signIn(account)]
  const change = { current_password: account.password, password: NEW_PASSWORD }
  const wrong = { ...change, current_password: 'something else' }
  t.match(await failure(auth.changePassword(wrong)), { status: 422, errors: ['Current password is wrong'] })
  const mistyped = { ...change, password_confirmation: 'mistyped' }
  t.match(await failure(auth.changePassword(mistyped)), { status: 422, errors: [/confirmation/i] })
  await auth.changePassword(change)
  t.match(await auth.me(), { email: account.email })
  t.match(await failure(other.me()), { status: 401 })
  t.match(await failure(signIn(account)), { status: 401 })
  t.ok(await signIn({ ...account, password: NEW_PASSWORD }))
})

t.test('a forgotten password can be reset with a link, without a sign-in', async (t) => {
  const account = await createAccount()
  const signedIn = await signIn(account)
  const { auth } = createLandfallClient({ baseUrl: url })
  await mail.linkTo(account.email) // of the sign-up
  await auth.requestPasswordReset('nobody@example.com')
  await auth.requestPasswordReset(account.email)
  const token = await mail.linkTo(account.email, 2)
  const short = { token, password: 'short', password_confirmation: 'other' }
  t.match(await failure(auth.resetPassword(short)), { status: 422, errors: [/too short/, /confirmation/i] })
  await auth.resetPassword({ token, password: NEW_PASSWORD })
  t.match(await failure(auth.resetPassword({ token, password: NEW_PASSWORD })), { status: 422 })
  t.match(await failure(signedIn.me()), { status: 401 })
  t.match(await auth.signIn({ ...account, password: NEW_PASSWORD }), { email_confirmed_at: /Z$/ })
})

t.test('confirmEmail() keeps the session of the client and ends the others', async (t) => {
  const account = await createAccount()
  const [auth, other] = [await signIn(account), await signIn(account)]
  t.match(await auth.me(), { email_confirmed_at: null })
  await mail.linkTo(account.email) // a mail that waits would count for both
  await auth.requestEmailConfirmation()
  const token = await mail.linkTo(account.email, 2)
  t.match(await failure(auth.confirmEmail('x'.repeat(43))), { status: 422, errors: [/^Link is invalid/] })
  await auth.confirmEmail(token)
  t.match(await auth.me(), { email_confirmed_at: /Z$/ })
  t.match(await failure(other.me()), { status: 401 })
})

t.test('confirmEmail() needs no session, and ignores one that is over', async (t) => {
  const accounts = [await createAccount(), await createAccount()]
  const over = await signIn(accounts[0] as Credentials)
  await (await signIn(accounts[0] as Credentials)).endOtherSessions()
  for (const [index, auth] of [over, createLandfallClient({ baseUrl: url }).auth].entries()) {
    const account = accounts[index] as Credentials
    await auth.confirmEmail(await mail.linkTo(account.email))
    t.match(await (await signIn(account)).me(), { email_confirmed_at: /Z$/ })
  }
})

t.test('what uses a password or a token up is not repeated after a 503', async (t) => {
  const tokens = memoryTokens()
  await signedUp(url, { tokens })
  const { fetch, sent } = recordingFetch()
  const { auth } = createLandfallClient({ baseUrl: url, tokens, fetch: losing(fetch, () => true) })
  const change = { current_password: credentials().password, password: NEW_PASSWORD }
  t.match(await failure(auth.changePassword(change)), { status: 503 })
  t.match(await failure(auth.resetPassword({ token: 'x', password: NEW_PASSWORD })), { status: 503 })
  t.match(await failure(auth.confirmEmail('x')), { status: 503 })
  t.match(await failure(auth.deleteAccount(NEW_PASSWORD)), { status: 503 })
  const answers = sent.map(({ method, status }) => `${method} ${status}`)
  t.same(answers, ['PUT 204', 'PUT 422', 'PUT 422', 'DELETE 204'])
})

t.test('deleteAccount() deletes the account and forgets the tokens', async (t) => {
  const account = credentials()
  const tokens = memoryTokens()
  const onSessionEnded = () => t.fail('the session has not ended by itself')
  const { auth, landingPages } = createLandfallClient({ baseUrl: url, tokens, onSessionEnded })
  await auth.signUp(account)
  const page = await landingPages.create({})
  const wrong = { status: 422, errors: ['Password is wrong'] }
  t.match(await failure(auth.deleteAccount('something else')), wrong)
  t.match(await auth.me(), { email: account.email })
  t.equal(await auth.deleteAccount(account.password), undefined)
  t.equal(await tokens.load(), undefined)
  t.match(await failure(landingPages.read(page.public_id)), { status: 404 })
  t.match(await failure(auth.signIn(account)), { status: 401 })
  t.match(await auth.signUp(account), { email: account.email })
})
