import { createHmac, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import t from 'tap'
import { JWT_SECRET } from '../../helpers/app.ts'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Invalid access tokens on every route that requires one: headers, keys and encodings. Tests of claims and
// algorithms on one route: test/integration/accounts/access-tokens.test.ts.

const service = await hostileService(t)
const { account, page, app } = service
const probe = new Probe(t, service.url)
const owned = service.routes.filter((route) => route.owned)

const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const [headerPart = '', payloadPart = '', signaturePart = ''] = account.access_token.split('.')
const claims = JSON.parse(Buffer.from(payloadPart, 'base64url').toString()) as Record<string, unknown>
const hmac = (header: object, payload: unknown, key: string | KeyObject, hash = 'sha256'): string => {
  const signed = `${encode({ alg: 'HS256', typ: 'at+jwt', ...header })}.${encode(payload)}`
  return `${signed}.${createHmac(hash, key).update(signed).digest('base64url')}`
}
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const edwards = generateKeyPairSync('ed25519')
const signedBy = (
  alg: string,
  { privateKey, publicKey }: { privateKey: KeyObject, publicKey: KeyObject }
): string => {
  const jwk = publicKey.export({ format: 'jwk' })
  const signed = `${encode({ alg, typ: 'at+jwt', kid: 'mine', jwk })}.${payloadPart}`
  const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
  const signature = sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), key)
  return `${signed}.${signature.toString('base64url')}`
}
const rsaPublicKey = createPublicKey(rsa.privateKey).export({ type: 'spki', format: 'pem' }).toString()
const MINE = 'a key that the attacker has, of 32 bytes'
const mine = { kty: 'oct', k: encode(MINE) }
const now = Math.floor(Date.now() / 1000)

const forged: [what: string, authorization: string][] = [
  ['a key in the token itself', hmac({ jwk: mine }, claims, MINE)],
  ['a key by URL', hmac({ jku: 'http://127.0.0.1:1/keys.json', kid: 'mine' }, claims, MINE)],
  ['a certificate by URL', hmac({ x5u: 'http://127.0.0.1:1/cert.pem' }, claims, MINE)],
  ['a certificate in the token', hmac({ x5c: [encode(MINE)] }, claims, MINE)],
  ['a kid that is a path', hmac({ kid: '../../../../dev/null' }, claims, '')],
  ['a kid that is SQL', hmac({ kid: `x' UNION SELECT '${MINE}' --` }, claims, MINE)],
  ['an unencoded payload', hmac({ b64: false, crit: ['b64'] }, claims, JWT_SECRET)],
  ["RS256 with the attacker's key", signedBy('RS256', rsa)],
  ["ES256 with the attacker's key", signedBy('ES256', elliptic)],
  ["EdDSA with the attacker's key", signedBy('EdDSA', edwards)],
  ['HS256 with a public key as the secret', hmac({}, claims, rsaPublicKey)],
  ['a secret of spaces', hmac({}, claims, ' ')],
  ['our secret without its last character', hmac({}, claims, JWT_SECRET.slice(0, -1))],
  ['a refresh type', hmac({ typ: 'rt+jwt' }, claims, JWT_SECRET)],
  ['an empty issuer', hmac({}, { ...claims, iss: '' }, JWT_SECRET)],
  ['a list of other audiences', hmac({}, { ...claims, aud: ['somebody', 'else'] }, JWT_SECRET)],
  ['a sub with a fraction', hmac({}, { ...claims, sub: '1.0' }, JWT_SECRET)],
  ['a sub with a space', hmac({}, { ...claims, sub: ` ${claims.sub}` }, JWT_SECRET)],
  ['a sub with a leading zero', hmac({}, { ...claims, sub: `0${claims.sub}` }, JWT_SECRET)],
  ['a sub that is a list', hmac({}, { ...claims, sub: [claims.sub] }, JWT_SECRET)],
  ['a sid that is an object', hmac({}, { ...claims, sid: {} }, JWT_SECRET)],
  ['a sid with NUL', hmac({}, { ...claims, sid: `${claims.sid}\0` }, JWT_SECRET)],
  ['a negative exp', hmac({}, { ...claims, exp: -1 }, JWT_SECRET)],
  ['an exp that is an object', hmac({}, { ...claims, exp: {} }, JWT_SECRET)],
  ['issued tomorrow', hmac({}, { ...claims, iat: now + 86_400, exp: now + 90_000 }, JWT_SECRET)],
  ['deeply nested claims', hmac({}, `{"sub":${'['.repeat(2000)}${']'.repeat(2000)}}`, JWT_SECRET)],
  ['the payload of another token', `${headerPart}.${encode({ ...claims, sub: '2' })}.${signaturePart}`],
  ['only the signature', `..${signaturePart}`],
  ['five parts, like an encrypted token', `${headerPart}.${payloadPart}.${payloadPart}.x.${signaturePart}`],
  ['15 KB', `${headerPart}.${'A'.repeat(15_000)}.${signaturePart}`],
  ['14,000 dots', '.'.repeat(14_000)],
  ['a space inside', `${headerPart}. ${payloadPart}.${signaturePart}`],
  ['standard base64', `${headerPart}.${payloadPart}.+/${signaturePart.slice(2)}`],
  ['a percent-encoded dot', account.access_token.replace('.', '%2e')],
  ['the refresh token', account.refresh_token]
].map(([what, token]) => [what as string, `Bearer ${token}`])

const valid = `Bearer ${account.access_token}`
const headers: [what: string, lines: string[]][] = [
  ...forged.map(([what, authorization]) => [what, [`Authorization: ${authorization}`]] as [string, string[]]),
  ['no header', []],
  ['an empty header', ['Authorization:']],
  ['the valid token twice', [`Authorization: ${valid}`, `Authorization: ${valid}`]],
  ['a valid token after an invalid one', ['Authorization: Bearer x', `Authorization: ${valid}`]],
  ['an invalid token after a valid one', [`Authorization: ${valid}`, 'Authorization: Bearer x']],
  ['a tab instead of the space', [`Authorization: Bearer\t${account.access_token}`]],
  ['quotes', [`Authorization: Bearer "${account.access_token}"`]],
  ['a parameter', [`Authorization: Bearer token=${account.access_token}`]],
  ['Basic', [`Authorization: Basic ${Buffer.from(`${account.user.email}:x`).toString('base64')}`]],
  ['characters outside ASCII', ['Authorization: Bearer \u00e9\u00ff']],
  ['the token in other headers', [`Proxy-Authorization: ${valid}`, `X-Authorization: ${valid}`]],
  ['the token in a cookie', [`Cookie: access_token=${account.access_token}`]],
  ['headers of a trusted proxy', [`X-Forwarded-User: ${account.user.email}`, 'X-User-Id: 1']]
]

t.test('every invalid access token gets the same 401 on every route that requires one', async (t) => {
  const bodies = new Set<string>()
  for (const route of owned) {
    const path = `${route.path}?access_token=${account.access_token}`
    for (const [what, lines] of headers) {
      const name = `${route.name}, ${what}`
      const fields = lines.map((line) => `${line}\r\n`).join('')
      const head = requestOf(path, {}, route.method).replace('\r\n\r\n', `\r\n${fields}\r\n`)
      const response = await probe.expect(Buffer.from(head, 'latin1'), 401, name, route.method)
      t.match(response.head, /\r\nwww-authenticate: Bearer(?: error="invalid_token")?\r\n/i, name)
      bodies.add(response.body.toString())
    }
  }
  t.same([...bodies], ['{"errors":["Missing or invalid access token"]}'])
  t.equal(await app.database.landingPage.count(), 1)
  t.equal(await app.database.asset.count(), 1)
  t.equal((await app.inject({ url: `/landing_pages/${page.public_id}` })).statusCode, 200)
  t.equal((await app.inject({ url: '/auth/me', headers: account.headers })).statusCode, 200)
})

t.test('a token in the body is ignored, and the body of a request without a token is not parsed', async () => {
  for (const route of owned.filter(({ takes }) => takes === 'json')) {
    const body = JSON.stringify({
      access_token: account.access_token,
      authorization: `Bearer ${account.access_token}`,
      refresh_token: account.refresh_token,
      current_data: {}
    })
    const type = { 'Content-Type': 'application/json' }
    for (const sent of [body, '{', 'x'.repeat(3_000_000)]) {
      const bytes = requestWith(sent, route.method, route.path, type)
      await probe.expect(bytes, 401, `${route.name}, ${sent.slice(0, 20)}`, route.method)
    }
  }
})
