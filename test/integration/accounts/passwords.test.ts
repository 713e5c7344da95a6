import argon2 from 'argon2'
import t from 'tap'
import { MAX_HASHES, MAX_WAITING_PER_ADDRESS,
  Passwords } from '../../../src/modules/accounts/passwords/passwords.ts'
import { buildTestApp, NOBODY, PASSWORD, sendAs, signInStatus, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { until } from '../../helpers/until.ts'

t.test('passwords are hashed with argon2id, 19 MiB, two passes, one lane', async (t) => {
  const hash = await new Passwords().hash('some password')
  t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.not(hash, await new Passwords().hash('some password'), 'each hash has its own salt')
})

t.test('at most two hashes are computed at once, 64 wait, and all others get 503', async (t) => {
  const passwords = new Passwords()
  const hashes = Array.from(
    { length: 80 },
    async (_, n) => await passwords.hash('some password', `${n % 10}`)
  )
  const results = await Promise.allSettled(hashes)
  const refused = results.filter((result): result is PromiseRejectedResult => result.status === 'rejected')
  t.equal(refused.length, 80 - MAX_HASHES - 64)
  t.ok(MAX_HASHES <= 2)
  for (const { reason } of refused) t.match(reason, { statusCode: 503, headers: { 'retry-after': 1 } })
  t.match(await passwords.hash('some password'), /^\$argon2id/, 'hashing works again afterwards')
})

t.test('one address holds eight places of the hash queue, others the rest', async (t) => {
  const mail = await startMailServer(t)
  const settings = {
    ...await testSettings(t),
    ...mail.settings,
    SIGN_IN_FAILURES_PER_ADDRESS: '1000',
    SIGN_UPS_PER_ADDRESS: '1000'
  }
  const app = await buildTestApp(t, settings)
  const [signingIn, changing, keyed] = [await signUp(app), await signUp(app), await signUp(app)]
  const [deleted, forgetful] = [await signUp(app), await signUp(app)]
  const { email } = forgetful.user
  await mail.linkTo(email) // of the sign-up
  await sendAs(app, NOBODY, 'POST', '/auth/password_resets', { email })
  const token = await mail.linkTo(email, 2)
  const fresh = { password: 'a brand-new staple', password_confirmation: 'a brand-new staple' }
  const greedyPassword = { password: 'a greedy staple', password_confirmation: 'a greedy staple' }
  const routes = [
    ['POST', '/auth/sign_up', undefined, { user: { email: 'fresh@example.com', ...fresh } }, 201],
    ['POST', '/auth/sign_in', undefined, { user: { email: signingIn.user.email, password: PASSWORD } }, 200],
    ['PUT', '/auth/password', changing, { current_password: PASSWORD, ...fresh }, 204],
    ['PUT', '/auth/password_resets', undefined, { token, ...fresh }, 204],
    ['DELETE', '/auth/me', deleted, { password: PASSWORD }, 204],
    ['POST', '/api_keys', keyed, { name: 'a', scopes: ['pages:read'], current_password: PASSWORD }, 201]
  ] as const
  type Call = readonly [
    method: 'POST' | 'PUT' | 'DELETE',
    url: string,
    Account | undefined,
    payload: object,
    ...unknown[]
  ]
  const send = async ([method, url, account, payload]: Call, remoteAddress: string) =>
    await app.inject({ method, url, headers: account?.headers ?? {}, payload, remoteAddress })

  // From here on, hashes wait until the test lets them go on.
  const begun: string[] = []
  let goOn = (): void => {}
  const gate = new Promise<void>((resolve) => {
    goOn = resolve
  })
  for (const name of ['hash', 'verify'] as const) {
    const compute = argon2[name] as (...given: unknown[]) => Promise<unknown>
    t.intercept(argon2, name, {
      value: async (...given: unknown[]) => {
        begun.push(String(given[name === 'hash' ? 0 : 1]))
        await gate
        return await compute(...given)
      }
    })
  }
  let hosts = 0
  const greedy = (): string => `2001:db8::${++hosts}` // a /64 is one address
  const signUps = Array.from(
    { length: MAX_HASHES + MAX_WAITING_PER_ADDRESS },
    async (_, n) => {
      const user = { ...greedyPassword, email: `greedy-${n}@example.com` }
      return await send(['POST', '/auth/sign_up', undefined, { user }], greedy())
    }
  )
  await until(() => app.passwords.queue.waiting === MAX_WAITING_PER_ADDRESS, 'all places are taken')
  for (const route of routes) {
    const refused = await send(route, greedy())
    t.match(refused, { statusCode: 503, headers: { 'retry-after': '1' } }, `${route[0]} ${route[1]}`)
  }
  const answers = routes.map(async (route, n) => await send(route, `192.0.2.${n}`))
  await until(
    () => app.passwords.queue.waiting === MAX_WAITING_PER_ADDRESS + routes.length,
    'the neighbours wait, too'
  )
  goOn()
  t.same((await Promise.all(answers)).map(({ statusCode }) => statusCode), routes.map((route) => route[4]))
  for (const { statusCode } of await Promise.all(signUps)) t.equal(statusCode, 201)
  const turns = begun.slice(MAX_HASHES, MAX_HASHES + 1 + routes.length)
  const [first, ...next] = turns.map((password) => password === greedyPassword.password)
  t.same([first, new Set(next)], [true, new Set([false])], 'one of the greedy address, then all others')
})

t.test('a sign-in replaces a hash with outdated parameters', async (t) => {
  const app = await buildTestApp(t)
  const { user } = await signUp(app)
  const old = await argon2.hash(PASSWORD, { memoryCost: 8192, timeCost: 1, parallelism: 1 })
  await app.database.user.update({ where: { id: user.id }, data: { passwordHash: old } })
  const signIn = async (password: string) => await signInStatus(app, user.email, password)
  const stored = async () =>
    (await app.database.user.findUniqueOrThrow({ where: { id: user.id } })).passwordHash

  t.equal(await signIn('wrong password'), 401)
  t.equal(await stored(), old)
  t.equal(await signIn(PASSWORD), 200)
  const renewed = await stored()
  t.match(renewed, /m=19456,t=2,p=1/)
  t.equal(await signIn(PASSWORD), 200)
  t.equal(await stored(), renewed, 'an up-to-date hash is not replaced')
})
