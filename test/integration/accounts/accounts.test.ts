import argon2 from 'argon2'
import t from 'tap'
import { buildTestApp, NOBODY, PASSWORD, sendAs, signInStatus, signUp,
  testSettings } from '../../helpers/app.ts'

const app = await buildTestApp(t, { SIGN_UPS_PER_ADDRESS: '10000', SIGN_IN_FAILURES_PER_ADDRESS: '10000' })

const post = async (url: string, payload: object | string) => await sendAs(app, NOBODY, 'POST', url, payload)
const attempt = async (user: unknown) => await post('/auth/sign_up', { user })
const valid = (email: string, password = PASSWORD) => ({ email, password, password_confirmation: password })

t.test('sign-up answers 201 with the user and two tokens', async (t) => {
  const response = await attempt(valid('first@example.com'))
  t.match([response.statusCode, response.headers], [201, {
    'content-type': /^application\/json/,
    'cache-control': 'no-store',
    expires: undefined,
    pragma: undefined,
    location: '/auth/me'
  }])
  const body = response.json()
  t.same(Object.keys(body).sort(), ['access_token', 'refresh_token', 'user'])
  t.same(Object.keys(body.user).sort(), ['email', 'email_confirmed_at', 'id'])
  t.match(body.user, { id: Number, email: 'first@example.com' })
  t.equal(Buffer.from(body.refresh_token, 'base64url').length, 32, 'the refresh token has 256 bits')

  const me = await app.inject({ url: '/auth/me', headers: { authorization: `Bearer ${body.access_token}` } })
  t.equal(me.statusCode, 200)
  t.same(me.json(), { user: body.user })
})

t.test('an e-mail address is trimmed and normalised, and is unique in any case and Unicode form', async (t) => {
  const cases: [given: string, stored: string, ...forms: string[]][] = [
    ['  Ame\u0301lie@Example.COM ', 'am\u00e9lie@example.com', 'AME\u0301LIE@EXAMPLE.com'],
    ['\u{10400}@example.com', '\u{10428}@example.com'],
    ['\u{20bb7}\u7530@example.com', '\u{20bb7}\u7530@example.com'],
    ['\u{20bb8}\u7530@example.com', '\u{20bb8}\u7530@example.com']
  ]
  for (const [given, stored, ...forms] of cases) {
    const response = await attempt(valid(given))
    t.equal(response.statusCode, 201)
    t.equal(response.json().user.email, stored)
    for (const email of [stored, ...forms]) {
      const again = await attempt(valid(email))
      t.equal(again.statusCode, 422, JSON.stringify(email))
      t.same(again.json(), { errors: ['Email has already been taken'] })
      t.equal((await post('/auth/sign_in', { user: { email, password: PASSWORD } })).statusCode, 200)
    }
  }
})

t.test('exactly one of many concurrent sign-ups with one address succeeds; the others leave no session', async (t) => {
  const responses = await Promise
    .all(Array.from({ length: 8 }, async () => await attempt(valid('race@example.com'))))
  t.same(responses.map((response) => response.statusCode).sort(), [201, ...Array(7).fill(422)])
  for (const response of responses.filter(({ statusCode }) => statusCode === 422)) {
    t.same(response.json(), { errors: ['Email has already been taken'] })
  }
  const { id } = await app.database.user.findUniqueOrThrow({ where: { email: 'race@example.com' } })
  t.equal(await app.database.session.count({ where: { userId: id } }), 1)
})

const blankAll = ["Email can't be blank", "Password can't be blank", "Password confirmation can't be blank"]
const LONG_EMAIL = 'Email is too long (maximum is 254 characters)'
const BAD_EMAIL = 'Email is invalid'
const SHORT = 'Password is too short (minimum is 8 characters)'
const COMMON = 'Password is too common'
const UNLIKE = "Password confirmation doesn't match Password"
const shapeOf = (user: object) => `Request body must look like ${JSON.stringify({ user })}`
const signUpShape = shapeOf(valid('you@example.com', 'correct horse'))
const long = (length: number) => 'x1'.repeat(length / 2)
const withPassword = (password: string) => valid('p@example.com', password)
const refused: [name: string, user: unknown, ...errors: string[]][] = [
  ['no user', undefined, signUpShape],
  ['null', null, signUpShape],
  ['a string', 'user', signUpShape],
  ['an array', [], signUpShape],
  ['empty', {}, ...blankAll],
  ['nulls', { email: null, password: null, password_confirmation: null }, ...blankAll],
  ['an object as e-mail address', { ...valid('x'), email: { contains: '@' } }, 'Email must be a string'],
  ['a blank e-mail address', valid('  '), "Email can't be blank"],
  ['no @', valid('nobody'), BAD_EMAIL],
  ['half a surrogate pair in the address', valid('a\ud800@example.com'), BAD_EMAIL],
  ['an address of 255 characters', valid(`${'a'.repeat(243)}@example.com`), LONG_EMAIL],
  ['an address of 255 characters without @', valid('a'.repeat(255)), LONG_EMAIL, BAD_EMAIL],
  ['an address of 255 characters with a space', valid(`a b@${'c'.repeat(247)}.com`), LONG_EMAIL, BAD_EMAIL],
  ['60,000 @', valid('@'.repeat(60_000)), LONG_EMAIL, BAD_EMAIL],
  ['a local part of 68 bytes in 17 characters', valid(`${'\u{20bb7}'.repeat(17)}@example.com`), BAD_EMAIL],
  ['a password of 7 characters', withPassword('abc+def'), SHORT],
  ['a password of 8 code points, which are 4 in NFC', withPassword('e\u0301'.repeat(4)), SHORT],
  ['257 characters', withPassword(`${long(256)}z`), 'Password is too long (maximum is 256 characters)'],
  ['the e-mail address', withPassword('P@EXAMPLE.com'), "Password can't be the same as the email"],
  ['a common password', withPassword('password1'), COMMON],
  ['a common password in capitals', withPassword('PASSWORD1'), COMMON],
  [
    'half a surrogate pair',
    withPassword('abcdefgh\udc00'),
    'Password contains characters that are not valid'
  ],
  ['no confirmation', { email: 'p@example.com', password: PASSWORD }, "Password confirmation can't be blank"],
  [
    'a different confirmation',
    { ...valid('p@example.com'), password_confirmation: 'something else' },
    UNLIKE
  ],
  ['all invalid', { email: 'x', password: 'short', password_confirmation: 'y' }, BAD_EMAIL, SHORT, UNLIKE],
  ['a taken address', valid('first@example.com', 'short'), SHORT, 'Email has already been taken']
]

t.test('sign-in without a user object gets 422 with the right shape', async (t) => {
  const shape = shapeOf({ email: 'you@example.com', password: 'correct horse' })
  const bare = { email: 'first@example.com', password: PASSWORD }
  const cases = [
    '',
    ...[null, 'x', {}, [], { user: null }, { user: [] }, bare].map((one) => JSON.stringify(one))
  ]
  for (const body of cases) {
    const response = await post('/auth/sign_in', body)
    t.equal(response.statusCode, 422, body)
    t.same(response.json(), { errors: [shape] })
  }
})

t.test('sign-up reports every broken rule at once', async (t) => {
  const before = await app.database.user.count()
  for (const [name, user, ...errors] of refused) {
    const response = await attempt(user)
    t.equal(response.statusCode, 422, name)
    t.same(response.json(), { errors }, name)
  }
  for (const body of ['[]', '"x"', '1', 'null', '{}', '']) {
    const response = await post('/auth/sign_up', body)
    t.equal(response.statusCode, 422, `body ${body}`)
    t.same(response.json(), { errors: [signUpShape] })
  }
  t.equal(await app.database.user.count(), before, 'no user was created')
})

t.test('sign-up accepts addresses and passwords of any allowed length', async (t) => {
  const local = 'a'.repeat(64)
  const domain = `${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(57)}.com`
  for (
    const [name, user] of Object.entries({
      'an e-mail address of 254 characters': valid(`${local}@${domain}`),
      'a local part of 64 bytes outside the BMP': valid(`${'\u{20bb7}'.repeat(16)}@example.com`),
      'a password of 8 characters': valid('short@example.com', 'zq8+kf3!'),
      'a password of 256 characters': valid('long@example.com', long(256)),
      'a password with NUL and spaces': valid('nul@example.com', ' a\0b c d ')
    })
  ) {
    const response = await attempt(user)
    t.equal(response.statusCode, 201, `${name}: ${response.body}`)
  }
})

t.test('unknown fields are ignored and not stored', async (t) => {
  const response = await post('/auth/sign_up', {
    user: { ...valid('mass@example.com'), id: 424242, passwordHash: 'x', created_at: '1970-01-01' },
    admin: true
  })
  t.equal(response.statusCode, 201)
  t.not(response.json().user.id, 424242)
  const withProto = `{"__proto__":{"user":1},"constructor":{"prototype":{}},"user":${
    JSON.stringify(valid('proto@example.com'))
  }}`
  t.equal((await post('/auth/sign_up', withProto)).statusCode, 201)
})

t.test('sign-in takes any Unicode form, and returns what sign-up does', async (t) => {
  const composed = 'pa\u00dfw\u00f6rt-7'
  const longest = '\u1fa7'.repeat(256) // 1,024 characters, decomposed
  for (const [n, password] of [composed, longest].entries()) {
    const decomposed = password.normalize('NFD')
    const email = `nfc-${n}@example.com`
    t.equal((await attempt({ email, password: decomposed, password_confirmation: password })).statusCode, 201)
    for (const form of [password, decomposed]) {
      const response = await post('/auth/sign_in', { user: { email: email.toUpperCase(), password: form } })
      t.equal(response.statusCode, 200)
      t.same(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user'])
      t.equal(response.json().user.email, email)
    }
  }
})

t.test('every failed sign-in gets the same 401 and costs one hash', async (t) => {
  const email = 'known@example.com'
  await signUp(app, email)
  const verified = t.capture(argon2, 'verify', argon2.verify)
  const cases = [
    { email, password: 'wrong password' },
    { email: 'unknown@example.com', password: PASSWORD },
    { email: 'no address', password: PASSWORD },
    { email: 'unknown\ud800@example.com', password: PASSWORD },
    { email: 'unknown\0@example.com', password: PASSWORD },
    { email, password: `${PASSWORD}\0` },
    { email, password: '' },
    { email },
    { password: PASSWORD },
    { email: [email], password: PASSWORD },
    { email, password: { not: '' } },
    {}
  ]
  for (const user of cases) {
    const body = JSON.stringify({ user })
    const response = await post('/auth/sign_in', body)
    t.equal(response.statusCode, 401, body)
    t.same(response.json(), { errors: ['Invalid email or password'] })
    t.equal(response.headers['www-authenticate'], 'Bearer')
    t.match(verified().map(({ args: [hash] }) => hash), [/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/], body)
  }
})

t.test('with SIGN_UP=closed, sign-up gets 403 and existing accounts can sign in', async (t) => {
  const settings = await testSettings(t)
  const { user } = await signUp(await buildTestApp(t, settings))
  const app = await buildTestApp(t, { ...settings, SIGN_UP: 'closed' })
  for (const payload of [{ user: valid('late@example.com') }, {}]) {
    const response = await sendAs(app, NOBODY, 'POST', '/auth/sign_up', payload)
    t.equal(response.statusCode, 403)
    t.match(response.json(), {
      errors: ['Sign-up is closed; ask the operator of this service for an account']
    })
  }
  t.equal(await app.database.user.count(), 1)
  t.equal(await signInStatus(app, user.email), 200)
})
