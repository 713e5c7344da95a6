import { mock } from 'node:test'
import t from 'tap'
import { operatorOf, setPassword } from '../../../src/modules/accounts/index.ts'
import { cleanUpPages } from '../../../src/modules/landing-pages/cleanup.ts'
import { buildTestApp, createKey, createPage, PASSWORD, senderFor, signUp, testSettings, walkList,
  type Account } from '../../helpers/app.ts'
import { claimRedis, query } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'

// Preview links, on two replicas.

const settings = { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)
const owner = await signUp(app)
const { DATABASE_URL: database = '' } = app.config

type Headers = Record<string, string>

interface Link {
  readonly id: string
  readonly token: string
}

const send = senderFor(app, owner)
const linksOf = (id: string): string => `/manage/landing_pages/${id}/preview_links`
const createLink = async (id: string, body?: object, account?: Pick<Account, 'headers'>): Promise<Link> => {
  const response = await send('POST', linksOf(id), body, {}, account)
  if (response.statusCode !== 201) throw new Error(response.body)
  return response.json()
}

let address = 0
/** Reads a preview from a new client address. */
const preview = async (
  publicId: string,
  token: string | undefined,
  {
    method = 'GET' as 'GET' | 'HEAD',
    headers = {} as Headers,
    on = replica,
    from = `192.0.2.${++address % 250}`
  } = {}
) =>
  await on.inject({
    method,
    url: `/previews/${publicId}`,
    headers: { ...token !== undefined && { authorization: `Bearer ${token}` }, ...headers },
    remoteAddress: from
  })
const statusOf = async (publicId: string, token: string): Promise<number> =>
  (await preview(publicId, token)).statusCode

t.test('a link shows the draft, or else the document, to the byte, published or not', async (t) => {
  const page = await createPage(app, owner, '{"b":1e400, "a" : "\\u00e9"}')
  const url = `/manage/landing_pages/${page.id}`
  const { token } = await createLink(page.id)
  const document = await preview(page.public_id, token)
  t.equal(document.body, '{"b":1e400, "a" : "\\u00e9"}')
  t.match(document.headers, {
    etag: /^"[\w-]{43}"$/,
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'private, no-store',
    'landfall-preview': 'document',
    'x-robots-tag': 'noindex',
    'referrer-policy': 'no-referrer',
    'access-control-allow-origin': '*',
    'access-control-expose-headers': /\bETag\b.*\bLandfall-Preview\b/
  })
  t.equal(document.headers['access-control-allow-credentials'], undefined)

  await send('POST', `${url}/unpublish`)
  t.equal((await preview(page.public_id, token)).body, document.body)
  const { headers: { etag } } = await send('PUT', `${url}/draft`, '[ 1.0 ]')
  const draft = await preview(page.public_id, token)
  t.match(draft, { body: '[ 1.0 ]', headers: { etag, 'landfall-preview': 'draft' } })

  const known = { headers: { 'if-none-match': String(etag) } }
  t.match(await preview(page.public_id, token, known), {
    statusCode: 304,
    body: '',
    headers: { etag, 'landfall-preview': 'draft', 'cache-control': 'private, no-store' }
  })
  const since = { headers: { 'if-modified-since': new Date(Date.now() + 60_000).toUTCString() } }
  const dated = await preview(page.public_id, token, since)
  t.equal(dated.statusCode, 200, 'the draft may go, so dates say nothing')
  const head = await preview(page.public_id, token, { method: 'HEAD' })
  const { date: _date, 'x-request-id': _id, ...headers } = draft.headers
  t.match(head, { statusCode: 200, body: '', headers })
  t.match(await preview(page.public_id, token, { headers: { range: 'bytes=0-1' } }), {
    statusCode: 200,
    body: '[ 1.0 ]'
  })
  await send('DELETE', `${url}/draft`)
  t.match(await preview(page.public_id, token, known), { statusCode: 200, body: document.body })
})

t.test('however a token fails, the response is the same 401', async (t) => {
  const [page, other] = [await createPage(app, owner), await createPage(app, await signUp(app))]
  const { token } = await createLink(page.id)
  const stranger = await createPage(app, owner)
  const key = (await createKey(app, owner, ['pages:read', 'pages:write'])).key
  const expired = await createLink(page.id)
  const gone = await createLink(page.id)
  await query(database, `UPDATE preview_links SET expires_at = now() WHERE id = '${expired.id}'`)
  await send('DELETE', `${linksOf(page.id)}/${gone.id}`)
  const wrong = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A')
  const bearer = (text: string) => ({ authorization: text })
  const strip = ({ statusCode, body, headers }: Awaited<ReturnType<typeof preview>>) => {
    const { date: _date, 'x-request-id': _id, 'www-authenticate': _challenge, ...rest } = headers
    return { statusCode, body, rest }
  }
  const expected = strip(await preview(page.public_id, undefined))
  t.match(expected, {
    statusCode: 401,
    body: '{"errors":["Missing, invalid or expired preview token"]}',
    rest: {
      'cache-control': 'no-store',
      'access-control-allow-origin': '*',
      'access-control-expose-headers': /WWW-Authenticate/,
      'x-robots-tag': 'noindex'
    }
  })
  for (const publicId of [page.public_id, 'unknown', '%00', '0'.repeat(22)]) {
    for (const text of [gone.token, expired.token, wrong, key, token.replace('lfp_', 'lf_'), 'x']) {
      const response = await preview(publicId, text)
      t.same(strip(response), expected, `${publicId} ${text}`)
      t.equal(response.headers['www-authenticate'], 'Bearer error="invalid_token"')
    }
  }
  for (const publicId of [other.public_id, stranger.public_id, '0'.repeat(22)]) {
    t.same(strip(await preview(publicId, token)), expected, publicId)
  }
  for (
    const text of [token, `Basic ${token}`, `Bearer ${token},`, `Bearer ${token} x`, `Bearer "${token}"`, '']
  ) {
    t.same(strip(await preview(page.public_id, undefined, { headers: bearer(text) })), expected, text)
  }
  const inUrl = await app.inject(`/previews/${page.public_id}?token=${token}&access_token=${token}`)
  t.same(strip(inUrl), expected, 'in the query')
  t.equal((await app.inject(`/previews/${token}`)).statusCode, 401, 'in the path')
  const managed = await app.inject({ url: '/manage/landing_pages', headers: bearer(`Bearer ${token}`) })
  t.equal(managed.statusCode, 401)
  t.equal(await statusOf(page.public_id, token), 200)
})

t.test('a link ends at once when it is deleted, and with what changes the access to the account', async (t) => {
  const password = { password: 'another horse battery', password_confirmation: 'another horse battery' }
  const endings: Record<string, (account: Account, id: string, link: Link) => ReturnType<typeof send>> = {
    deleted: async (account, id, link) =>
      await send('DELETE', `${linksOf(id)}/${link.id}`, undefined, {}, account),
    password: async (account) =>
      await send('PUT', '/auth/password', { current_password: PASSWORD, ...password }, {}, account),
    account: async (account) => await send('DELETE', '/auth/me', { password: PASSWORD }, {}, account)
  }
  for (const [how, end] of Object.entries(endings)) {
    const account = await signUp(app)
    const page = await createPage(app, account)
    const link = await createLink(page.id, {}, account)
    t.equal(await statusOf(page.public_id, link.token), 200)
    t.equal((await end(account, page.id, link)).statusCode, 204, how)
    t.equal(await statusOf(page.public_id, link.token), 401, how)
  }
})

t.test('a link that is created while the password changes does not outlive it', async (t) => {
  const account = await signUp(app)
  const page = await createPage(app, account)
  const created = Array.from(
    { length: 10 },
    async () => await send('POST', linksOf(page.id), {}, {}, account)
  )
  const [changed, ...responses] = await Promise.all([
    setPassword(app.database, operatorOf(account.user.email), { newPasswordHash: 'none', hasMail: false }),
    ...created
  ])
  t.ok(changed)
  for (const response of responses) {
    t.ok([201, 401].includes(response.statusCode), response.body)
    if (response.statusCode === 201) t.equal(await statusOf(page.public_id, response.json().token), 401)
  }
  t.same(await query(database, `SELECT FROM preview_links WHERE user_id = ${account.user.id}`), [])
})

t.test('a page in the trash is a 404 for its links, which work again when it is restored', async (t) => {
  const page = await createPage(app, owner)
  const link = await createLink(page.id)
  await send('DELETE', `/manage/landing_pages/${page.id}`)
  t.match(await preview(page.public_id, link.token), { statusCode: 404, body: '{"errors":["Not found"]}' })
  t.equal(await statusOf(page.public_id, (await createLink((await createPage(app, owner)).id)).token), 401)
  await send('POST', `/manage/deleted_pages/${page.id}/restore`)
  t.equal(await statusOf(page.public_id, link.token), 200)
})

t.test('links are listed without their tokens, and only for the owner', async (t) => {
  const page = await createPage(app, owner)
  const before = Date.now()
  const response = await send('POST', linksOf(page.id), { name: 'For Ada', expires_in: 300 })
  t.equal(response.headers['cache-control'], 'no-store')
  t.match(response.json(), { name: 'For Ada', last_used_at: null, token: /^lfp_[0-9A-Za-z]{46}$/ })
  t.equal(response.headers.location, `${linksOf(page.id)}/${response.json().id}`)
  const { token, ...record } = response.json()
  const lifetime = Date.parse(record.expires_at) - Date.parse(record.created_at)
  t.equal(lifetime, 300_000)
  const week = (await send('POST', linksOf(page.id))).json()
  t.equal(week.name, null)
  t.equal(Date.parse(week.expires_at) - Date.parse(week.created_at), 604_800_000)
  await preview(page.public_id, token)
  const [newer, used] = (await send('GET', linksOf(page.id))).json()
  t.equal(newer.id, week.id)
  const { last_used_at: usedAt, ...rest } = used
  t.same({ ...rest, last_used_at: null }, record)
  t.ok(Date.parse(usedAt) % 60_000 === 0 && Date.parse(usedAt) >= before - 60_000, usedAt)
  const stored = await query(database, `SELECT row_to_json(l)::text AS row FROM preview_links l`)
  t.notMatch(JSON.stringify(stored), token.slice(4))

  const parts = await walkList(app, owner, `${linksOf(page.id)}?limit=1`)
  t.same(parts, [[week.id], [record.id]])

  const refused = [
    ...[{ expires_in: 299 }, { expires_in: 2_592_001 }, { expires_in: '300' }],
    ...[{ name: '' }, { name: 'x'.repeat(101) }, { name: '\u202e' }, [], 'x']
  ]
  for (const body of refused.map((one) => JSON.stringify(one))) {
    t.equal((await send('POST', linksOf(page.id), body)).statusCode, 422, body)
  }
  const otherPage = await createPage(app, owner)
  t.equal((await send('DELETE', `${linksOf(otherPage.id)}/${record.id}`)).statusCode, 404)
})

t.test('a page has at most 20 links that have not expired, however many are created at once', async (t) => {
  const page = await createPage(app, owner)
  const responses = await Promise
    .all(Array.from({ length: 25 }, async () => await send('POST', linksOf(page.id))))
  t.equal(responses.filter(({ statusCode }) => statusCode === 201).length, 20)
  const refused = responses.filter(({ statusCode }) => statusCode === 422)
  t.same(
    refused.map((response) => response.json().errors),
    Array(5).fill([
      'A page can have 20 preview links: delete one that is not needed any more'
    ])
  )
  const rows = async () =>
    Number((await query(database, `SELECT count(*) FROM preview_links WHERE page_id = '${page.id}'`))[0]
      ?.count)
  await query(database, `UPDATE preview_links SET expires_at = now() WHERE page_id = '${page.id}'`)
  t.same((await send('GET', linksOf(page.id))).json(), [])
  const { token } = await createLink(page.id)
  t.equal(await rows(), 21)
  await cleanUpPages(app)
  t.equal(await rows(), 1)
  t.equal(await statusOf(page.public_id, token), 200)
})

t.test('a link expires by the clock of PostgreSQL, however wrong that of a process is', async (t) => {
  const startedAt = Date.now()
  mock.timers.enable({ apis: ['Date'], now: startedAt - 3_600_000 })
  t.teardown(() => mock.timers.reset())
  const account = await signUp(app)
  const page = await createPage(app, account)
  const { id, token, created_at: createdAt } = (await send('POST', linksOf(page.id), {}, {}, account)).json()
  t.ok(Date.parse(createdAt) >= startedAt - 1000, createdAt)
  t.equal(await statusOf(page.public_id, token), 200)
  await query(database, `UPDATE preview_links SET expires_at = now() WHERE id = '${id}'`)
  t.equal(await statusOf(page.public_id, token), 401)
  t.same((await send('GET', linksOf(page.id), undefined, {}, account)).json(), [])
})

t.test('a page that is removed for good while a link is created is a 404', async (t) => {
  const page = await createPage(app, owner)
  const { client } = await openTransaction(t, database)
  await client.query('DELETE FROM landing_pages WHERE id = $1', [page.id])
  const created = send('POST', linksOf(page.id))
  await untilBlocked(database, 1)
  await client.query('COMMIT')
  t.equal((await created).statusCode, 404)
})

t.test('over all replicas, a link reads 300 times a minute, and an address fails 60 times', async (t) => {
  const page = await createPage(app, owner)
  const [{ token }, other] = [await createLink(page.id), await createLink(page.id)]
  const count = async (times: number, read: (on: typeof app) => ReturnType<typeof preview>) => {
    const statuses: Record<number, number> = {}
    for (let done = 0; done < times; done++) {
      const { statusCode } = await read(done % 2 === 0 ? app : replica)
      statuses[statusCode] = (statuses[statusCode] ?? 0) + 1
    }
    return statuses
  }
  t.same(await count(302, async (on) => await preview(page.public_id, token, { on })), { 200: 300, 429: 2 })
  const refused = await preview(page.public_id, token)
  t.match(refused.json().errors, [/^Too many requests, try again in \d+ seconds$/])
  t.equal(refused.headers['access-control-allow-origin'], '*')

  const from = '198.51.100.1'
  t.same(await count(62, async (on) => await preview(page.public_id, 'x', { on, from })), { 401: 60, 429: 2 })
  t.equal((await preview(page.public_id, other.token, { from })).statusCode, 200, 'a valid token still works')
  t.equal((await preview(page.public_id, 'x')).statusCode, 401, 'nor another address')
})
