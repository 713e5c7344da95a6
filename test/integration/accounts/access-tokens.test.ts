import { createHmac, randomUUID } from 'node:crypto'
import t from 'tap'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { buildTestApp, JWT_SECRET, signIn, signUp, testSettings, type Account } from '../../helpers/app.ts'

const settings = await testSettings(t)
const app = await buildTestApp(t, settings)
const replaced = {
  ...settings,
  JWT_SECRET: 'the secret that replaces the one of the tests',
  JWT_SECRET_PREVIOUS: JWT_SECRET
}
/** Accepts tokens of the key of `app`, because it has just replaced it. */
const replacing = await buildTestApp(t, replaced)
const account = await signUp(app)

const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const decode = (part = ''): Record<string, unknown> => JSON.parse(Buffer.from(part, 'base64url').toString())
const [headerPart = '', payloadPart = '', signaturePart = ''] = account.access_token.split('.')
const header = decode(headerPart)
const claims = decode(payloadPart)

/** Returns a token with the given header and claims, by default signed with the key of the service. */
function forge (
  changedHeader: object | string,
  changedClaims: unknown,
  options: { hash?: string, key?: string } = {}
): string {
  const signed = `${
    encode(typeof changedHeader === 'string' ? changedHeader : { ...header, ...changedHeader })
  }.${encode(changedClaims)}`
  return `${signed}.${
    createHmac(options.hash ?? 'sha256', options.key ?? JWT_SECRET).update(signed).digest('base64url')
  }`
}
const without = (name: string) =>
  Object.fromEntries(Object.entries(claims).filter(([claim]) => claim !== name))
const me = async (authorization?: string, on = app) =>
  await on.inject({ url: '/auth/me', headers: authorization === undefined ? {} : { authorization } })

t.test('an access token is a JWT with all required claims that expires after 15 minutes', async (t) => {
  t.same(header, { alg: 'HS256', typ: 'at+jwt' })
  t.same(Object.keys(claims).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'sid', 'sub'])
  t.equal(Number(claims.exp) - Number(claims.iat), 900)
  t.equal(claims.sub, String(account.user.id))
  t.equal((await me(`Bearer ${account.access_token}`)).statusCode, 200)
  t.equal((await me(`bearer  ${account.access_token}`)).statusCode, 200, 'a lower-case scheme and two spaces')
  t.equal((await me(`Bearer ${forge({}, claims)}`)).statusCode, 200, 'forge() makes valid tokens')
})

const now = Math.floor(Date.now() / 1000)
const bad: Record<string, string | undefined> = {
  'no token': 'Bearer',
  'the token without a scheme': account.access_token,
  'two tokens': `Bearer ${account.access_token} ${account.access_token}`,
  'a comma': `Bearer ${account.access_token}, Bearer ${account.access_token}`,
  'not a JWT': 'Bearer abc',
  'two parts': `Bearer ${headerPart}.${payloadPart}`,
  'four parts': `Bearer ${account.access_token}.x`,
  'no signature': `Bearer ${headerPart}.${payloadPart}.`,
  'a changed signature': `Bearer ${headerPart}.${payloadPart}.${signaturePart.startsWith('A') ? 'B' : 'A'}${
    signaturePart.slice(1)
  }`,
  'another key': `Bearer ${forge({}, claims, { key: 'another secret, just as long as ours is' })}`,
  'an empty key': `Bearer ${forge({}, claims, { key: '' })}`,
  'alg none': `Bearer ${encode({ ...header, alg: 'none' })}.${payloadPart}.`,
  'alg none with our signature': `Bearer ${forge({ alg: 'none' }, claims)}`,
  'alg None': `Bearer ${forge({ alg: 'None' }, claims)}`,
  'no alg': `Bearer ${forge({ alg: undefined }, claims)}`,
  'alg a number': `Bearer ${forge({ alg: 256 }, claims)}`,
  HS384: `Bearer ${forge({ alg: 'HS384' }, claims, { hash: 'sha384' })}`,
  HS512: `Bearer ${forge({ alg: 'HS512' }, claims, { hash: 'sha512' })}`,
  RS256: `Bearer ${forge({ alg: 'RS256' }, claims)}`,
  'another type': `Bearer ${forge({ typ: 'JWT' }, claims)}`,
  'no type': `Bearer ${forge({ typ: undefined }, claims)}`,
  'type a number': `Bearer ${forge({ typ: 1 }, claims)}`,
  crit: `Bearer ${forge({ crit: ['exp'] }, claims)}`,
  'crit not a list': `Bearer ${forge({ crit: 1 }, claims)}`,
  'header not JSON': `Bearer ${forge('{', claims)}`,
  'header null': `Bearer ${forge('null', claims)}`,
  'payload not JSON': `Bearer ${forge({}, '{')}`,
  'payload null': `Bearer ${forge({}, 'null')}`,
  'payload a string': `Bearer ${forge({}, '"x"')}`,
  'payload a list': `Bearer ${forge({}, [claims])}`,
  expired: `Bearer ${forge({}, { ...claims, iat: now - 1000, exp: now - 1 })}`,
  'exp a string': `Bearer ${forge({}, { ...claims, exp: String(now + 100) })}`,
  'exp null': `Bearer ${forge({}, { ...claims, exp: null })}`,
  'nbf in the future': `Bearer ${forge({}, { ...claims, nbf: now + 1000 })}`,
  'nbf a string': `Bearer ${forge({}, { ...claims, nbf: 'x' })}`,
  'iat in the future': `Bearer ${forge({}, { ...claims, iat: now + 1000, exp: now + 2000 })}`,
  'iat a string': `Bearer ${forge({}, { ...claims, iat: 'x' })}`,
  'another issuer': `Bearer ${forge({}, { ...claims, iss: 'somebody' })}`,
  'another audience': `Bearer ${forge({}, { ...claims, aud: 'somebody' })}`,
  'sub of an unknown user': `Bearer ${forge({}, { ...claims, sub: '2147483647' })}`,
  'sub too large': `Bearer ${forge({}, { ...claims, sub: '9999999999' })}`,
  'sub a number': `Bearer ${forge({}, { ...claims, sub: account.user.id })}`,
  'sub not a number': `Bearer ${forge({}, { ...claims, sub: 'x' })}`,
  'sid of an unknown session': `Bearer ${forge({}, { ...claims, sid: randomUUID() })}`,
  'sid not a UUID': `Bearer ${forge({}, { ...claims, sid: "'; DROP TABLE sessions" })}`,
  'jti not a UUID': `Bearer ${forge({}, { ...claims, jti: 7 })}`,
  ...Object
    .fromEntries(Object.keys(claims).map((name) => [`no ${name}`, `Bearer ${forge({}, without(name))}`]))
}

t.test('every invalid access token gets 401', async (t) => {
  for (const on of [app, replacing]) {
    t.equal((await me(`Bearer ${forge({}, claims)}`, on)).statusCode, 200)
    for (const [name, authorization] of Object.entries(bad)) {
      const response = await me(authorization, on)
      t.equal(response.statusCode, 401, name)
      t.same(response.json(), { errors: ['Missing or invalid access token'] }, name)
      const isBearer = /^Bearer /i.test(authorization ?? '')
      const expected = isBearer ? 'Bearer error="invalid_token"' : 'Bearer'
      t.equal(response.headers['www-authenticate'], expected, name)
    }
  }
})

t.test('while JWT_SECRET is replaced in the documented steps, replicas accept the tokens of each other', async (t) => {
  const [old, fresh] = [JWT_SECRET, replaced.JWT_SECRET]
  const start = async (secret: string, previous?: string) =>
    await buildApp(loadConfig({ ...settings, JWT_SECRET: secret, JWT_SECRET_PREVIOUS: previous }))
  const replicas = [await start(old), await start(old)]
  t.teardown(async () => await Promise.all(replicas.map(async (replica) => await replica.close())))
  const sessions: Account[] = []
  for (const [secret, previous] of [[old, fresh], [fresh, old], [fresh]] as const) {
    // The last step comes when all tokens of the old secret have expired.
    if (previous === undefined) sessions.splice(0)
    for (const index of replicas.keys()) {
      await replicas[index]?.close()
      replicas[index] = await start(secret as string, previous)
      for (const replica of replicas) sessions.push(await signIn(replica, account))
      for (const replica of replicas) {
        for (const session of sessions) {
          t.equal((await me(session.headers.authorization, replica)).statusCode, 200)
        }
      }
    }
  }
  t.equal((await me(account.headers.authorization, replicas[0])).statusCode, 401)
})

t.test('a token with the session of another user gets 401', async (t) => {
  const other = await signUp(app)
  const { sid } = decode(other.access_token.split('.')[1])
  t.equal((await me(`Bearer ${forge({}, { ...claims, sid })}`)).statusCode, 401)
})

t.test('an access token gets 401 after its session has ended or its user was deleted', async (t) => {
  const ended = await signUp(app)
  const { sid } = decode(ended.access_token.split('.')[1])
  await app.database.session.update({
    where: { id: String(sid) },
    data: { expiresAt: new Date(Date.now() - 1000) }
  })
  t.equal((await me(ended.headers.authorization)).statusCode, 401)

  const gone = await signUp(app)
  await app.database.user.delete({ where: { id: gone.user.id } })
  t.equal((await me(gone.headers.authorization)).statusCode, 401)
})
