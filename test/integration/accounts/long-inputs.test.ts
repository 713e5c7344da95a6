import t from 'tap'
import { buildTestApp } from '../../helpers/app.ts'

/** 100 requests take less than 100 ms, but 20 s if the service normalizes their combining marks. */
const PATIENCE_MS = 10_000

t.test('inputs with thousands of combining marks are refused quickly', async (t) => {
  const app = await buildTestApp(t, { settings: { SIGN_UPS_PER_ADDRESS: '1000' } })
  const marks = 'a' + '\u0301\u0323'.repeat(14_000)
  const started = performance.now()
  for (let n = 0; n < 100; n++) {
    const user = n % 2 === 0 ? { email: `${marks}@example.com` } : { password: marks }
    t.equal((await app.inject({ method: 'POST', url: '/auth/sign_up', payload: { user } })).statusCode, 422)
  }
  t.ok(performance.now() - started < PATIENCE_MS)
})

t.test('a password of the maximum length is accepted in any Unicode normalization form', async (t) => {
  const app = await buildTestApp(t)
  const composed = '\u1fa7'.repeat(256)
  const decomposed = composed.normalize('NFD')
  t.equal(decomposed.length, 1024)
  const email = 'longest@example.com'
  const signUp = await app.inject({
    method: 'POST',
    url: '/auth/sign_up',
    payload: { user: { email, password: decomposed, password_confirmation: composed } }
  })
  t.equal(signUp.statusCode, 201, signUp.body)
  for (const password of [composed, decomposed]) {
    t.equal(
      (await app.inject({ method: 'POST', url: '/auth/sign_in', payload: { user: { email, password } } }))
        .statusCode,
      200
    )
  }
})
