import { createHmac, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import t from 'tap'
import { JWT_SECRET } from '../helpers/app.ts'
import { requestOf, requestWith } from '../helpers/raw.ts'
import { hostileService, Probe } from './service.ts'

// Access tokens that are none, at every route that wants one. test/auth/access-tokens.test.ts has the long list of
// claims and algorithms for one route; these are the ways that depend on headers, keys and connections.

const service = await hostileService(t)
const { account, page, app } = service
const probe = new Probe(t, service.url)
const owned = service.routes.filter((route) => route.owned)

const encode = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const [headerPart = '', payloadPart = '', signaturePart = ''] = account.access_token.split('.')
const claims = JSON.parse(Buffer.from(payloadPart, 'base64url').toString()) as Record<string, unknown>
const hmac = (header: object, payload: unknown, key: string | KeyObject, hash = 'sha256'): string => {
  const signed = `${encode({ alg: 'HS256', typ: 'at+jwt', ...header })}.${encode(payload)}`
  return `${signed}.${createHmac(hash, key).update(signed).digest('base64url')}`
}
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const edwards = generateKeyPairSync('ed25519')
const signedBy = (alg: string, { privateKey, publicKey }: { privateKey: KeyObject, publicKey: KeyObject }): string => {
  const signed = `${encode({ alg, typ: 'at+jwt', kid: 'mine', jwk: publicKey.export({ format: 'jwk' }) })}.${payloadPart}`
  return `${signed}.${sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
}
const MINE = 'a key that the attacker has, of 32 bytes'
const mine = { kty: 'oct', k: encode(MINE) }
const now = Math.floor(Date.now() / 1000)

const forged: [what: string, authorization: string][] = [
  ['a key in the token itself', hmac({ jwk: mine }, claims, MINE)],
  ['a key by URL', hmac({ jku: 'http://127.0.0.1:1/keys.json', kid: 'mine' }, claims, MINE)],
  ['a certificate by URL', hmac({ x5u: 'http://127.0.0.1:1/cert.pem' }, claims, MINE)],
  ['a certificate in the token', hmac({ x5c: [encode(MINE)] }, claims, MINE)],
  ['a kid that is a path', hmac({ kid: '../../../../dev/null' }, claims, '')],
  ['a kid that is SQL', hmac({ kid: "x' UNION SELECT 'a key that the attacker has, of 32 bytes' --" }, claims, MINE)],
  ['an unencoded payload', hmac({ b64: false, crit: ['b64'] }, claims, JWT_SECRET)],
  ['RS256 with a key of their own', signedBy('RS256', rsa)],
  ['ES256 with a key of their own', signedBy('ES256', elliptic)],
  ['EdDSA with a key of their own', signedBy('EdDSA', edwards)],
  ['HS256 with a public key for a secret', hmac({}, claims, createPublicKey(rsa.privateKey).export({ type: 'spki', format: 'pem' }).toString())],
  ['a secret of spaces', hmac({}, claims, ' ')],
  ['a secret that is nearly ours', hmac({}, claims, JWT_SECRET.slice(0, -1))],
  ['a refresh type', hmac({ typ: 'rt+jwt' }, claims, JWT_SECRET)],
  ['no issuer, an empty one', hmac({}, { ...claims, iss: '' }, JWT_SECRET)],
  ['a list of other audiences', hmac({}, { ...claims, aud: ['somebody', 'else'] }, JWT_SECRET)],
  ['a sub with a fraction', hmac({}, { ...claims, sub: '1.0' }, JWT_SECRET)],
  ['a sub with a space', hmac({}, { ...claims, sub: ` ${claims.sub}` }, JWT_SECRET)],
  ['a sub with a zero before it', hmac({}, { ...claims, sub: `0${claims.sub}` }, JWT_SECRET)],
  ['a sub that is a list', hmac({}, { ...claims, sub: [claims.sub] }, JWT_SECRET)],
  ['a sid that is an object', hmac({}, { ...claims, sid: {} }, JWT_SECRET)],
  ['a sid with NUL', hmac({}, { ...claims, sid: `${claims.sid}\0` }, JWT_SECRET)],
  ['exp in milliseconds of the past', hmac({}, { ...claims, exp: -1 }, JWT_SECRET)],
  ['exp an object', hmac({}, { ...claims, exp: {} }, JWT_SECRET)],
  ['issued tomorrow', hmac({}, { ...claims, iat: now + 86_400, exp: now + 90_000 }, JWT_SECRET)],
  ['claims nested deeply', hmac({}, `{"sub":${'['.repeat(2000)}${']'.repeat(2000)}}`, JWT_SECRET)],
  ['the payload of another token', `${headerPart}.${encode({ ...claims, sub: '2' })}.${signaturePart}`],
  ['the signature alone', `..${signaturePart}`],
  ['the encrypted kind', `${headerPart}.${payloadPart}.${payloadPart}.${payloadPart}.${signaturePart}`],
  ['15 KB', `${headerPart}.${'A'.repeat(15_000)}.${signaturePart}`],
  ['14,000 dots', '.'.repeat(14_000)],
  ['a space inside', `${headerPart}. ${payloadPart}.${signaturePart}`],
  ['standard base64', `${headerPart}.${payloadPart}.+/${signaturePart.slice(2)}`],
  ['an escape', account.access_token.replace('.', '%2e')],
  ['the refresh token', account.refresh_token]
].map(([what, token]) => [what as string, `Bearer ${token}`])

const headers: [what: string, lines: string[]][] = [
  ...forged.map(([what, authorization]) => [what, [`Authorization: ${authorization}`]] as [string, string[]]),
  ['nothing', []],
  ['an empty header', ['Authorization:']],
  ['the good one twice', [`Authorization: Bearer ${account.access_token}`, `Authorization: Bearer ${account.access_token}`]],
  ['a good one behind a bad one', ['Authorization: Bearer x', `Authorization: Bearer ${account.access_token}`]],
  ['a bad one behind a good one', [`Authorization: Bearer ${account.access_token}`, 'Authorization: Bearer x']],
  ['a tab for the space', [`Authorization: Bearer\t${account.access_token}`]],
  ['quotes', [`Authorization: Bearer "${account.access_token}"`]],
  ['a parameter', [`Authorization: Bearer token=${account.access_token}`]],
  ['Basic', [`Authorization: Basic ${Buffer.from(`${account.user.email}:x`).toString('base64')}`]],
  ['beyond ASCII', ['Authorization: Bearer \u00e9\u00ff']],
  ['another header', [`Proxy-Authorization: Bearer ${account.access_token}`, `X-Authorization: Bearer ${account.access_token}`]],
  ['a cookie', [`Cookie: access_token=${account.access_token}; token=${account.access_token}`]],
  ['a trusted user', [`X-Forwarded-User: ${account.user.email}`, 'X-User-Id: 1', 'X-Original-URL: /health/live']]
]

t.test('whatever is no access token of ours is the same 401 at every route that wants one', async (t) => {
  const bodies = new Set<string>()
  for (const route of owned) {
    const path = `${route.path}?access_token=${account.access_token}`
    for (const [what, lines] of headers) {
      const name = `${route.name}, ${what}`
      const head = requestOf(path, {}, route.method).replace('\r\n\r\n', `\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`)
      const answer = await probe.send(Buffer.from(head, 'latin1'), name, route.method)
      probe.is(answer, 401, name)
      t.match(answer.head, /\r\nwww-authenticate: Bearer\r\n/i, name)
      bodies.add(answer.body.toString())
    }
  }
  t.same([...bodies], ['{"errors":["Missing or invalid access token"]}'])
  t.equal(await app.database.landingPage.count(), 1)
  t.equal(await app.database.asset.count(), 1)
  t.equal((await app.inject({ url: `/landing_pages/${page.public_id}` })).statusCode, 200)
  t.equal((await app.inject({ url: '/auth/me', headers: account.headers })).statusCode, 200, 'and the good one is still good')
})

t.test('a token in the body is none, and a body is not read for who has none', async () => {
  for (const route of owned.filter(({ takes }) => takes === 'json')) {
    const body = JSON.stringify({ access_token: account.access_token, authorization: `Bearer ${account.access_token}`, refresh_token: account.refresh_token, current_data: {} })
    for (const [what, sent] of [['a token in the body', body], ['no JSON', '{'], ['a body over the limit', 'x'.repeat(3_000_000)]] as const) {
      probe.is(await probe.send(requestWith(sent, route.method, route.path, { 'Content-Type': 'application/json' }), `${route.name}, ${what}`, route.method), 401, `${route.name}, ${what}`)
    }
  }
})
