import { hash } from 'argon2'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { sweepExpired } from '../../../src/modules/accounts/cleanup-repository.ts'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, NOBODY, PASSWORD, sendAs, signIn, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'

const generous = { REFRESHES_PER_ADDRESS: '10000', SIGN_UPS_PER_ADDRESS: '10000' }
const settings = { ...await testSettings(t), ...generous }
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)

const DAY_MS = 86_400_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds)

const refresh = async (token: unknown, on: FastifyInstance = app) =>
  await sendAs(on, NOBODY, 'POST', '/auth/refresh', { refresh_token: token })
const signOut = async (account: Pick<Account, 'headers'>, token: unknown) =>
  await sendAs(app, account, 'DELETE', '/auth/sign_out', { refresh_token: token })
const lives = async (accessToken: string, on: FastifyInstance = app): Promise<boolean> =>
  (await on.inject({ url: '/auth/me', headers: { authorization: `Bearer ${accessToken}` } })).statusCode ===
    200
const refused = (
  t: Test,
  response: { statusCode: number, json: () => unknown, headers: Record<string, unknown> },
  name = 'refused'
) => {
  t.equal(response.statusCode, 401, name)
  t.same(response.json(), { errors: ['Invalid or expired refresh token'] }, name)
  t.equal(response.headers['www-authenticate'], 'Bearer', name)
}
const sessionOf = (account: Account): string =>
  JSON.parse(Buffer.from(account.access_token.split('.')[1] ?? '', 'base64url').toString()).sid
/** Moves the use of all spent refresh tokens into the past. */
const spentAgo = async (seconds: number) =>
  await app.database
    .$executeRaw`UPDATE refresh_tokens SET rotated_at = rotated_at - make_interval(secs => ${seconds}::double precision) WHERE rotated_at IS NOT NULL`

t.test('a refresh returns a new pair; the old access token stays valid, the old refresh token does not', async (t) => {
  const account = await signUp(app)
  const response = await refresh(account.refresh_token)
  t.equal(response.statusCode, 200)
  const pair = response.json()
  t.same(Object.keys(pair).sort(), ['access_token', 'refresh_token'])
  t.not(pair.refresh_token, account.refresh_token)
  t.equal(response.headers['cache-control'], 'no-store')
  t.ok(await lives(account.access_token))
  t.ok(await lives(pair.access_token))
  refused(t, await refresh(account.refresh_token))
  t.equal(
    (await refresh(pair.refresh_token)).statusCode,
    200,
    'a replay within 10 s does not end the session'
  )
})

t.test('only one of many concurrent uses of a refresh token succeeds', async (t) => {
  for (let round = 0; round < 5; round++) {
    const account = await signUp(app)
    const responses = await Promise.all(Array.from({ length: 20 }, async (_, index) =>
      await refresh(account.refresh_token, index % 2 === 0 ? app : replica)))
    const codes = responses.map(({ statusCode }) =>
      statusCode
    )
    t.same(codes.toSorted(), [200, ...Array(19).fill(401)])
    const next = await refresh(responses[codes.indexOf(200)]?.json().refresh_token)
    t.equal(next.statusCode, 200, 'the new token works, because a race does not count as a replay')
  }
})

t.test('a missing, ill-typed or unknown refresh token gets 401', async (t) => {
  for (
    const token of [undefined, null, 1, {}, [], '', 'x', 'A'.repeat(43), '\0', '\ud800', 'x'.repeat(10000)]
  ) refused(t, await refresh(token), JSON.stringify(token))
  const { access_token: accessToken } = await signUp(app)
  refused(t, await refresh(accessToken), 'an access token')
  for (const payload of ['[]', 'null', '"x"', '', undefined]) {
    refused(t, await sendAs(app, NOBODY, 'POST', '/auth/refresh', payload), payload)
  }
})

t.test('refresh tokens end after 30 days, sessions after 180', async (t) => {
  const account = await signUp(app)
  const tokens = app.database.refreshToken
  const unused = async () =>
    await tokens.findFirstOrThrow({
      where: { session: { userId: account.user.id }, rotatedAt: null },
      include: { session: true }
    })
  const days = (date: Date) => (date.getTime() - Date.now()) / DAY_MS
  const first = await unused()
  t.ok(Math.abs(days(first.expiresAt) - 30) < 0.01)
  t.ok(Math.abs(days(first.session.expiresAt) - 180) < 0.01)
  const tomorrow = { expiresAt: ago(-DAY_MS) }
  await tokens.updateMany({ where: { sessionId: first.sessionId }, data: tomorrow })
  const second = (await refresh(account.refresh_token)).json()
  const next = await unused()
  t.ok(Math.abs(days(next.expiresAt) - 30) < 0.01, 'a refresh extends the life of the token')
  t.same(next.session.expiresAt, first.session.expiresAt, 'but not that of the session')

  await app.database.session.update({ where: { id: first.sessionId }, data: tomorrow })
  const pair = (await refresh(second.refresh_token)).json()
  t.ok(days((await unused()).expiresAt) <= 1, 'no token outlives its session')

  const expired = { expiresAt: ago(1000) }
  await tokens.updateMany({ where: { sessionId: first.sessionId, rotatedAt: null }, data: expired })
  refused(t, await refresh(pair.refresh_token), 'a refresh with an expired token')
  const session = { headers: { authorization: `Bearer ${pair.access_token}` } }
  refused(t, await signOut(session, pair.refresh_token), 'a sign-out with an expired token')
  t.ok(await lives(pair.access_token))
})

t.test('a refresh token is refused once its session has ended or is revoked, even before its own expiry', async (t) => {
  const ended = await signUp(app)
  await app.database.session.update({ where: { id: sessionOf(ended) }, data: { expiresAt: ago(1000) } })
  refused(t, await refresh(ended.refresh_token), 'a refresh after the session has ended')
  const tokens = await app.database.refreshToken.count({ where: { sessionId: sessionOf(ended) } })
  t.equal(tokens, 1, 'no new token was issued')

  const other = await signIn(app, ended)
  refused(t, await signOut(other, ended.refresh_token), 'a sign-out with a token of an ended session')
  t.ok(await lives(other.access_token), 'the other session was not revoked')

  const revoked = await signIn(app, ended)
  await app.database.session.update({ where: { id: sessionOf(revoked) }, data: { revokedAt: ago(1000) } })
  refused(t, await signOut(other, revoked.refresh_token), 'a sign-out with a token of a revoked session')
  t.ok(await lives(other.access_token))
})

t.test('the hourly sweep deletes ended sessions and expired tokens, and keeps spent tokens to detect replays', async (t) => {
  const timers = t.capture(globalThis, 'setInterval', setInterval)
  const app = await buildTestApp(t)
  const hourly = timers().filter(({ args: [, delay] }) => delay === 3_600_000).map(({ args: [run] }) =>
    run as () => void
  )
  const account = await signUp(app)
  const revoked = await signIn(app, account)
  const longRevoked = await signIn(app, account)
  const ended = await signIn(app, account)
  t.equal((await refresh(account.refresh_token, app)).statusCode, 200)
  const { session, refreshToken } = app.database
  await session.update({ where: { id: sessionOf(revoked) }, data: { revokedAt: ago(1000) } })
  await session.update({ where: { id: sessionOf(longRevoked) }, data: { revokedAt: ago(2 * DAY_MS) } })
  await session.update({ where: { id: sessionOf(ended) }, data: { expiresAt: ago(1000) } })
  await refreshToken.updateMany({ where: { sessionId: sessionOf(revoked) }, data: { expiresAt: ago(1000) } })

  t.ok(hourly.length > 0)
  for (const run of hourly) run()
  const over = { id: { in: [sessionOf(longRevoked), sessionOf(ended)] } }
  await until(async () => await session.count({ where: over }) === 0)
  await sweepExpired(app.database)
  const left = (await session.findMany({ orderBy: { id: 'asc' } })).map(({ id }) => id)
  t.same(left, [sessionOf(account), sessionOf(revoked)])
  const tokensOf = async (account: Account) =>
    await refreshToken.count({ where: { sessionId: sessionOf(account) } })
  t.equal(await tokensOf(account), 2, 'the current token and the spent one are kept')
  t.equal(await tokensOf(revoked), 0, 'the expired token was deleted')
})

t.test('only the hash of a refresh token is stored', async (t) => {
  const account = await signUp(app)
  const rows = await app.database.$queryRaw<{ row: string }[]>`SELECT t::text AS row FROM refresh_tokens t`
  t.notOk(rows.some(({ row }) =>
    row.includes(account.refresh_token) || row.includes(Buffer.from(account.refresh_token).toString('hex')) ||
    row.includes(Buffer.from(account.refresh_token, 'base64url').toString('hex'))
  ))
})

t.test('sign-out revokes both tokens and their session on every replica', async (t) => {
  const account = await signUp(app)
  const response = await signOut(account, account.refresh_token)
  t.equal(response.statusCode, 204)
  t.equal(response.body, '')
  t.notOk(await lives(account.access_token))
  t.notOk(await lives(account.access_token, replica))
  refused(t, await refresh(account.refresh_token, replica))
  t.equal((await signOut(account, account.refresh_token)).json().errors[0], 'Missing or invalid access token')
})

t.test('sign-out with an unusable refresh token gets 401 and revokes nothing', async (t) => {
  const account = await signUp(app)
  const stranger = await signUp(app)
  const pair = (await refresh(account.refresh_token)).json()
  await spentAgo(60)
  for (const token of [undefined, null, 7, '', 'unknown', stranger.refresh_token, account.refresh_token]) {
    refused(t, await signOut(account, token), JSON.stringify(token))
  }
  for (const type of [undefined, 'application/json', 'application/x-www-form-urlencoded']) {
    const more: Record<string, string> = type === undefined ? {} : { 'content-type': type }
    const response = await sendAs(app, account, 'DELETE', '/auth/sign_out', undefined, more)
    refused(t, response, `no body, Content-Type: ${type}`)
  }
  t.ok(await lives(account.access_token), 'a spent token at sign-out does not count as a replay')
  t.ok(await lives(stranger.access_token))
  t.equal((await refresh(pair.refresh_token)).statusCode, 200)
})

t.test('a sign-in gets 401 if the password changes before its session starts, but not if only the hash changes', async (t) => {
  const { user: { email } } = await signUp(app)
  const { verify } = app.passwords
  const between = async (action: () => Promise<unknown>) => {
    app.passwords.verify = async (...args) => {
      app.passwords.verify = verify
      const same = await verify.apply(app.passwords, args)
      await action()
      return same
    }
    return await signInStatus(app, email)
  }
  const change = async () => {
    const newPasswordHash = await app.passwords.hash('another one entirely')
    await setPassword(app.database, operatorOf(email), { newPasswordHash, hasMail: false })
  }
  t.equal(await between(change), 401)
  t.equal(await app.database.session.count({ where: { user: { email }, revokedAt: null } }), 0)

  // Two replicas find the hash outdated. One replaces it before the session of the other starts.
  await app.database.user.update({
    where: { email },
    data: { passwordHash: await hash(PASSWORD, { memoryCost: 8192, timeCost: 2, parallelism: 1 }) }
  })
  t.equal(await between(async () => t.equal(await signInStatus(replica, email), 200)), 200)
})

t.test('ACCESS_TOKEN_TTL and REFRESH_TOKEN_TTL set the lifetimes of tokens', async (t) => {
  const quick = await buildTestApp(t, { ...settings, ACCESS_TOKEN_TTL: '1', REFRESH_TOKEN_TTL: '2' })
  const account = await signUp(quick)
  const { iat, exp } = JSON
    .parse(Buffer.from(account.access_token.split('.')[1] ?? '', 'base64url').toString())
  t.equal(exp - iat, 1)
  const token = await app.database.refreshToken.findFirstOrThrow({
    where: { session: { userId: account.user.id } }
  })
  t.ok(token.expiresAt.getTime() - Date.now() <= 2000)
})
