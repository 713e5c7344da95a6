import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, createPage, PASSWORD, sendAs, signInStatus, signUp,
  testSettings } from '../../helpers/app.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { claimRedis, startPostgresServer, startRedisServer } from '../../helpers/servers.ts'
import { PROJECT } from '../../helpers/service.ts'

const WRONG = 'not the password'
// Each attempt costs a hash, so the limits are low.
const LIMITS = { SIGN_IN_FAILURES_PER_ACCOUNT: '3', SIGN_IN_FAILURES_PER_ADDRESS: '5' }

let address = 0
/** Returns a new client address, because sign-ins are limited per address. */
const newAddress = (): string => `10.0.${++address >> 8}.${address & 255}`
const send = async (app: FastifyInstance, user: object, remoteAddress = newAddress()) =>
  await app.inject({ method: 'POST', url: '/auth/sign_in', remoteAddress, payload: { user } })
const signIn = async (app: FastifyInstance, email: string, password: string, remoteAddress?: string) =>
  await send(app, { email, password }, remoteAddress)
/** Sends sign-ins one after the other. Returns their statuses. */
async function statuses (count: number, attempt: () => Promise<{ statusCode: number }>): Promise<number[]> {
  const all: number[] = []
  while (all.length < count) all.push((await attempt()).statusCode)
  return all
}

for (const kind of ['in the process', 'in Redis'] as const) {
  t.test(`failed sign-ins are counted ${kind}`, async (t) => {
    t.jobs = 4
    const redis = kind === 'in Redis' ? { REDIS_URL: await claimRedis(t) } : {}
    const app = await buildTestApp(t, { ...redis, ...LIMITS })

    t.test('after the failures of the limit, an account gets 429 even with the right password', async (t) => {
      const { user } = await signUp(app)
      t.same(await statuses(3, async () => await signIn(app, user.email, WRONG)), [401, 401, 401])
      const response = await signIn(app, user.email.toUpperCase(), PASSWORD)
      t.equal(response.statusCode, 429)
      const seconds = Number(response.headers['retry-after'])
      t.ok(Number.isInteger(seconds) && seconds > 14 * 60 && seconds <= 15 * 60, `Retry-After: ${seconds}`)
      t.match(response.json(), { errors: [/^Too many failed sign-ins, try again in \d+ seconds$/] })

      const newPasswordHash = await app.passwords.hash('a new password')
      await setPassword(app.database, operatorOf(user.email), { newPasswordHash, hasMail: false })
      const changed = 'the failures of the old password do not count any more'
      t.equal((await signIn(app, user.email, 'a new password')).statusCode, 200, changed)
      t.same(await statuses(4, async () => await signIn(app, user.email, PASSWORD)), [401, 401, 401, 429])
    })

    t.test('malformed credentials count for their address only', async (t) => {
      const from = newAddress()
      const malformed = async () => await send(app, { email: 'you@example.com' }, from)
      t.same(await statuses(6, malformed), [401, 401, 401, 401, 401, 429])
      t.equal((await send(app, { email: 'you@example.com' })).statusCode, 401)
    })

    t.test('sign-ins with an unknown e-mail address are throttled like those with a known one', async (t) => {
      const unknown = async () => await signIn(app, 'nobody@example.com', WRONG)
      t.same(await statuses(4, unknown), [401, 401, 401, 429])
    })

    t.test('concurrent guesses get no more attempts than sequential ones', async (t) => {
      const { user } = await signUp(app)
      const responses = await Promise.all(Array.from({ length: 25 }, async () =>
        await signIn(app, user.email, WRONG)))
      t.same(responses.map(({ statusCode }) => statusCode).sort(), [401, 401, 401, ...Array(22).fill(429)])
    })

    t.test('successful sign-ins do not count as failures, even when they are concurrent', async (t) => {
      const { user } = await signUp(app)
      const fail = async () => await signIn(app, user.email, WRONG)
      t.same(await statuses(2, fail), [401, 401])
      const together = await Promise.all(Array.from({ length: 12 }, async () =>
        await signIn(app, user.email, PASSWORD)))
      t.same(together.map(({ statusCode }) => statusCode), Array(12).fill(200))
      t.same(await statuses(2, fail), [401, 429])
    })

    t.test('sign-ins of one address at once do not count as failures of the address, wrong ones do', async (t) => {
      const from = newAddress()
      const users = await Promise.all(Array.from({ length: 4 }, async () => (await signUp(app)).user))
      const guess = async (_: unknown, n: number) =>
        await signIn(app, `${n}-${from}@example.com`, WRONG, from)
      t.same(await statuses(4, async () => await guess(undefined, 4)), [401, 401, 401, 429])
      const together = await Promise.all(Array.from({ length: 12 }, async (_, n) =>
        await signIn(app, users[n % 4]!.email, PASSWORD, from)))
      t.same(
        together.map(({ statusCode }) =>
          statusCode
        ),
        Array(12).fill(200)
      )
      const guesses = await Promise.all(Array.from({ length: 20 }, guess))
      t.same(
        guesses.map(({ statusCode }) =>
          statusCode
        ).sort(),
        [401, 401, ...Array(18).fill(429)]
      )
    })

    t.test('failed sign-ins from one address throttle the address, for all accounts', async (t) => {
      const { user } = await signUp(app)
      const from = newAddress()
      let n = 0
      const guess = async () => await signIn(app, `guess-${++n}@example.com`, WRONG, from)
      t.same(await statuses(5, guess), [401, 401, 401, 401, 401])
      const response = await signIn(app, user.email, PASSWORD, from)
      t.equal(response.statusCode, 429)
      t.ok(Number(response.headers['retry-after']) <= 60)
      t.equal((await signIn(app, user.email, PASSWORD)).statusCode, 200, 'other addresses are not throttled')
    })
  })
}

for (const kind of ['in the process', 'in Redis'] as const) {
  t.test(`an account is throttled for 15 minutes, counted ${kind}`, async (t) => {
    const redis = kind === 'in Redis' ? { REDIS_URL: await claimRedis(t) } : {}
    const app = await buildTestApp(t, { ...redis, ...LIMITS })
    const { user } = await signUp(app)
    let now = clock.now()
    replaceClock(t, () => now)
    const attempt = async (password: string) => (await signIn(app, user.email, password)).statusCode
    for (const status of [401, 401, 401, 429]) t.equal(await attempt('wrong'), status)
    t.equal(await attempt(PASSWORD), 429)
    const { commands } = app.redisClient ?? {}
    if (commands === undefined) {
      now += 15 * 60_000 - 1
      t.equal(await attempt(PASSWORD), 429, 'still throttled 1 ms before the window ends')
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
    t.equal(await attempt(PASSWORD), 200)
    for (const status of [401, 401, 401, 429]) t.equal(await attempt('wrong'), status)
  })
}

t.test('wrong passwords count as failed sign-ins on every route', async (t) => {
  const app = await buildTestApp(t, { ...LIMITS, SIGN_IN_FAILURES_PER_ADDRESS: '1000' })
  const fresh = { password: 'staple battery horse', password_confirmation: 'staple battery horse' }
  const routes = [
    ['PUT', '/auth/password', 'current_password', fresh],
    ['POST', '/api_keys', 'current_password', { name: 'a program', scopes: ['pages:read'] }],
    ['DELETE', '/auth/me', 'password', {}]
  ] as const
  for (const [method, url, field, more] of routes) {
    const account = await signUp(app)
    const send = async (given: string) => await sendAs(app, account, method, url, { ...more, [field]: given })
    for (const missing of ['', '', '']) t.equal((await send(missing)).statusCode, 422, 'not compared')
    for (let n = 0; n < 2; n++) t.equal((await send(WRONG)).statusCode, 422, `${method} ${url}`)
    t.equal((await signIn(app, account.user.email, WRONG)).statusCode, 401)
    const refused = await send(PASSWORD)
    t.match(refused, { statusCode: 429, headers: { 'retry-after': /^[1-9]/ } }, `${method} ${url}`)
    t.equal((await signIn(app, account.user.email, PASSWORD)).statusCode, 429)
    t.equal((await sendAs(app, account, 'GET', '/auth/me')).statusCode, 200, 'nothing has changed')
  }
})

t.test('a use given back after its window has ended does not raise the limit of the next window', async (t) => {
  const app = await buildTestApp(t, { REDIS_URL: await claimRedis(t) })
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
  const app = await buildTestApp(t, { DATABASE_URL: postgres.url, UPLOADS_DIR: t.testdir(), ...LIMITS })
  const { user } = await signUp(app)
  await postgres.stop()
  for (let n = 0; n < 6; n++) t.equal(await signInStatus(app, user.email), 503)
  await postgres.start()
  t.equal(await signInStatus(app, user.email), 200)
})

t.test('a flood of sign-ins gets 429 with Retry-After', async (t) => {
  const app = await buildTestApp(t, { REDIS_URL: await claimRedis(t) })
  const { user } = await signUp(app)
  const floods = { 'from one address': () => '203.0.113.1', 'from many addresses': newAddress }
  const verified = t.capture(app.passwords, 'verify', app.passwords.verify)
  for (const [name, from] of Object.entries(floods)) {
    const responses = await Promise
      .all(Array.from({ length: 200 }, async () => await signIn(app, user.email, WRONG, from())))
    const expected = name === 'from one address' ? [...Array(10).fill(401), ...Array(190).fill(429)]
      : Array(200).fill(429)
    t.same(responses.map(({ statusCode }) => statusCode).sort(), expected, name)
    t.ok(responses.every(({ statusCode, headers }) =>
      statusCode === 401 || Number(headers['retry-after']) >= 1
    ))
    t.equal(verified().length, name === 'from one address' ? 10 : 0, 'passwords are compared')
  }
})

const COMPOSE = readFileSync(join(PROJECT, 'docker-compose.yml'), 'utf8')
const SHIPPED_POLICY = /"--maxmemory-policy", "([a-z-]+)"/.exec(COMPOSE)?.[1] as string

for (const policy of [SHIPPED_POLICY, 'allkeys-lru']) {
  t.test(`guessing does not begin anew in a full Redis, with ${policy}`, async (t) => {
    const redis = await startRedisServer(t, { maxmemory: '8mb', 'maxmemory-policy': policy })
    const settings = { ...await testSettings(t), REDIS_URL: redis.url, SIGN_IN_FAILURES_PER_ACCOUNT: '4' }
    const replicas = [await buildTestApp(t, settings), await buildTestApp(t, settings)] as const
    const { user } = await signUp(replicas[0])
    const writer = await signUp(replicas[0])
    const guess = async (app: FastifyInstance) => (await signIn(app, user.email, WRONG)).statusCode
    for (let n = 0; n < 4; n++) t.equal(await guess(replicas[n % 2] as FastifyInstance), 401)
    t.same(await Promise.all(replicas.map(guess)), [429, 429])

    const { commands } = replicas[0].redisClient!
    const [key = ''] = await commands.keys('landfall:count:2:sign-in:account:*')
    const countEvicted = async () => Number(/evicted_keys:(\d+)/.exec(await commands.info('stats'))?.[1])
    const isLost = async () => await commands.exists(key) === 0
    const keepsCounts = policy === SHIPPED_POLICY
    const document = JSON.stringify(['x'.repeat(1_000_000)])
    for (let n = 0; n < 200 && (keepsCounts ? await countEvicted() < 30 : !await isLost()); n++) {
      await createPage(replicas[0], writer, document)
    }
    t.ok(await countEvicted() > 0)
    t.equal(await isLost(), !keepsCounts)
    // Only with the shipped policy, a replica that has just started knows the count.
    const guessed = keepsCounts ? [...replicas, await buildTestApp(t, settings)] : replicas
    for (const status of await Promise.all(guessed.map(guess))) t.equal(status, 429)
  })
}

t.test('sign-ups and refreshes over the limit of their address get 429 with Retry-After', async (t) => {
  const app = await buildTestApp(t, { SIGN_UPS_PER_ADDRESS: '3', REFRESHES_PER_ADDRESS: '2' })
  for (const [url, limit, normally] of [['/auth/sign_up', 3, 422], ['/auth/refresh', 2, 401]] as const) {
    const call = async (remoteAddress: string) =>
      await app.inject({ method: 'POST', url, remoteAddress, payload: {} })
    const from = newAddress()
    for (let n = 0; n < limit; n++) t.equal((await call(from)).statusCode, normally)
    for (let n = 0; n < 2; n++) {
      const response = await call(from)
      t.equal(response.statusCode, 429)
      t.ok(Number(response.headers['retry-after']) >= 1 && Number(response.headers['retry-after']) <= 60)
      t.match(response.json(), { errors: [/^Too many requests, try again in \d+ seconds$/] })
    }
    t.equal((await call(newAddress())).statusCode, normally)
    // A /64 network of IPv6 counts as one address.
    for (let n = 0; n < limit; n++) t.equal((await call(`2001:db8:${limit}::${n}`)).statusCode, normally)
    t.equal((await call(`2001:db8:${limit}:0:ffff::1`)).statusCode, 429)
    t.equal((await call(`2001:db8:${limit}:1::1`)).statusCode, normally, 'the next network')
  }
})
