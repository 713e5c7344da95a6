import t from 'tap'
import { buildTestApp, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'

const app = await buildTestApp(t, {
  settings: { SIGN_UPS_PER_ADDRESS: '10000', SIGN_IN_FAILURES_PER_ADDRESS: '10000' }
})

const post = async (url: string, payload: unknown) =>
  await app.inject({ method: 'POST', url, payload: payload as object })
/** Sends a body that is exactly this text. */
const postText = async (url: string, payload: string) =>
  await app.inject({ method: 'POST', url, headers: { 'content-type': 'application/json' }, payload })
const attempt = async (user: unknown) => await post('/auth/sign_up', { user })
const valid = (email: string, password = PASSWORD) => ({ email, password, password_confirmation: password })

t.test('sign-up answers 201 with the user and two tokens', async (t) => {
  const response = await attempt(valid('first@example.com'))
  t.equal(response.statusCode, 201)
  t.match(response.headers['content-type'], /^application\/json/)
  t.equal(response.headers['cache-control'], 'no-store')
  t.equal(response.headers.expires, undefined)
  t.equal(response.headers.pragma, undefined)
  t.equal(response.headers.location, '/auth/me')
  const body = response.json()
  t.same(Object.keys(body).sort(), ['access_token', 'refresh_token', 'user'])
  t.same(Object.keys(body.user).sort(), ['email', 'email_confirmed_at', 'id'])
  t.ok(Number.isInteger(body.user.id))
  t.equal(body.user.email, 'first@example.com')
  t.equal(Buffer.from(body.refresh_token, 'base64url').length, 32, 'the refresh token has 256 bits')

  const me = await app.inject({ url: '/auth/me', headers: { authorization: `Bearer ${body.access_token}` } })
  t.equal(me.statusCode, 200)
  t.same(me.json(), { user: body.user })
})

t.test('an e-mail address is trimmed and normalised, and is unique in any case and Unicode form', async (t) => {
  for (
    const [given, stored, ...forms] of [
      [
        '  Ame\u0301lie@Example.COM ',
        'am\u00e9lie@example.com',
        'AME\u0301LIE@EXAMPLE.com',
        ' am\u00e9lie@example.com\n'
      ],
      ['\u{10400}@example.com', '\u{10428}@example.com'],
      ['\u{20bb7}\u7530@example.com', '\u{20bb7}\u7530@example.com'],
      ['\u{20bb8}\u7530@example.com', '\u{20bb8}\u7530@example.com']
    ] as const
  ) {
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

t.test('an account with an address that sign-up refuses by now can still sign in', async (t) => {
  const email = '"older"@example.com'
  await app.database.user.create({ data: { email, passwordHash: await app.passwords.hash(PASSWORD) } })
  t.equal((await post('/auth/sign_in', { user: { email, password: PASSWORD } })).statusCode, 200)
  t.same((await attempt(valid(email))).json(), { errors: ['Email is invalid'] })
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
const shapeOf = (user: object) => `Request body must look like ${JSON.stringify({ user })}`
const signUpShape = shapeOf({
  email: 'you@example.com',
  password: 'correct horse',
  password_confirmation: 'correct horse'
})
const long = (length: number) => 'x1'.repeat(length / 2)
const refused: [name: string, user: unknown, errors: string[]][] = [
  ['no user', undefined, [signUpShape]],
  ['null', null, [signUpShape]],
  ['a string', 'user', [signUpShape]],
  ['an array', [], [signUpShape]],
  ['empty', {}, blankAll],
  ['nulls', { email: null, password: null, password_confirmation: null }, blankAll],
  ['numbers', { email: 1, password: 2, password_confirmation: 3 }, [
    'Email must be a string',
    'Password must be a string',
    'Password confirmation must be a string'
  ]],
  ['an object as e-mail address', { ...valid('x'), email: { contains: '@' } }, ['Email must be a string']],
  ['a blank e-mail address', valid('  '), ["Email can't be blank"]],
  ['no @', valid('nobody'), ['Email is invalid']],
  ['half a surrogate pair in the address', valid('a\ud800@example.com'), ['Email is invalid']],
  ['an address of 255 characters', valid(`${'a'.repeat(243)}@example.com`), [
    'Email is too long (maximum is 254 characters)'
  ]],
  ['an address of 255 characters without @', valid('a'.repeat(255)), [
    'Email is too long (maximum is 254 characters)',
    'Email is invalid'
  ]],
  ['an address of 255 characters with a space', valid(`a b@${'c'.repeat(247)}.com`), [
    'Email is too long (maximum is 254 characters)',
    'Email is invalid'
  ]],
  ['an address of 60,000 bytes without @', valid('\u{20bb7}'.repeat(15_000)), [
    'Email is too long (maximum is 254 characters)',
    'Email is invalid'
  ]],
  ['60,000 @', valid('@'.repeat(60_000)), [
    'Email is too long (maximum is 254 characters)',
    'Email is invalid'
  ]],
  ['a local part of 68 bytes in 17 characters', valid(`${'\u{20bb7}'.repeat(17)}@example.com`), [
    'Email is invalid'
  ]],
  ['a password of 7 characters', valid('p@example.com', 'abc+def'), [
    'Password is too short (minimum is 8 characters)'
  ]],
  ['a password of 8 code points, which are 4 in NFC', valid('p@example.com', 'e\u0301'.repeat(4)), [
    'Password is too short (minimum is 8 characters)'
  ]],
  ['a password of 257 characters', valid('p@example.com', `${long(256)}z`), [
    'Password is too long (maximum is 256 characters)'
  ]],
  ['the e-mail address as password', valid('Owner@example.com', 'owner@EXAMPLE.com'), [
    "Password can't be the same as the email"
  ]],
  ['a common password', valid('p@example.com', 'password1'), ['Password is too common']],
  ['a common password in capitals', valid('p@example.com', 'PASSWORD1'), ['Password is too common']],
  ['half a surrogate pair in the password', valid('p@example.com', 'abcdefgh\udc00'), [
    'Password contains characters that are not valid'
  ]],
  ['no confirmation', { email: 'p@example.com', password: PASSWORD }, [
    "Password confirmation can't be blank"
  ]],
  ['a different confirmation', { ...valid('p@example.com'), password_confirmation: 'something else' }, [
    "Password confirmation doesn't match Password"
  ]],
  ['all fields invalid', { email: 'x', password: 'short', password_confirmation: 'other' }, [
    'Email is invalid',
    'Password is too short (minimum is 8 characters)',
    "Password confirmation doesn't match Password"
  ]],
  ['a taken address and a short password', valid('first@example.com', 'short'), [
    'Password is too short (minimum is 8 characters)',
    'Email has already been taken'
  ]]
]

t.test('sign-in without a user object gets 422 with the right shape', async (t) => {
  const shape = shapeOf({ email: 'you@example.com', password: 'correct horse' })
  for (
    const body of [undefined, null, 'x', {}, [], { user: null }, { user: 'x' }, { user: [] }, {
      email: 'first@example.com',
      password: PASSWORD
    }]
  ) {
    const response = await postText('/auth/sign_in', body === undefined ? '' : JSON.stringify(body))
    t.equal(response.statusCode, 422, JSON.stringify(body))
    t.same(response.json(), { errors: [shape] })
  }
})

t.test('sign-up reports every broken rule at once', async (t) => {
  const before = await app.database.user.count()
  for (const [name, user, errors] of refused) {
    const response = await attempt(user)
    t.equal(response.statusCode, 422, name)
    t.same(response.json(), { errors }, name)
  }
  for (const body of ['[]', '"x"', '1', 'null', '{}', '']) {
    const response = await postText('/auth/sign_up', body)
    t.equal(response.statusCode, 422, `body ${body}`)
    t.same(response.json(), { errors: [signUpShape] })
  }
  t.equal(await app.database.user.count(), before, 'no user was created')
})

t.test('sign-up accepts e-mail addresses and passwords at the limits of their length', async (t) => {
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
  const withProto = await postText(
    '/auth/sign_up',
    `{"__proto__":{"user":1},"constructor":{"prototype":{}},"user":${
      JSON.stringify(valid('proto@example.com'))
    }}`
  )
  t.equal(withProto.statusCode, 201)
})

t.test('sign-in returns the same fields as sign-up and accepts the password in any Unicode form', async (t) => {
  const user = {
    email: 'nfc@example.com',
    password: 'pa\u00dfwo\u0308rt-7',
    password_confirmation: 'pa\u00dfw\u00f6rt-7'
  }
  t.equal((await attempt(user)).statusCode, 201)
  for (const password of ['pa\u00dfwo\u0308rt-7', 'pa\u00dfw\u00f6rt-7']) {
    const response = await post('/auth/sign_in', { user: { email: 'NFC@example.com', password } })
    t.equal(response.statusCode, 200)
    t.same(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user'])
    t.equal(response.json().user.email, 'nfc@example.com')
  }
})

t.test('every failed sign-in gets the same 401', async (t) => {
  await signUp(app, 'known@example.com')
  for (
    const body of [
      { user: { email: 'known@example.com', password: 'wrong password' } },
      { user: { email: 'unknown@example.com', password: PASSWORD } },
      { user: { email: 'unknown\ud800@example.com', password: PASSWORD } },
      { user: { email: 'unknown\0@example.com', password: PASSWORD } },
      { user: { email: 'known@example.com', password: `${PASSWORD}\0` } },
      { user: { email: 'known@example.com', password: '' } },
      { user: { email: 'known@example.com' } },
      { user: { password: PASSWORD } },
      { user: { email: ['known@example.com'], password: PASSWORD } },
      { user: { email: 'known@example.com', password: { not: '' } } },
      { user: {} }
    ]
  ) {
    const response = await postText('/auth/sign_in', JSON.stringify(body))
    t.equal(response.statusCode, 401, JSON.stringify(body))
    t.same(response.json(), { errors: ['Invalid email or password'] })
    t.equal(response.headers['www-authenticate'], 'Bearer')
  }
})

t.test('with SIGN_UP=closed, sign-up gets 403 and existing accounts can sign in', async (t) => {
  const settings = await testSettings(t)
  const { user } = await signUp(await buildTestApp(t, { settings }))
  const app = await buildTestApp(t, { settings: { ...settings, SIGN_UP: 'closed' } })
  for (const payload of [{ user: valid('late@example.com') }, {}]) {
    const response = await app.inject({ method: 'POST', url: '/auth/sign_up', payload })
    t.equal(response.statusCode, 403)
    t.same(response.json(), {
      errors: ['Sign-up is closed; ask the operator of this service for an account']
    })
  }
  t.equal(await app.database.user.count(), 1)
  const signIn = await app.inject({
    method: 'POST',
    url: '/auth/sign_in',
    payload: { user: { email: user.email, password: PASSWORD } }
  })
  t.equal(signIn.statusCode, 200)
})

/** 100 requests take less than 100 ms, but 20 s if the service normalizes their combining marks. */
const PATIENCE_MS = 10_000

t.test('inputs with thousands of combining marks are refused quickly', async (t) => {
  const marks = 'a' + '\u0301\u0323'.repeat(14_000)
  const started = performance.now()
  for (let n = 0; n < 100; n++) {
    const user = n % 2 === 0 ? { email: `${marks}@example.com` } : { password: marks }
    t.equal((await attempt(user)).statusCode, 422)
  }
  t.ok(performance.now() - started < PATIENCE_MS)
})

t.test('a password of the maximum length is accepted in any Unicode normalization form', async (t) => {
  const composed = '\u1fa7'.repeat(256)
  const decomposed = composed.normalize('NFD')
  t.equal(decomposed.length, 1024)
  const email = 'longest@example.com'
  const signUp = await attempt({ email, password: decomposed, password_confirmation: composed })
  t.equal(signUp.statusCode, 201, signUp.body)
  for (const password of [composed, decomposed]) {
    t.equal((await post('/auth/sign_in', { user: { email, password } })).statusCode, 200)
  }
})
