import t from 'tap'
import { buildTestApp, createPage, documentTag, senderFor, signUp } from '../../helpers/app.ts'
import { query } from '../../helpers/servers.ts'

// Keys: names that owners give to their pages.

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000' })
const { DATABASE_URL = '' } = app.config
const replica = await buildTestApp(t, { DATABASE_URL })
const owner = await signUp(app)

type Headers = Record<string, string>

const send = senderFor(app, owner)
const sendToReplica = senderFor(replica, owner)
const urlOf = (id: string): string => `/manage/landing_pages/${id}`
const byKey = (key: string): string => urlOf(`by-key/${key}`)
const put = async (key: string, document: string, headers?: Headers, sender = send) =>
  await sender('PUT', byKey(key), document, headers)
const RULE = 'Key must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a ' +
  'letter or digit'

t.test('a page can be created with a key, and is found by it', async (t) => {
  const created = await send('POST', '/landing_pages', '{"current_data":{"title":"A"},"key":"spring-1.a_b"}')
  const { id } = created.json()
  t.match([created.statusCode, created.json().key], [201, 'spring-1.a_b'])
  const found = await send('GET', byKey('spring-1.a_b'))
  t.equal(found.body, created.body)
  t.equal(found.headers.etag, created.headers.etag)
  const [summary] = (await send('GET', '/manage/landing_page_summaries?q=SPRING-1.A')).json()
  t.match(summary, { id, key: 'spring-1.a_b' }, 'lists show keys and find them')
  t.equal((await send('GET', `/landing_pages/${created.json().public_id}`)).body, '{"title":"A"}')

  const wrapped = '{"landing_page":{"current_data":[],"key":"inner"},"key":"outer"}'
  t.equal((await send('POST', '/landing_pages', wrapped)).json().key, 'outer')
  for (const key of ['spring', 'SPRING-1.a_b', 'x'.repeat(64), '..', '%2e']) {
    t.equal((await send('GET', byKey(key))).statusCode, 404, key)
  }
})

t.test('an invalid key is a 422 that says which are valid', async (t) => {
  const { id } = await createPage(app, owner)
  for (const key of ['', 'A', '-a', '.', 'a b', 'a/b', 'é', 'a\\u0000', 'a\\n', 'x'.repeat(64)]) {
    for (
      const [method, url, more] of [['POST', '/landing_pages', '"current_data":[],'], [
        'PATCH',
        urlOf(id),
        ''
      ]]
    ) {
      const response = await send(method as 'POST', url as string, `{${more}"key":"${key}"}`)
      t.match([response.statusCode, response.json()], [422, { errors: [RULE] }], `${method} ${key}`)
    }
  }
  for (const key of ['A', '-a', 'x'.repeat(64), 'a%2Fb', 'a%00']) {
    const response = await put(key, '{}')
    t.match([response.statusCode, response.json()], [422, { errors: [RULE] }], `PUT ${key}`)
  }
  for (const body of ['{"key":5}', '{"landing_page":{"key":{"a":1}}}', '{"key":[],"landing_page":{}}']) {
    const response = await send('PATCH', urlOf(id), body)
    t.match([response.statusCode, response.json().errors], [422, [/^Key must be a string or null$/]], body)
  }
})

t.test('another key changes the record and its ETag, but makes no version', async (t) => {
  const page = await createPage(app, owner)
  const url = urlOf(page.id)
  const before = (await send('GET', url)).json()
  const history = (await send('GET', `${url}/revisions`)).json()

  const tags = [page.recordTag]
  for (const key of ['"one"', '"two"', 'null', '"one"']) {
    const [tag = ''] = tags
    const changed = await send('PATCH', url, `{"key":${key}}`, { 'if-match': tag })
    const record = { ...before, key: JSON.parse(key), updated_at: String }
    t.match([changed.statusCode, changed.json()], [200, record])
    t.not(changed.json().updated_at, before.updated_at)
    const etag = String(changed.headers.etag)
    t.notOk(tags.includes(etag), 'a new ETag')
    t.equal((await send('GET', url, undefined, { 'if-none-match': tag })).body, changed.body)
    t.equal((await send('GET', url, undefined, { 'if-none-match': etag })).statusCode, 304)
    t.equal((await send('PATCH', url, '{"key":"x"}', { 'if-match': tag })).statusCode, 412, 'the ETag before')
    t.equal((await send('PUT', `${url}/document`, '[]', { 'if-match': tag })).statusCode, 412)
    tags.unshift(etag)
  }
  const same = await send('PATCH', url, '{"key":"one"}', { 'if-match': page.etag })
  t.equal(same.headers.etag, tags[0], 'the same key changes nothing')
  t.same((await send('GET', `${url}/revisions`)).json(), history)
  const [latest] = (await send('GET', '/manage/landing_pages?sort=updated&limit=1')).json()
  t.same(latest, same.json())

  const [tag = ''] = tags
  const both = await send('PATCH', url, '{"current_data":[1],"key":"both"}', { 'if-match': tag })
  t.match(both.json(), { version: 2, key: 'both', current_data: [1] })
  t.equal((await send('DELETE', url, undefined, { 'if-match': tag })).statusCode, 412)
  t.equal((await send('DELETE', url, undefined, { 'if-match': String(both.headers.etag) })).statusCode, 204)
})

t.test('a key belongs to one page of the account, also in the trash', async (t) => {
  const page = await createPage(app, owner)
  await send('PATCH', urlOf(page.id), '{"key":"mine"}')
  const other = await createPage(app, owner)
  const refusals = async () => [
    await send('POST', '/landing_pages', '{"current_data":{},"key":"mine"}'),
    await send('PATCH', urlOf(other.id), '{"key":"mine"}'),
    await send('PATCH', urlOf(other.id), '{"key":"mine","current_data":["lost"]}')
  ]
  for (const { statusCode, json } of await refusals()) {
    t.match([statusCode, json().errors], [422, [`Key has already been taken by page ${page.id}`]])
  }
  await send('DELETE', urlOf(page.id))
  const taken = `Key has already been taken by page ${page.id}, which is in the trash`
  for (const { statusCode, json } of [...await refusals(), await put('mine', '{}')]) {
    t.match([statusCode, json().errors], [422, [taken]])
  }
  t.equal((await send('GET', byKey('mine'))).statusCode, 404)
  t.match((await send('GET', '/manage/deleted_pages')).json()[0], { id: page.id, key: 'mine' })
  t.equal((await send('GET', `${urlOf(other.id)}/document`)).body, '{"hello":"world"}', 'nothing was written')

  t.equal((await send('POST', `/manage/deleted_pages/${page.id}/restore`)).json().key, 'mine')
  t.equal((await put('mine', '[1]')).statusCode, 204)
  const stranger = senderFor(app, await signUp(app))
  t.equal((await put('mine', '{}', {}, stranger)).statusCode, 201, 'in another account')
  t.equal((await send('GET', `${urlOf(page.id)}/document`)).body, '[1]')
  await send('PATCH', urlOf(page.id), '{"key":null}')
  t.equal((await put('mine', '{}')).statusCode, 201, 'a key that was removed is free')
})

t.test('PUT by key creates a page or replaces its document, with preconditions', async (t) => {
  const text = ' {"price": 1.50, "a": 1, "a": 2}\n'
  t.equal((await put('shop', text, { 'if-match': '*' })).statusCode, 412, 'nothing to replace')
  const created = await put('shop', text, { 'if-none-match': '*' })
  const { id, public_id: publicId, published } = created.json()
  t.match([created.statusCode, created.headers.location, published], [201, urlOf(id), true])
  t.equal((await app.inject(`/landing_pages/${publicId}`)).body, text, 'exact bytes')
  t.equal((await put('shop', '[]', { 'if-none-match': '*' })).statusCode, 412)

  const etag = documentTag(String(created.headers.etag))
  for (const tag of ['"x"', `W/${etag}`]) {
    t.equal((await put('shop', '[]', { 'if-match': tag })).statusCode, 412, tag)
  }
  const replaced = await put('shop', '[1]', { 'if-match': etag })
  t.match([replaced.statusCode, replaced.body], [204, ''])
  t.equal((await send('GET', `${urlOf(id)}/document`)).headers.etag, replaced.headers.etag)
  await send('POST', `${urlOf(id)}/unpublish`)
  t.equal((await put('shop', '[2]')).statusCode, 204)
  t.match((await send('GET', byKey('shop'))).json(), { id, published: false, current_data: [2] })

  t.equal((await put('shop', '"text"')).statusCode, 422)
  t.equal((await put('shop', '{')).statusCode, 400)
  t.equal((await put('new', `["${'x'.repeat(1024 * 1024)}"]`)).statusCode, 413)
  t.equal((await put('new', `${'['.repeat(101)}${']'.repeat(101)}`)).statusCode, 422)
  t.equal((await send('GET', byKey('new'))).statusCode, 404)
})

t.test('of concurrent writes for a new key on two replicas, one creates the page', async (t) => {
  for (let round = 0; round < 10; round++) {
    const key = `race-${round}`
    const headers: Headers = round % 2 === 0 ? {} : { 'if-none-match': '*' }
    const responses = await Promise.all([1, 2, 3, 4, 5, 6].map(async (n) =>
      await put(key, `[${n}]`, headers, n % 2 === 0 ? send : sendToReplica)
    ))
    const statuses = responses.map(({ statusCode }) =>
      statusCode
    ).sort()
    const lost = round % 2 === 0 ? 204 : 412
    t.same(statuses, [201, lost, lost, lost, lost, lost])
  }
  const rows = await query(DATABASE_URL, "SELECT key FROM landing_pages WHERE key LIKE 'race-%'")
  t.equal(rows.length, 10)

  const claims = await Promise.all([1, 2, 3, 4].map(async (n) => {
    const { id } = await createPage(app, owner)
    return await (n % 2 === 0 ? send : sendToReplica)('PATCH', urlOf(id), '{"key":"claimed"}')
  }))
  t.same(claims.map(({ statusCode }) => statusCode).sort(), [200, 422, 422, 422])
})
