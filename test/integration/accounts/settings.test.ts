import t from 'tap'
import { buildTestApp, sendAs, signUp, testSettings, type Account } from '../../helpers/app.ts'

// GET and PUT /auth/settings

const settings = await testSettings(t)
const app = await buildTestApp(t, { ...settings, PREVIEW_URL: 'https://www.example.com/{public_id}' })
const replica = await buildTestApp(t, settings)

const get = async ({ headers }: Pick<Account, 'headers'>, on = replica) =>
  await on.inject({ url: '/auth/settings', headers })
const put = async (account: Pick<Account, 'headers'>, payload: object | string, more = {}) =>
  await sendAs(app, account, 'PUT', '/auth/settings', payload, more)

t.test('an account has no address at first, and the one of the service is not shown', async (t) => {
  t.match(await get(await signUp(app), app), { statusCode: 200, body: '{"preview_url":null}' })
})

t.test('an address is kept as it was sent, for this account alone, until it is removed', async (t) => {
  const [owner, other] = [await signUp(app), await signUp(app)]
  const addresses = [
    'https://www.example.com',
    'https://www.example.com:8443/p?page={public_id}&id={id}#token={token}',
    'https://www.example.com/{public_id}/{public_id}/@you/é',
    'https://例え.jp/{id}',
    'http://localhost:5173/{public_id}',
    'http://site.localhost/{id}',
    'http://127.0.0.1/?{token}',
    'http://[::1]:8080/{public_id}',
    `https://www.example.com/${'x'.repeat(2024)}`
  ]
  for (const address of addresses) {
    t.match(await put(owner, { preview_url: address, other: 1 }), {
      statusCode: 200,
      body: JSON.stringify({ preview_url: address })
    })
    t.same((await get(owner)).json(), { preview_url: address })
  }
  t.same((await get(other)).json(), { preview_url: null })
  t.same((await put(owner, { preview_url: null })).json(), { preview_url: null })
  t.same((await get(owner)).json(), { preview_url: null })
})

t.test('what would lead a browser elsewhere is refused, and changes nothing', async (t) => {
  const owner = await signUp(app)
  const address = 'https://www.example.com/{public_id}'
  await put(owner, { preview_url: address })
  const cases = [
    ...'www.example.com/{public_id} /{public_id} //www.example.com/ https:www.example.com'.split(' '),
    ...'https:/www.example.com https:///www.example.com https:// https://? javascript:alert(1)'.split(' '),
    ...'javascript://www.example.com/%0aalert(1) JavaScript:alert(1) data:text/html,x'.split(' '),
    ...'ftp://www.example.com/ http://www.example.com/ http://localhost.example.com/'.split(' '),
    ...'http://localhost@www.example.com/ http://127.0.0.1.example.com/ http://10.0.0.1/'.split(' '),
    ...'https://you@www.example.com/ https://you:secret@www.example.com/'.split(' '),
    ...'https://:@www.example.com/ https://www.example.com\\@evil.example/'.split(' '),
    ...'https://www.example.com/a\\b https://www.example.com:70000/ https://[::1'.split(' '),
    ...'https://a%20b/ https://www.example.com/\u00a0 https://www.example.com/\n'.split(' '),
    ...'https://www.exa\tmple.com/ java\u0000script:alert(1) https://www.example.com/\u0000'.split(' '),
    ...'https://www.example.com/\u202e https://www.example.com/\ud800'.split(' '),
    ...'https://www.example.com/<b> https://www.example.com/" https://www.example.com/{x}'.split(' '),
    ...'https://www.example.com/{PUBLIC_ID} https://www.example.com/{public_id'.split(' '),
    ...'https://www.example.com/public_id} https://www.example.com/{{public_id}}'.split(' '),
    ...'https://{public_id}.example.com/ https://{token}/ https://www.example.com{public_id}'.split(' '),
    ...'https://www.example.com:{id}/ {public_id}'.split(' '),
    ...['', ' https://www.example.com/', 'https://www.example.com/ ', 'https://www.example.com/a b']
  ]
  for (const refused of cases) {
    const response = await put(owner, { preview_url: refused })
    t.equal(response.statusCode, 422, JSON.stringify(refused))
    t.match(response.json().errors, [/^Preview url must be an https:\/\/ address, or http:\/\/ on localhost/])
  }
  t.match(await put(owner, { preview_url: `https://www.example.com/${'x'.repeat(2025)}` }), {
    statusCode: 422,
    body: '{"errors":["Preview url is too long (maximum is 2048 characters)"]}'
  })
  for (const body of ['{}', '{"preview_url":1}', '{"preview_url":[]}', '[]', '"x"']) {
    t.equal((await put(owner, body)).statusCode, 422, body)
  }
  t.same((await get(owner)).json(), { preview_url: address })
})

t.test('a condition that is false stops a read or a write, whoever writes at the same time', async (t) => {
  const owner = await signUp(app)
  const etag = String((await get(owner)).headers.etag)
  const read = async (headers: object) =>
    await sendAs(app, owner, 'GET', '/auth/settings', undefined, { ...headers })
  t.match(await read({ 'if-none-match': etag }), { statusCode: 304, headers: { etag } })
  const others = ['https://a.example/', 'https://b.example/', 'https://c.example/']
  const written = await Promise
    .all(others.map(async (address) => await put(owner, { preview_url: address }, { 'if-match': etag })))
  t.same(written.map(({ statusCode }) => statusCode).sort(), [200, 412, 412])
  const current = written.find(({ statusCode }) => statusCode === 200)
  t.match(await put(owner, { preview_url: null }, { 'if-match': etag }), {
    statusCode: 412,
    headers: { etag: current?.headers.etag },
    body: '{"errors":["The resource has changed: If-Match does not match its current ETag"]}'
  })
  t.equal((await put(owner, { preview_url: null }, { 'if-none-match': '*' })).statusCode, 412)
  t.equal((await read({ 'if-match': etag })).statusCode, 412)
  t.equal((await get(owner)).body, current?.body)
})
