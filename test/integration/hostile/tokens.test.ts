import t from 'tap'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Malformed access tokens and headers on every route that requires a token. Tests of forged claims, keys and
// algorithms: test/integration/accounts/access-tokens.test.ts.

const service = await hostileService(t)
const { account, page, app } = service
const probe = new Probe(t, service.url)
const owned = service.routes.filter((route) => route.owned)

const [headerPart = '', payloadPart = '', signaturePart = ''] = account.access_token.split('.')
const otherUser = Buffer.from(payloadPart, 'base64url').toString().replace(/"sub":"\d+"/, '"sub":"2"')
const malformed: [what: string, token: string][] = [
  ['not a JWT', 'abc'],
  ['two parts', `${headerPart}.${payloadPart}`],
  ['four parts', `${account.access_token}.x`],
  ['five parts, like an encrypted token', `${headerPart}.${payloadPart}.${payloadPart}.x.${signaturePart}`],
  ['no signature', `${headerPart}.${payloadPart}.`],
  ['only the signature', `..${signaturePart}`],
  ['another payload', `${headerPart}.${Buffer.from(otherUser).toString('base64url')}.${signaturePart}`],
  ['15 KB', `${headerPart}.${'A'.repeat(15_000)}.${signaturePart}`],
  ['14,000 dots', '.'.repeat(14_000)],
  ['a space inside', `${headerPart}. ${payloadPart}.${signaturePart}`],
  ['standard base64', `${headerPart}.${payloadPart}.+/${signaturePart.slice(2)}`],
  ['a percent-encoded dot', account.access_token.replace('.', '%2e')],
  ['two tokens', `${account.access_token} ${account.access_token}`],
  ['a comma', `${account.access_token}, Bearer ${account.access_token}`],
  ['the refresh token', account.refresh_token]
]

const valid = `Bearer ${account.access_token}`
const headers: [what: string, lines: string[]][] = [
  ...malformed.map(([what, token]) => [what, [`Authorization: Bearer ${token}`]] as [string, string[]]),
  ['no header', []],
  ['an empty header', ['Authorization:']],
  ['no token', ['Authorization: Bearer']],
  ['the token without a scheme', [`Authorization: ${account.access_token}`]],
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

t.test('every invalid access token gets the same 401 on every route', async (t) => {
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
