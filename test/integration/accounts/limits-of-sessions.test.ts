import argon2 from 'argon2'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { sweepExpired } from '../../../src/modules/accounts/cleanup-repository.ts'
import { buildTestApp, PASSWORD, signIn, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { claimRedis, startPostgresServer } from '../../helpers/servers.ts'

const DAY_MS = 86_400_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds)

const refresh = async (app: FastifyInstance, token: string) =>
  await app.inject({ method: 'POST', url: '/auth/refresh', payload: { refresh_token: token } })
const signOut = async (app: FastifyInstance, account: Account, token: string) =>
  await app.inject({
    method: 'DELETE',
    url: '/auth/sign_out',
    headers: account.headers,
    payload: { refresh_token: token }
  })
const lives = async (app: FastifyInstance, account: Account) =>
  (await app.inject({ url: '/auth/me', headers: account.headers })).statusCode === 200
const sessionOf = (account: Account): string =>
  JSON.parse(Buffer.from(account.access_token.split('.')[1] ?? '', 'base64url').toString()).sid
const refused = (t: Test, response: { statusCode: number, json: () => unknown }, name: string) => {
  t.equal(response.statusCode, 401, name)
  t.same(response.json(), { errors: ['Invalid or expired refresh token'] }, name)
}

t.test('a refresh token is refused once its session has ended or is revoked, even before its own expiry', async (t) => {
  const app = await buildTestApp(t)
  const ended = await signUp(app)
  await app.database.session.update({ where: { id: sessionOf(ended) }, data: { expiresAt: ago(1000) } })
  refused(t, await refresh(app, ended.refresh_token), 'a refresh after the session has ended')
  t.equal(
    await app.database.refreshToken.count({ where: { sessionId: sessionOf(ended) } }),
    1,
    'no new token was issued'
  )

  const other = await signIn(app, ended)
  refused(t, await signOut(app, other, ended.refresh_token), 'a sign-out with a token of an ended session')
  t.ok(await lives(app, other), 'the other session was not revoked')

  const revoked = await signIn(app, ended)
  await app.database.session.update({ where: { id: sessionOf(revoked) }, data: { revokedAt: ago(1000) } })
  refused(t, await signOut(app, other, revoked.refresh_token), 'a sign-out with a token of a revoked session')
  t.ok(await lives(app, other))
})

t.test('a refresh extends the life of the refresh token, but not that of the session', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const where = { sessionId: sessionOf(account), rotatedAt: null }
  const { session: before } = await app.database.refreshToken.findFirstOrThrow({
    where,
    include: { session: true }
  })
  await app.database.refreshToken.updateMany({ where, data: { expiresAt: new Date(Date.now() + DAY_MS) } })
  t.equal((await refresh(app, account.refresh_token)).statusCode, 200)
  const { expiresAt, session } = await app.database.refreshToken.findFirstOrThrow({
    where,
    include: { session: true }
  })
  t.ok(Math.abs(expiresAt.getTime() - Date.now() - 30 * DAY_MS) < 600_000, 'the new token expires in 30 days')
  t.same(session.expiresAt, before.expiresAt)

  const short = await buildTestApp(t, { settings: { SESSION_TTL: '60' } })
  const first = await short.database.refreshToken.findFirstOrThrow({
    where: { sessionId: sessionOf(await signUp(short)) },
    include: { session: true }
  })
  t.ok(first.expiresAt <= first.session.expiresAt, 'the first token does not outlive its session either')
})

t.test('the hourly sweep deletes ended sessions and expired tokens, and keeps spent tokens to detect replays', async (t) => {
  const timers = t.capture(globalThis, 'setInterval', setInterval)
  const app = await buildTestApp(t)
  const hourly = timers().filter(({ args: [, delay] }) => delay === 3_600_000).map(({ args: [run] }) =>
    run as () => void
  )
  const account = await signUp(app)
  const justRevoked = await signIn(app, account)
  const longRevoked = await signIn(app, account)
  const ended = await signIn(app, account)
  t.equal((await refresh(app, account.refresh_token)).statusCode, 200)
  await app.database.session.update({ where: { id: sessionOf(justRevoked) }, data: { revokedAt: ago(1000) } })
  await app.database.session.update({
    where: { id: sessionOf(longRevoked) },
    data: { revokedAt: ago(2 * DAY_MS) }
  })
  await app.database.session.update({ where: { id: sessionOf(ended) }, data: { expiresAt: ago(1000) } })
  await app.database.refreshToken.updateMany({
    where: { sessionId: sessionOf(justRevoked) },
    data: { expiresAt: ago(1000) }
  })

  t.ok(hourly.length > 0)
  for (const run of hourly) run()
  while (
    await app.database.session.count({ where: { id: { in: [sessionOf(longRevoked), sessionOf(ended)] } } }) >
      0
  ) await new Promise((resolve) => setTimeout(resolve, 20))
  await sweepExpired(app.database)
  t.same((await app.database.session.findMany({ orderBy: { id: 'asc' } })).map(({ id }) => id), [
    sessionOf(account),
    sessionOf(justRevoked)
  ])
  t.equal(
    await app.database.refreshToken.count({ where: { sessionId: sessionOf(account) } }),
    2,
    'the current token and the spent one are kept'
  )
  t.equal(
    await app.database.refreshToken.count({ where: { sessionId: sessionOf(justRevoked) } }),
    0,
    'the expired token was deleted'
  )
})

t.test('every failed sign-in verifies exactly one hash of the same strength', async (t) => {
  const app = await buildTestApp(t)
  const { user } = await signUp(app)
  const verified = t.capture(argon2, 'verify', argon2.verify)
  for (
    const credentials of [
      { email: user.email, password: 'wrong password' },
      { email: 'nobody@example.com', password: PASSWORD },
      { email: 'no address', password: PASSWORD },
      { email: 'nobody@example.com', password: '' },
      { password: PASSWORD },
      {}
    ]
  ) {
    const response = await app.inject({
      method: 'POST',
      url: '/auth/sign_in',
      payload: { user: credentials }
    })
    t.equal(response.statusCode, 401)
    const calls = verified()
    t.equal(calls.length, 1, JSON.stringify(credentials))
    t.match(calls[0]?.args[0], /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/, JSON.stringify(credentials))
  }
})

for (const kind of ['in the process', 'in Redis'] as const) {
  t.test(`a throttled account can sign in again 15 minutes after its first failure, counted ${kind}`, async (t) => {
    const app = await buildTestApp(t, {
      settings: {
        ...await testSettings(t),
        SIGN_IN_FAILURES_PER_ACCOUNT: '2',
        ...(kind === 'in Redis' ? { REDIS_URL: await claimRedis(t) } : {})
      }
    })
    const { user } = await signUp(app)
    let now = clock.now()
    t.intercept(clock, 'now', { value: () => now })
    const signIn = async (password: string) => await signInStatus(app, user.email, password)
    t.same([await signIn('wrong'), await signIn('wrong'), await signIn('wrong'), await signIn(PASSWORD)], [
      401,
      401,
      429,
      429
    ])
    const { commands } = app.redisClient ?? {}
    if (commands === undefined) {
      now += 15 * 60_000 - 1
      t.equal(await signIn(PASSWORD), 429, 'still throttled 1 ms before the window ends')
    } else {
      // The window ends when the key expires, by the clock of Redis. The test deletes the key instead.
      const keys = await commands.keys('landfall:count:2:sign-in:account:*')
      t.equal(keys.length, 1)
      const left = await commands.pttl(keys[0] ?? '')
      t.ok(left > 14 * 60_000 && left <= 15 * 60_000)
      await commands.del(keys)
      now += 15 * 60_000
    }
    now += 1
    t.same([await signIn(PASSWORD), await signIn('wrong'), await signIn('wrong'), await signIn('wrong')], [
      200,
      401,
      401,
      429
    ])
  })
}

t.test('a use given back after its window has ended does not raise the limit of the next window', async (t) => {
  const app = await buildTestApp(t, {
    settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
  })
  const real = clock.now
  let ahead = 0
  t.intercept(clock, 'now', { value: () => real() + ahead })
  const take = async () => await app.counters.take('late', 2, 60_000, clock.now())
  const { resetAt } = await take()
  ahead = 60_001
  await app.redisClient!.commands.del('landfall:count:2:late') // instead of waiting until it expires
  await app.counters.giveBack('late', 60_000, resetAt)
  const first = await take()
  await app.counters.giveBack('late', 60_000, resetAt)
  t.match([first, await take(), await take()], [{ allowed: true, used: 1 }, { allowed: true, used: 2 }, {
    allowed: false,
    used: 2
  }])
})

t.test('a sign-in that gets 503 does not count as a failure', async (t) => {
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(t, {
    settings: {
      DATABASE_URL: postgres.url,
      UPLOADS_DIR: t.testdir(),
      SIGN_IN_FAILURES_PER_ACCOUNT: '2',
      SIGN_IN_FAILURES_PER_ADDRESS: '2'
    }
  })
  const { user } = await signUp(app)
  await postgres.stop()
  for (let n = 0; n < 4; n++) t.equal(await signInStatus(app, user.email), 503)
  await postgres.start()
  t.equal(await signInStatus(app, user.email), 200)
})
