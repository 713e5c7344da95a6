import { randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, createPage, NOBODY, sendAs, senderFor, signUp,
  type Account } from '../../helpers/app.ts'

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000' })
const owner = await signUp(app)
const stranger = await signUp(app)

const send = senderFor(app, owner)
const create = async (payload: string) => await send('POST', '/landing_pages', payload)
const read = async (publicId: string) => await app.inject({ url: `/landing_pages/${publicId}` })
const rows = async () => await app.database.landingPage.count()

t.test('a record has exactly the documented fields', async (t) => {
  const response = await create('{"current_data":{"a":1}}')
  t.equal(response.statusCode, 201)
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  const record = response.json()
  t.same(Object.keys(record), [
    ...'id public_id current_data created_at updated_at version published key'.split(' ')
  ])
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  t.match(record, {
    id: /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    public_id: /^[0-9A-Za-z]{22}$/,
    current_data: { a: 1 },
    created_at: time,
    updated_at: time
  })
  t.match(response.headers, { etag: /^"[\w-]{43}\.1"$/, location: `/manage/landing_pages/${record.id}` })
  for (const id of [record.id, record.id.toUpperCase()]) {
    const found = await send('GET', `/manage/landing_pages/${id}`)
    t.match(found, { statusCode: 200, body: response.body, headers: { etag: response.headers.etag } })
  }
})

t.test('the document is current_data at the top level, or else in landing_page', async (t) => {
  for (
    const [body, expected] of [
      ['{"landing_page":{"current_data":{"x":1}}}', '{"x":1}'],
      ['{"current_data":{"top":1},"landing_page":{"current_data":{"x":1}}}', '{"top":1}'],
      ['{"landing_page":{"current_data":{"x":1}},"current_data":{"top":1}}', '{"top":1}'],
      ['{"current_data":{"x":1},"current_data":{"x":2}}', '{"x":2}'],
      ['{"landing_page":{"current_data":{"x":1},"current_data":[]}}', '[]'],
      ['{"landing_page":{"current_data":{"x":1}},"landing_page":{"current_data":{"x":2}}}', '{"x":2}'],
      ['{"landing_page":7,"current_data":[]}', '[]'],
      ['{"curr\\u0065nt_data":[1]}', '[1]'],
      ['{"list":[{"current_data":[]}],"current_data":{"yes":1},"after":{"current_data":0}}', '{"yes":1}'],
      ['\ufeff{"current_data":[]}', '[]'],
      ['{"id":"x","public_id":"y","user_id":1,"version":99,"current_data":[2]}', '[2]']
    ] as const
  ) {
    const response = await create(body)
    t.equal(response.statusCode, 201, body)
    t.equal((await read(response.json().public_id)).body, expected, body)
  }
})

t.test('a value that is not a document gets 422 on POST and PATCH and changes nothing', async (t) => {
  const page = await createPage(app, owner, '{"kept":true}')
  const before = await rows()
  const refuse = async (body: string, errors: string[], isPatch: boolean) => {
    const response = isPatch ? await send('PATCH', `/manage/landing_pages/${page.id}`, body)
      : await create(body)
    t.same([response.statusCode, response.json()], [422, { errors }], body)
  }
  for (const value of ['null', '-0', '"text"', 'true']) {
    for (
      const body of [
        `{"current_data":${value}}`,
        `{"landing_page":{"current_data":${value}}}`,
        `{"current_data":${value},"landing_page":{"current_data":{}}}`,
        `{"current_data":{},"current_data":${value}}`
      ]
    ) {
      for (const isPatch of [false, true]) {
        await refuse(body, ['Current data must be a JSON object or array'], isPatch)
      }
    }
  }
  const blank = "Current data can't be blank"
  const shape = 'Request body must look like {"current_data":{"title":"Hello","price":1}}'
  for (const body of ['{}', '{"price":2}', '{"Current_data":{}}']) await refuse(body, [blank, shape], false)
  for (const body of ['{"landing_page":{}}', '{"landing_page":{"current_data":{}},"landing_page":{}}']) {
    await refuse(body, [blank], false)
  }
  for (const body of ['{"landing_page":null}', '{"landing_page":[]}', '']) await refuse(body, [shape], false)
  for (
    const body of ['{"price":2}', '{"public_id":"x"}', '{"Current_data":{}}', '{"landing_page":{"a":2}}']
  ) {
    await refuse(body, [shape], true)
  }
  t.equal(await rows(), before)
  t.equal((await read(page.public_id)).body, '{"kept":true}')
})

t.test('a document may have at most 1 MiB and 100 levels', async (t) => {
  const ofSize = (bytes: number) => `["${'\u00e9'.repeat((bytes - 4) / 2)}"]`
  const page = await createPage(app, owner)
  t.equal((await create(`{"current_data":${ofSize(1024 * 1024)}}`)).statusCode, 201)
  const tooLarge = `{"current_data":${ofSize(1024 * 1024 + 2)}}`
  for (
    const response of [
      await create(tooLarge),
      await send('PATCH', `/manage/landing_pages/${page.id}`, tooLarge)
    ]
  ) {
    t.equal(response.statusCode, 413)
    t.same(response.json(), { errors: ['Current data is too large (maximum is 1048576 bytes)'] })
  }
  const huge = await create(`{"current_data":${ofSize(3 * 1024 * 1024)}}`)
  t.equal(huge.statusCode, 413)
  t.same(huge.json(), { errors: ['Request body is too large (maximum is 1114112 bytes)'] })

  const lists = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  const objects = (levels: number) => `[${'{"a":'.repeat(levels - 1)}1${'}'.repeat(levels - 1)}]`
  for (const nested of [lists, objects]) {
    t.equal((await create(`{"current_data":${nested(100)}}`)).statusCode, 201)
    for (const document of [nested(101), `[1,${nested(100)}]`, nested(100_000)]) {
      const response = await create(`{"current_data":${document}}`)
      t.equal(response.statusCode, 422)
      t.same(response.json(), { errors: ['Current data is nested too deeply (maximum is 100 levels)'] })
    }
  }
  t.equal((await create(`{"deep":${lists(100_000)},"current_data":{}}`)).statusCode, 201, 'beside it')
})

t.test('PATCH replaces the whole document, and changes nothing if the body has none', async (t) => {
  const page = await createPage(app, owner, '{"a":1,"b":{"c":2}}')
  const patched = await send('PATCH', `/manage/landing_pages/${page.id}`, '{"current_data":{"b":{"d":3}}}')
  t.equal(patched.statusCode, 200)
  t.same(patched.json().current_data, { b: { d: 3 } })
  t.not(patched.headers.etag, page.recordTag)
  t.match(patched.json(), { id: page.id, public_id: page.public_id })

  for (const body of ['{}', '{"landing_page":{}}', '{"landing_page":{},"id":"x"}']) {
    const same = await send('PATCH', `/manage/landing_pages/${page.id}`, body)
    t.equal(same.statusCode, 200)
    t.equal(same.body, patched.body)
    t.equal(same.headers.etag, patched.headers.etag)
  }
  t.equal((await send('PATCH', `/manage/landing_pages/${page.id}`)).body, patched.body, 'no body')
})

t.test('exactly one of many concurrent writes with the same If-Match succeeds', async (t) => {
  const page = await createPage(app, owner)
  const responses = await Promise.all(Array.from({ length: 12 }, async (_, n) => {
    const url = `/manage/landing_pages/${page.id}`
    return await send('PATCH', url, `{"current_data":{"writer":${n}}}`, { 'if-match': page.etag })
  }))
  t.same(responses.map(({ statusCode }) => statusCode).sort(), [200, ...Array(11).fill(412)])
  const winner = responses.findIndex(({ statusCode }) => statusCode === 200)
  t.equal((await read(page.public_id)).body, `{"writer":${winner}}`)
})

t.test('the ETag of a record names one version, also among versions with the same document', async (t) => {
  const page = await createPage(app, owner, '{"v":1}')
  const url = `/manage/landing_pages/${page.id}`
  await send('PATCH', url, '{"current_data":{"v":2}}')
  const third = await send('PATCH', url, '{"current_data":{"v":1}}')
  t.equal(third.headers.etag, page.recordTag.replace('.1"', '.3"'))
  t.equal((await send('GET', url, undefined, { 'if-none-match': page.recordTag })).statusCode, 200)
  const write = async (tag: string) =>
    (await send('PATCH', url, '{"current_data":{}}', { 'if-match': tag })).statusCode
  t.equal(await write(page.recordTag), 412, 'the tag names the first version')
  t.equal(await write(page.etag), 200, 'the hash alone names any version of the document')
})

t.test('a write with a false precondition gets a 412 that names it, with the current ETag', async (t) => {
  const page = await createPage(app, owner, '{"v":1}')
  const url = `/manage/landing_pages/${page.id}`
  const { recordTag, etag } = page
  const before = new Date(Date.now() - 60_000).toUTCString()
  const after = new Date(Date.now() + 60_000).toUTCString()
  for (
    const [headers, named] of [
      [{ 'if-match': '"x"' }, 'If-Match'],
      [{ 'if-match': `"x", W/${recordTag}` }, 'If-Match'],
      [{ 'if-match': '"x"', 'if-unmodified-since': after, 'if-none-match': '*' }, 'If-Match'],
      [{ 'if-unmodified-since': before }, 'If-Unmodified-Since'],
      [{ 'if-none-match': '*' }, 'If-None-Match'],
      [{ 'if-none-match': recordTag }, 'If-None-Match'],
      [{ 'if-none-match': `"x", W/${etag}` }, 'If-None-Match'],
      [{ 'if-match': recordTag, 'if-none-match': etag.replace(/"$/, '-br"') }, 'If-None-Match']
    ] as [Record<string, string>, string][]
  ) {
    for (
      const response of [
        await send('PATCH', url, '{"current_data":[]}', headers),
        await send('PATCH', url, '{}', headers),
        await send('DELETE', url, undefined, headers)
      ]
    ) {
      t.equal(response.statusCode, 412, JSON.stringify(headers))
      t.match(response.json().errors[0], named)
      t.equal(response.headers.etag, recordTag)
    }
  }
  t.equal((await read(page.public_id)).body, '{"v":1}', 'the document is unchanged')

  for (
    const headers of [
      { 'if-unmodified-since': after },
      { 'if-unmodified-since': 'yesterday' },
      { 'if-match': `"x", ${etag}` },
      { 'if-match': etag, 'if-unmodified-since': before },
      { 'if-none-match': '"x"' },
      { 'if-modified-since': after }
    ] as Record<string, string>[]
  ) {
    const response = await send('PATCH', url, '{"current_data":{"v":1}}', headers)
    t.equal(response.statusCode, 200, JSON.stringify(headers))
  }
  t.equal((await send('DELETE', url, undefined, { 'if-match': '*', 'if-none-match': '"x"' })).statusCode, 204)
})

t.test('a read of a page or of its document evaluates all conditions', async (t) => {
  const page = await createPage(app, owner)
  const tags = { '': page.recordTag, '/document': page.etag }
  const past = new Date(Date.now() - 60_000).toUTCString()
  const now = new Date(Date.now() + 1000).toUTCString()
  for (
    const [headers, status] of [
      [{ 'if-match': page.etag }, 200],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-none-match': '*' }, 304],
      [{ 'if-none-match': `"x", W/${page.recordTag}, ${page.etag}` }, 304],
      [{ 'if-unmodified-since': past }, 412],
      [{ 'if-modified-since': now }, 304],
      [{ 'if-modified-since': past }, 200],
      [{ 'if-modified-since': now, 'if-none-match': '"x"' }, 200]
    ] as [Record<string, string>, number][]
  ) {
    for (const [path, etag] of Object.entries(tags)) {
      const response = await send('GET', `/manage/landing_pages/${page.id}${path}`, undefined, headers)
      t.match(response, { statusCode: status, headers: { etag } }, JSON.stringify(headers))
      if (status === 304) t.equal(response.body, '')
    }
  }
})

t.test('HEAD returns the status and headers of GET without a body', async (t) => {
  const account = await signUp(app)
  const page = await createPage(app, account)
  await createPage(app, account)
  const cases: [url: string, status: number, has: string[], conditions?: Record<string, string>][] = [
    [`/manage/landing_pages/${page.id}`, 200, ['etag', 'content-length']],
    [`/manage/landing_pages/${page.id}`, 304, ['etag'], { 'if-none-match': page.recordTag }],
    [`/manage/landing_pages/${page.id}/document`, 200, ['etag', 'content-length']],
    [`/manage/landing_pages/${randomUUID()}`, 404, []],
    ['/manage/landing_pages', 200, ['content-length']],
    ['/manage/landing_pages?limit=1', 200, ['link', 'content-length']],
    ['/manage/landing_pages?limit=0', 422, []],
    ['/auth/me', 200, ['content-length']]
  ]
  for (const [url, status, has, conditions] of cases) {
    const more = { ...conditions, 'x-request-id': 'same' }
    const [head, get] = [
      await sendAs(app, account, 'HEAD', url, undefined, more),
      await sendAs(app, account, 'GET', url, undefined, more)
    ]
    t.match(head, { statusCode: status, body: '' }, url)
    t.same({ ...head.headers, date: '' }, { ...get.headers, date: '' }, url)
    for (const name of has) t.type(head.headers[name], 'string', `${url}: ${name}`)

    const refused = await sendAs(app, NOBODY, 'HEAD', url, undefined, conditions)
    t.match(refused, { statusCode: 401, body: '', headers: { etag: undefined } }, url)
  }
})

/** Bodies for a route, also wrong ones where only the owner gets to know that. */
function bodiesOf (path: string, type: string | undefined): (string | undefined)[] {
  if (type === undefined) return [undefined]
  if (type.includes('patch+json')) return ['[]', '{}', '[1]', '']
  if (path.endsWith('/schedule')) return ['{"publish_at":null,"unpublish_at":null}']
  if (/publish$|links$/.test(path)) return ['{}']
  return ['{"current_data":{}}', '{}', '[]', '5', '{"price":2}']
}

/** Each route of a page, with each type of body that it takes. */
async function routesOfPages () {
  const { paths } = (await app.inject('/openapi.json')).json()
  const routes: { path: string, method: 'GET', type: string | undefined }[] = []
  for (const [path, item] of Object.entries<Record<string, any>>(paths)) {
    if (!path.includes('pages/{id}')) continue
    for (const [method, { requestBody }] of Object.entries(item)) {
      const types = requestBody === undefined ? [undefined] : Object.keys(requestBody.content)
      for (const type of types) routes.push({ path, method: method.toUpperCase() as 'GET', type })
    }
  }
  return routes
}

t.test('malformed, unknown, deleted and foreign ids get the same 404', async (t) => {
  const page = await createPage(app, owner)
  await send('PUT', `/manage/landing_pages/${page.id}/draft`, '[]')
  const deleted = await createPage(app, owner)
  t.equal((await send('DELETE', `/manage/landing_pages/${deleted.id}`)).statusCode, 204)
  const routes = await routesOfPages()
  t.ok(routes.length > 25, `${routes.length} routes`)
  for (const { path, method, type } of routes) {
    const absent = path.includes('deleted') ? page : deleted
    const requests: [id: string, account: Account][] = [
      ...[randomUUID(), page.public_id, absent.id].map((id) => [id, owner] as [string, Account]),
      ...[page.id, deleted.id].map((id) => [id, stranger] as [string, Account])
    ]
    for (const [id, account] of requests) {
      const url = path.replace('{id}', id).replace('{version}', '1').replace('{link_id}', randomUUID())
      for (const body of bodiesOf(path, type)) {
        for (const condition of [undefined, { 'if-match': '"x"' }]) {
          const headers = { ...condition, ...type !== undefined && { 'content-type': type } }
          const response = await sendAs(app, account, method, url, body, headers)
          t.match(response, { statusCode: 404, body: '{"errors":["Not found"]}' }, `${method} ${url} ${body}`)
        }
      }
    }
  }
  t.equal((await read(page.public_id)).body, '{"hello":"world"}')
})

t.test('DELETE without a body removes the page, whatever the content type', async (t) => {
  const form = 'application/x-www-form-urlencoded'
  for (
    const headers of [{}, ...['application/json', form, 'nonsense'].map((type) => ({ 'content-type': type }))]
  ) {
    const page = await createPage(app, owner)
    const url = `/manage/landing_pages/${page.id}`
    t.equal((await read(page.public_id)).statusCode, 200)
    t.match(await send('DELETE', url, undefined, { ...headers }), { statusCode: 204, body: '' })
    t.equal((await read(page.public_id)).statusCode, 404)
    t.equal((await send('GET', url)).statusCode, 404)
    t.equal((await send('DELETE', url, undefined, { 'if-match': '*' })).statusCode, 404)
  }
})
