import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildTestApp, createPage, NOBODY, PASSWORD, sendAs, signUp } from '../../helpers/app.ts'
import { upload } from '../../helpers/assets.ts'

// The audit trail, which docs/audit.md describes.

interface Line extends Record<string, unknown> {
  readonly audit?: string
  readonly msg: string
}

/** Starts the service and collects what it logs. `take` returns the new lines of the audit trail. */
async function audited (t: Test, settings: Record<string, string> = {}) {
  const lines: Line[] = []
  const app = await buildTestApp(
    t,
    settings,
    pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) })
  )
  let taken = 0
  const take = (): Line[] => {
    const recent = lines.slice(taken)
    taken = lines.length
    return recent.filter(({ audit }) => audit !== undefined)
  }
  const post = async (url: string, payload: object) => await sendAs(app, NOBODY, 'POST', url, payload)
  const signIn = async (email: string, password = PASSWORD) =>
    await post('/auth/sign_in', { user: { email, password } })
  const refresh = async (token: string) => await post('/auth/refresh', { refresh_token: token })
  return { app, lines, take, post, signIn, refresh }
}

t.test('sign-ups, sign-ins, refreshes and sign-outs are audited', async (t) => {
  const { app, lines, take, signIn, refresh } = await audited(t)
  const account = await signUp(app)
  const { email, id: user } = account.user
  const [signedUp, ...others] = take()
  t.same(others, [])
  t.match(signedUp, {
    level: 30,
    msg: 'audit',
    audit: 'signed_up',
    user,
    session: /^[0-9a-f-]{36}$/,
    address: '127.0.0.1',
    reqId: String
  })
  const { session, email_hash: hash } = signedUp as Line
  t.match(hash, /^[A-Za-z0-9_-]{43}$/)

  const { refresh_token: token } = (await refresh(account.refresh_token)).json()
  t.match(take(), [{ audit: 'session_refreshed', user, session }])
  t.equal((await signIn(email, 'wrong password')).statusCode, 401)
  t.equal((await signIn('nobody@example.com')).statusCode, 401)
  const failures = take()
  t.match(failures, [{ audit: 'sign_in_failed', email_hash: hash }, { audit: 'sign_in_failed' }])
  t.not(failures[1]?.email_hash, hash)
  t.equal(failures.length, 2)
  t.equal((await signIn(email)).statusCode, 200)
  const [signedIn] = take()
  t.match(signedIn, { audit: 'signed_in', user, email_hash: hash })
  t.not(signedIn?.session, session)

  await sendAs(app, account, 'DELETE', '/auth/sign_out', { refresh_token: token })
  t.match(take(), [{ audit: 'signed_out', user, session }])
  t.match(lines.find(({ route }) => route === '/auth/sign_out'), { user, session }, 'the access log')

  const browser = async (method: 'POST' | 'DELETE', headers: object, payload?: object) =>
    await sendAs(app, NOBODY, method, '/auth/browser_session', payload, {
      origin: 'http://landfall.test',
      ...headers
    })
  const { refresh_token: exchanged } = await signUp(app)
  take()
  const { headers } = await browser('POST', {}, { refresh_token: exchanged })
  const [cookie = ''] = String(headers['set-cookie']).split(';')
  await browser('DELETE', { cookie })
  t.match(take(), [{ audit: 'session_refreshed' }, { audit: 'signed_out', address: '127.0.0.1' }])
  const output = JSON.stringify(lines)
  const addresses = [email, 'nobody@example.com']
  const tokens = [account.access_token, account.refresh_token, token, exchanged, cookie.split('=')[1]]
  const secrets = [PASSWORD, 'wrong password', ...tokens] as string[]
  for (const secret of [...addresses, ...secrets]) t.notOk(output.includes(secret), 'the log has no secrets')
})

t.test('a refresh token that is used again is recorded with user and session', async (t) => {
  const { app, take, refresh } = await audited(t)
  const account = await signUp(app)
  const [signedUp] = take()
  t.equal((await refresh(account.refresh_token)).statusCode, 200)
  take()
  t.equal((await refresh(account.refresh_token)).statusCode, 401)
  t.same(take(), [], 'within ten seconds it may be a second tab')
  await app.database
    .$executeRaw`UPDATE refresh_tokens SET rotated_at = now() - interval '1 minute' WHERE rotated_at IS NOT NULL`
  t.equal((await refresh(account.refresh_token)).statusCode, 401)
  const replays = take()
  t.match(replays, [{ audit: 'token_replayed', user: account.user.id, session: signedUp?.session }])
  t.equal(replays.length, 1)
})

t.test('each 429 of accounts is recorded with its limit', async (t) => {
  const { app, take, post, signIn, refresh } = await audited(t, {
    SIGN_IN_FAILURES_PER_ACCOUNT: '1',
    SIGN_IN_FAILURES_PER_ADDRESS: '2',
    REFRESHES_PER_ADDRESS: '1',
    SIGN_UPS_PER_ADDRESS: '1'
  })
  const { email } = (await signUp(app)).user
  const limitsMet = () => take().filter(({ audit }) => audit === 'limit_met')
  t.equal((await signIn(email, 'wrong password')).statusCode, 401)
  t.equal((await signIn(email)).statusCode, 429)
  t.match(limitsMet(), [{ limit: 'sign_in:account', email_hash: app.hashEmail(email), address: '127.0.0.1' }])
  t.equal((await signIn('b@example.com')).statusCode, 401)
  t.equal((await signIn('c@example.com')).statusCode, 429)
  t.match(limitsMet(), [{ limit: 'sign_in:address', email_hash: app.hashEmail('c@example.com') }])
  for (const status of [401, 429]) t.equal((await refresh('x')).statusCode, status)
  t.match(limitsMet(), [{ limit: 'refresh:address' }])
  t.equal((await post('/auth/sign_up', {})).statusCode, 429)
  t.match(limitsMet(), [{ limit: 'sign_up:address' }])
})

t.test('each 201 is recorded with the id of what it created', async (t) => {
  const { app, take } = await audited(t)
  const account = await signUp(app)
  take()
  const page = await createPage(app, account, '{"a":"what a page says"}')
  const asset = (await upload(app, account, 'a,b', 'a name.csv', 'text/csv')).json()
  const lines = take()
  t.match(lines, [
    { audit: 'created', user: account.user.id, page: page.id, public_id: page.public_id },
    { audit: 'created', user: account.user.id, asset: asset.id }
  ])
  t.equal(lines.length, 2)
  t.notMatch(JSON.stringify(lines), /what a page says|a name/)
})
