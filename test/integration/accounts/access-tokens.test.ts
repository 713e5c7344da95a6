import { createHmac, generateKeyPairSync, randomUUID, sign, type KeyPairKeyObjectResult } from 'node:crypto'
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
/** Returns a token that the key of an attacker has signed, and that names this key. */
function signedBy (alg: string, { privateKey, publicKey }: KeyPairKeyObjectResult): string {
  const jwk = publicKey.export({ format: 'jwk' })
  const signed = `${encode({ ...header, alg, kid: 'mine', jwk })}.${payloadPart}`
  const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
  const signature = sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), key)
  return `${signed}.${signature.toString('base64url')}`
}
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const MINE = 'a key that the attacker has, of 32 bytes'
const byMe = (changedHeader: object): string => forge(changedHeader, claims, { key: MINE })
const without = (name: string) =>
  Object.fromEntries(Object.entries(claims).filter(([claim]) => claim !== name))
const me = async (authorization: string, on = app) =>
  await on.inject({ url: '/auth/me', headers: { authorization } })

t.test('an access token is a complete JWT for 15 minutes', async (t) => {
  t.same(header, { alg: 'HS256', typ: 'at+jwt' })
  t.same(Object.keys(claims).sort(), ['aud', 'exp', 'iat', 'iss', 'jti', 'sid', 'sub'])
  t.equal(Number(claims.exp) - Number(claims.iat), 900)
  t.equal(claims.sub, String(account.user.id))
  t.equal((await me(`Bearer ${account.access_token}`)).statusCode, 200)
  t.equal((await me(`bearer  ${account.access_token}`)).statusCode, 200, 'a lower-case scheme and two spaces')
  t.equal((await me(`Bearer ${forge({}, claims)}`)).statusCode, 200, 'forge() makes valid tokens')
})

const now = Math.floor(Date.now() / 1000)
/** With a wrong header, key or claim. Those of a wrong form: test/integration/hostile/tokens.test.ts */
const bad: Record<string, string> = {
  'a changed signature': `${headerPart}.${payloadPart}.${signaturePart.startsWith('A') ? 'B' : 'A'}${
    signaturePart.slice(1)
  }`,
  'another key': byMe({}),
  'an empty key': forge({}, claims, { key: '' }),
  'our key without its last character': forge({}, claims, { key: JWT_SECRET.slice(0, -1) }),
  'a public key as the secret': forge({}, claims, {
    key: rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  }),
  'a key in the token itself': byMe({ jwk: { kty: 'oct', k: encode(MINE) } }),
  'a key by URL': byMe({ jku: 'http://127.0.0.1:1/keys.json', kid: 'mine' }),
  'a certificate by URL': byMe({ x5u: 'http://127.0.0.1:1/cert.pem' }),
  'a certificate in the token': byMe({ x5c: [encode(MINE)] }),
  'a kid that is a path': forge({ kid: '../../../../dev/null' }, claims, { key: '' }),
  'a kid that is SQL': byMe({ kid: `x' UNION SELECT '${MINE}' --` }),
  "RS256 with the attacker's key": signedBy('RS256', rsa),
  "ES256 with the attacker's key": signedBy('ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })),
  "EdDSA with the attacker's key": signedBy('EdDSA', generateKeyPairSync('ed25519')),
  'alg none': `${encode({ ...header, alg: 'none' })}.${payloadPart}.`,
  'alg none with our signature': forge({ alg: 'none' }, claims),
  'alg None': forge({ alg: 'None' }, claims),
  'no alg': forge({ alg: undefined }, claims),
  'alg a number': forge({ alg: 256 }, claims),
  HS384: forge({ alg: 'HS384' }, claims, { hash: 'sha384' }),
  HS512: forge({ alg: 'HS512' }, claims, { hash: 'sha512' }),
  RS256: forge({ alg: 'RS256' }, claims),
  'another type': forge({ typ: 'JWT' }, claims),
  'a refresh type': forge({ typ: 'rt+jwt' }, claims),
  'no type': forge({ typ: undefined }, claims),
  'type a number': forge({ typ: 1 }, claims),
  crit: forge({ crit: ['exp'] }, claims),
  'crit not a list': forge({ crit: 1 }, claims),
  'an unencoded payload': forge({ b64: false, crit: ['b64'] }, claims),
  'header not JSON': forge('{', claims),
  'header null': forge('null', claims),
  'payload not JSON': forge({}, '{'),
  'payload null': forge({}, 'null'),
  'payload a string': forge({}, '"x"'),
  'payload a list': forge({}, [claims]),
  'deeply nested claims': forge({}, `{"sub":${'['.repeat(2000)}${']'.repeat(2000)}}`),
  ...Object.fromEntries(Object.keys(claims).map((name) => [`no ${name}`, forge({}, without(name))])),
  ...Object.fromEntries([
    { iat: now - 1000, exp: now - 1 },
    ...[String(now + 100), null, -1, {}].map((exp) => ({ exp })),
    ...[now + 1000, 'x'].map((nbf) => ({ nbf })),
    { iat: now + 1000, exp: now + 2000 },
    { iat: 'x' },
    ...['somebody', ''].map((iss) => ({ iss })),
    ...['somebody', ['somebody', 'else']].map((aud) => ({ aud })),
    ...['2147483647', '9999999999', account.user.id, 'x', '1.0'].map((sub) => ({ sub })),
    ...[` ${claims.sub}`, `0${claims.sub}`, [claims.sub]].map((sub) => ({ sub })),
    ...[randomUUID(), "'; DROP TABLE sessions", {}, `${claims.sid}\0`].map((sid) => ({ sid })),
    { jti: 7 }
  ].map((changed) => [JSON.stringify(changed), forge({}, { ...claims, ...changed })]))
}

t.test('every invalid access token gets 401', async (t) => {
  for (const on of [app, replacing]) {
    t.equal((await me(`Bearer ${forge({}, claims)}`, on)).statusCode, 200)
    for (const [name, token] of Object.entries(bad)) {
      const response = await me(`Bearer ${token}`, on)
      t.equal(response.statusCode, 401, name)
      t.same(response.json(), { errors: ['Missing or invalid access token'] }, name)
      t.equal(response.headers['www-authenticate'], 'Bearer error="invalid_token"', name)
    }
  }
})

t.test('replicas accept the tokens of each other while JWT_SECRET is replaced', async (t) => {
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

t.test('an access token ends with its session and its user', async (t) => {
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
