import argon2 from 'argon2'
import t from 'tap'
import { MAX_HASHES, Passwords } from '../../../src/modules/accounts/passwords.ts'
import { buildTestApp, PASSWORD, signUp } from '../../helpers/app.ts'

t.test('passwords are hashed with argon2id, 19 MiB of memory, two passes and one lane', async (t) => {
  const hash = await new Passwords().hash('some password')
  t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.not(hash, await new Passwords().hash('some password'), 'each hash has its own salt')
})

t.test('at most two hashes are computed at once, 64 wait, and all others get 503', async (t) => {
  const passwords = new Passwords()
  const results = await Promise
    .allSettled(Array.from({ length: 80 }, async () => await passwords.hash('some password')))
  const refused = results.filter((result): result is PromiseRejectedResult => result.status === 'rejected')
  t.equal(refused.length, 80 - MAX_HASHES - 64)
  t.ok(MAX_HASHES <= 2)
  for (const { reason } of refused) t.match(reason, { statusCode: 503, retryAfterSeconds: 1 })
  t.match(await passwords.hash('some password'), /^\$argon2id/, 'hashing works again afterwards')
})

t.test('each of 200 concurrent sign-ins gets an answer, excess ones 503 with Retry-After', async (t) => {
  const app = await buildTestApp(t, { settings: { SIGN_IN_FAILURES_PER_ADDRESS: '100000' } })
  const responses = await Promise.all(Array.from({ length: 200 }, async (_, n) =>
    await app.inject({
      method: 'POST',
      url: '/auth/sign_in',
      payload: { user: { email: `nobody-${n}@example.com`, password: PASSWORD } }
    })))
  for (const response of responses) {
    t.ok([401, 503].includes(response.statusCode))
    if (response.statusCode === 503) {
      t.ok(Number(response.headers['retry-after']) >= 1)
      t.equal(response.json().errors.length, 1)
    }
  }
  t.ok(responses.some(({ statusCode }) => statusCode === 401))
})

t.test('a hash with outdated parameters is replaced at the next successful sign-in', async (t) => {
  const app = await buildTestApp(t)
  const { user } = await signUp(app)
  const old = await argon2.hash(PASSWORD, { memoryCost: 8192, timeCost: 1, parallelism: 1 })
  await app.database.user.update({ where: { id: user.id }, data: { passwordHash: old } })
  const signIn = async (password: string) =>
    (await app.inject({
      method: 'POST',
      url: '/auth/sign_in',
      payload: { user: { email: user.email, password } }
    })).statusCode
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
