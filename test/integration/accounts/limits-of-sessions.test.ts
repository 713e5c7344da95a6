import argon2 from 'argon2'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { sweepExpired } from '../../../src/modules/accounts/cleanup-repository.ts'
import { buildTestApp, NOBODY, PASSWORD, sendAs, signIn, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { claimRedis, startPostgresServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

const DAY_MS = 86_400_000
const ago = (milliseconds: number) => new Date(Date.now() - milliseconds)

const refresh = async (app: FastifyInstance, token: string) =>
  await sendAs(app, NOBODY, 'POST', '/auth/refresh', { refresh_token: token })
const signOut = async (app: FastifyInstance, account: Account, token: string) =>
  await sendAs(app, account, 'DELETE', '/auth/sign_out', { refresh_token: token })
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
  const tokens = await app.database.refreshToken.count({ where: { sessionId: sessionOf(ended) } })
  t.equal(tokens, 1, 'no new token was issued')

  const other = await signIn(app, ended)
  refused(t, await signOut(app, other, ended.refresh_token), 'a sign-out with a token of an ended session')
  t.ok(await lives(app, other), 'the other session was not revoked')

  const revoked = await signIn(app, ended)
  await app.database.session.update({ where: { id: sessionOf(revoked) }, data: { revokedAt: ago(1000) } })
  refused(t, await signOut(app, other, revoked.refresh_token), 'a sign-out with a token of a revoked session')
  t.ok(await lives(app, other))
})

t.test('a refresh does not extend the life of the session, and no token outlives it', async (t) => {
  const app = await buildTestApp(t, { settings: { SESSION_TTL: '60' } })
  const account = await signUp(app)
  const unused = async () =>
    await app.database.refreshToken.findFirstOrThrow({
      where: { sessionId: sessionOf(account), rotatedAt: null },
      include: { session: true }
    })
  const first = await unused()
  t.ok(first.expiresAt <= first.session.expiresAt)
  t.equal((await refresh(app, account.refresh_token)).statusCode, 200)
  t.same((await unused()).session.expiresAt, first.session.expiresAt)
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
  t.equal((await refresh(app, account.refresh_token)).statusCode, 200)
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
    const response = await sendAs(app, NOBODY, 'POST', '/auth/sign_in', { user: credentials })
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
    replaceClock(t, () => now)
    const signIn = async (password: string) => await signInStatus(app, user.email, password)
    for (const status of [401, 401, 429]) t.equal(await signIn('wrong'), status)
    t.equal(await signIn(PASSWORD), 429)
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
    t.equal(await signIn(PASSWORD), 200)
    for (const status of [401, 401, 429]) t.equal(await signIn('wrong'), status)
  })
}

t.test('a use given back after its window has ended does not raise the limit of the next window', async (t) => {
  const app = await buildTestApp(t, {
    settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
  })
  const real = clock.now
  let ahead = 0
  replaceClock(t, () => real() + ahead)
  const take = async () => await app.counters.take('late', 2, 60_000, clock.now())
  const { resetAt } = await take()
  ahead = 60_001
  await app.redisClient!.commands.del('landfall:count:2:late') // instead of waiting until it expires
  await app.counters.giveBack('late', 60_000, resetAt)
  const first = await take()
  await app.counters.giveBack('late', 60_000, resetAt)
  const results = [first, await take(), await take()].map(({ allowed, used }) => [allowed, used])
  t.same(results, [[true, 1], [true, 2], [false, 2]])
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
