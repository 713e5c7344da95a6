import argon2 from 'argon2'
import t from 'tap'
import { clock } from '../../src/clock.ts'
import { DatabaseUnavailableError } from '../../src/database/unavailable.ts'
import { HASHES_AT_ONCE, Passwords } from '../../src/auth/passwords.ts'
import { buildTestApp, PASSWORD, signUp } from '../helpers/app.ts'

t.test('hashes are argon2id with 19 MiB, two passes, one lane', async (t) => {
  const hash = await new Passwords().hash('some password')
  t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.not(hash, await new Passwords().hash('some password'), 'salted')
})

t.test('at most two hashes at once, a bounded queue, then 503', async (t) => {
  const passwords = new Passwords()
  const results = await Promise.allSettled(Array.from({ length: 80 }, async () => await passwords.hash('some password')))
  const refused = results.filter((result): result is PromiseRejectedResult => result.status === 'rejected')
  t.equal(refused.length, 80 - HASHES_AT_ONCE - 64)
  t.ok(HASHES_AT_ONCE <= 2)
  for (const { reason } of refused) t.match(reason, { statusCode: 503, retryAfterSeconds: 1 })
  t.match(await passwords.hash('some password'), /^\$argon2id/, 'and afterwards it goes on')
})

t.test('a PostgreSQL that says nothing is waited for once, not by each in turn', async (t) => {
  const passwords = new Passwords()
  const real = clock.now
  let ahead = 0
  t.intercept(clock, 'now', { value: () => real() + ahead })
  const lookUps: ((error: Error) => void)[] = []
  const silent = async () => await new Promise<undefined>((_resolve, reject) => { lookUps.push(reject) })
  const attempts = Promise.allSettled(Array.from({ length: 20 }, async () => await passwords.verify(silent, PASSWORD)))
  while (lookUps.length < HASHES_AT_ONCE) await new Promise((resolve) => setImmediate(resolve))
  ahead = 4000
  for (const fail of lookUps) fail(new DatabaseUnavailableError('no answer in time'))
  for (const attempt of await attempts) t.match(attempt, { status: 'rejected', reason: DatabaseUnavailableError })
  t.equal(lookUps.length, HASHES_AT_ONCE)
  const hash = await passwords.hash(PASSWORD)
  t.equal(await passwords.verify(async () => hash, PASSWORD), true, 'and afterwards it goes on')
})

t.test('200 sign-ins at once: each gets an answer, the surplus 503 with Retry-After', async (t) => {
  const app = await buildTestApp(t, { settings: { SIGN_IN_FAILURES_PER_ADDRESS: '100000' } })
  const responses = await Promise.all(Array.from({ length: 200 }, async (_, n) => await app.inject({
    method: 'POST', url: '/auth/sign_in', payload: { user: { email: `nobody-${n}@example.com`, password: PASSWORD } }
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

t.test('a hash with other parameters is replaced at the next sign-in', async (t) => {
  const app = await buildTestApp(t)
  const { user } = await signUp(app)
  const old = await argon2.hash(PASSWORD, { memoryCost: 8192, timeCost: 1, parallelism: 1 })
  await app.database.user.update({ where: { id: user.id }, data: { passwordHash: old } })
  const signIn = async (password: string) => (await app.inject({ method: 'POST', url: '/auth/sign_in', payload: { user: { email: user.email, password } } })).statusCode
  const stored = async () => (await app.database.user.findUniqueOrThrow({ where: { id: user.id } })).passwordHash

  t.equal(await signIn('wrong password'), 401)
  t.equal(await stored(), old)
  t.equal(await signIn(PASSWORD), 200)
  const renewed = await stored()
  t.match(renewed, /m=19456,t=2,p=1/)
  t.equal(await signIn(PASSWORD), 200)
  t.equal(await stored(), renewed, 'and only then')
})
