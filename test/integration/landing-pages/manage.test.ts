import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t from 'tap'
import { buildTestApp, createPage, signUp, type Account } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'

const app = await buildTestApp(t, { settings: { RATE_LIMIT_PUBLIC: '1000000' } })
const owner = await signUp(app)
const stranger = await signUp(app)

const send = async (
  method: 'POST' | 'PATCH' | 'DELETE' | 'GET',
  url: string,
  payload?: string | Buffer,
  headers: Record<string, string> = {},
  account: Account = owner
) =>
  await app.inject({
    method,
    url,
    headers: {
      ...account.headers,
      ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers
    },
    ...(payload === undefined ? {} : { payload })
  })
const create = async (payload: string | Buffer) => await send('POST', '/landing_pages', payload)
const read = async (publicId: string) => await app.inject({ url: `/landing_pages/${publicId}` })
const rows = async () => await app.database.landingPage.count()

t.test('a record has exactly seven fields, and GET returns the same record', async (t) => {
  const response = await create('{"current_data":{"a":1}}')
  t.equal(response.statusCode, 201)
  t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
  const record = response.json()
  t.same(Object.keys(record), [
    ...'id public_id current_data created_at updated_at version published key'.split(' ')
  ])
  t.match(
    record.id,
    /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    'a UUID of version 7'
  )
  t.match(record.public_id, /^[0-9A-Za-z]{22}$/)
  t.same(record.current_data, { a: 1 })
  for (const time of [record.created_at, record.updated_at]) {
    t.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  }
  t.match(response.headers.etag, /^"[\w-]{43}\.1"$/)
  t.equal(response.headers.location, `/manage/landing_pages/${record.id}`)

  const found = await send('GET', `/manage/landing_pages/${record.id}`)
  t.equal(found.statusCode, 200)
  t.equal(found.body, response.body)
  t.equal(found.headers.etag, response.headers.etag)
  t.equal(
    (await send('GET', `/manage/landing_pages/${record.id.toUpperCase()}`)).statusCode,
    200,
    'a UUID in upper case is the same'
  )
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
      [
        '{"other":{"current_data":{"no":1}},"list":[{"current_data":[]}],"current_data":{"yes":1},' +
        '"after":{"current_data":0}}',
        '{"yes":1}'
      ],
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
  for (const value of ['null', '1', '-0', '"text"', 'true', 'false']) {
    for (
      const body of [
        `{"current_data":${value}}`,
        `{"landing_page":{"current_data":${value}}}`,
        `{"current_data":${value},"landing_page":{"current_data":{}}}`,
        `{"current_data":{},"current_data":${value}}`
      ]
    ) {
      for (
        const response of [await create(body), await send('PATCH', `/manage/landing_pages/${page.id}`, body)]
      ) {
        t.equal(response.statusCode, 422, body)
        t.same(response.json(), { errors: ['Current data must be a JSON object or array'] })
      }
    }
  }
  const blank = "Current data can't be blank"
  const shape = 'Request body must look like {"current_data":{"title":"Hello","price":1}}'
  for (
    const [body, errors] of [
      ['{}', [blank, shape]],
      ['{"price":2}', [blank, shape]],
      ['{"Current_data":{}}', [blank, shape]],
      ['{"landing_page":{}}', [blank]],
      ['{"landing_page":{"current_data":{}},"landing_page":{}}', [blank]],
      ['{"landing_page":null}', [shape]],
      ['{"landing_page":[]}', [shape]],
      ['', [shape]]
    ] as const
  ) {
    const response = await create(body)
    t.equal(response.statusCode, 422, body)
    t.same(response.json(), { errors })
  }
  t.equal((await send('POST', '/landing_pages')).statusCode, 422, 'no body at all')
  for (const body of ['[]', '"x"', '1', 'null', 'true']) {
    t.equal((await create(body)).statusCode, 422, body)
    t.equal((await send('PATCH', `/manage/landing_pages/${page.id}`, body)).statusCode, 422, body)
  }
  t.equal(await rows(), before)
  t.equal((await read(page.public_id)).body, '{"kept":true}')
})

t.test('a user who is deleted while creating a page gets 401', async (t) => {
  const leaving = await signUp(app)
  const other = new pg.Client(app.config.DATABASE_URL)
  await other.connect()
  t.teardown(async () => await other.end())
  await other.query('BEGIN')
  await other.query('DELETE FROM users WHERE id = $1', [leaving.user.id])
  const pending = send('POST', '/landing_pages', '{"current_data":{}}', {}, leaving)
  await until(async () => {
    const waiting = await app.database.$queryRaw<
      unknown[]
    >`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    return waiting.length > 0
  })
  await other.query('COMMIT')
  t.equal((await pending).statusCode, 401)
})

t.test('a document may have at most 1 MiB and 100 levels', async (t) => {
  const ofSize = (bytes: number) => `["${'\u00e9'.repeat((bytes - 4) / 2)}"]`
  const page = await createPage(app, owner)
  t.equal((await create(`{"current_data":${ofSize(1024 * 1024)}}`)).statusCode, 201)
  for (
    const response of [
      await create(`{"current_data":${ofSize(1024 * 1024 + 2)}}`),
      await send('PATCH', `/manage/landing_pages/${page.id}`, `{"current_data":${ofSize(1024 * 1024 + 2)}}`)
    ]
  ) {
    t.equal(response.statusCode, 413)
    t.same(response.json(), { errors: ['Current data is too large (maximum is 1048576 bytes)'] })
  }
  const huge = await create(`{"current_data":${ofSize(3 * 1024 * 1024)}}`)
  t.equal(huge.statusCode, 413)
  t.same(huge.json(), { errors: ['Request body is too large'] })

  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  t.equal((await create(`{"current_data":${nested(100)}}`)).statusCode, 201)
  t.equal((await create(`{"current_data":[${'{"a":'.repeat(99)}1${'}'.repeat(99)}]}`)).statusCode, 201)
  for (
    const document of [
      nested(101),
      `[1,${nested(100)}]`,
      nested(400_000),
      `[${'{"a":'.repeat(100)}1${'}'.repeat(100)}]`
    ]
  ) {
    const response = await create(`{"current_data":${document}}`)
    t.equal(response.statusCode, 422)
    t.same(response.json(), { errors: ['Current data is nested too deeply (maximum is 100 levels)'] })
  }
  t.equal((await create('['.repeat(900_000))).statusCode, 400)
  t.equal(
    (await create(`{"deep":${nested(100_000)},"current_data":{}}`)).statusCode,
    201,
    'ignored members may be deeper'
  )
  t.equal(
    (await create(`{"current_data":{${
      Array.from({ length: 50_000 }, (_, n) => `"key${n}":${n}`).join(',')
    }}}`)).statusCode,
    201,
    'many keys'
  )
})

t.test('PATCH replaces the whole document, and changes nothing if the body has none', async (t) => {
  const page = await createPage(app, owner, '{"a":1,"b":{"c":2}}')
  const patched = await send('PATCH', `/manage/landing_pages/${page.id}`, '{"current_data":{"b":{"d":3}}}')
  t.equal(patched.statusCode, 200)
  t.same(patched.json().current_data, { b: { d: 3 } })
  t.not(patched.headers.etag, page.recordTag)
  t.ok(patched.json().updated_at >= patched.json().created_at)
  t.same({ id: patched.json().id, public_id: patched.json().public_id }, {
    id: page.id,
    public_id: page.public_id
  })

  for (const body of ['{}', '{"landing_page":{}}', '{"landing_page":{},"id":"x"}']) {
    const same = await send('PATCH', `/manage/landing_pages/${page.id}`, body)
    t.equal(same.statusCode, 200)
    t.equal(same.body, patched.body)
    t.equal(same.headers.etag, patched.headers.etag)
  }
  t.equal((await send('PATCH', `/manage/landing_pages/${page.id}`)).body, patched.body, 'no body')
})

t.test('PATCH with other fields but no document gets 422 with the right shape', async (t) => {
  const page = await createPage(app, owner, '{"kept":true}')
  for (
    const body of [
      '{"price":2}',
      '{"public_id":"aaaaaaaaaaaaaaaaaaaaaa","id":"x"}',
      '{"Current_data":{}}',
      '{"landing_page":{"price":2}}'
    ]
  ) {
    const response = await send('PATCH', `/manage/landing_pages/${page.id}`, body)
    t.equal(response.statusCode, 422, body)
    t.same(response.json(), {
      errors: ['Request body must look like {"current_data":{"title":"Hello","price":1}}']
    })
  }
  t.equal((await read(page.public_id)).body, '{"kept":true}')
})

t.test('exactly one of many concurrent writes with the same If-Match succeeds', async (t) => {
  const page = await createPage(app, owner)
  const responses = await Promise
    .all(Array.from(
      { length: 12 },
      async (_, n) =>
        await send('PATCH', `/manage/landing_pages/${page.id}`, `{"current_data":{"writer":${n}}}`, {
          'if-match': page.etag
        })
    ))
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
  t.equal(
    (await send('PATCH', url, '{"current_data":{}}', { 'if-match': page.recordTag })).statusCode,
    412,
    'the tag names the first version'
  )
  t.equal(
    (await send('PATCH', url, '{"current_data":{}}', { 'if-match': page.etag })).statusCode,
    200,
    'the hash alone names any version of the document'
  )
})

t.test('a write of the same document changes nothing', async (t) => {
  const page = await createPage(app, owner, '{"v":1}')
  const url = `/manage/landing_pages/${page.id}`
  const before = await send('GET', url)
  const response = await send('PATCH', url, '{"current_data":{"v":1}}')
  t.equal(response.statusCode, 200)
  t.equal(response.body, before.body)
  t.equal(response.headers.etag, page.recordTag)
  t.equal((await send('PATCH', url, '{"current_data":{"v":1 }}')).json().version, 2, 'one byte more does')
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
      {
        'if-match': etag,
        'if-unmodified-since': before
      },
      { 'if-none-match': '"x"' },
      { 'if-modified-since': after }
    ] as Record<string, string>[]
  ) {
    const response = await send('PATCH', url, '{"current_data":{"v":1}}', headers)
    t.equal(response.statusCode, 200, JSON.stringify(headers))
  }
  t.equal((await send('DELETE', url, undefined, { 'if-match': '*', 'if-none-match': '"x"' })).statusCode, 204)
})

t.test('a read of a page evaluates all conditions', async (t) => {
  const page = await createPage(app, owner)
  const past = new Date(Date.now() - 60_000).toUTCString()
  const now = new Date(Date.now() + 1000).toUTCString()
  for (
    const [headers, status] of [
      [{ 'if-match': page.etag }, 200],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-unmodified-since': past }, 412],
      [{ 'if-modified-since': now }, 304],
      [{ 'if-modified-since': past }, 200],
      [{ 'if-modified-since': now, 'if-none-match': '"x"' }, 200]
    ] as [Record<string, string>, number][]
  ) {
    const response = await send('GET', `/manage/landing_pages/${page.id}`, undefined, headers)
    t.equal(response.statusCode, status, JSON.stringify(headers))
    t.equal(response.headers.etag, page.recordTag)
  }
})

t.test('HEAD returns the status and headers of GET without a body', async (t) => {
  const account = await signUp(app)
  const page = await createPage(app, account)
  await createPage(app, account)
  const cases: [url: string, status: number, has: string[], conditions?: Record<string, string>][] = [
    [`/manage/landing_pages/${page.id}`, 200, ['etag', 'content-length']],
    [`/manage/landing_pages/${page.id}`, 304, ['etag'], { 'if-none-match': page.recordTag }],
    [`/manage/landing_pages/${randomUUID()}`, 404, []],
    ['/manage/landing_pages', 200, ['content-length']],
    ['/manage/landing_pages?limit=1', 200, ['link', 'content-length']],
    ['/manage/landing_pages?limit=0', 422, []],
    ['/auth/me', 200, ['content-length']]
  ]
  for (const [url, status, has, conditions] of cases) {
    const [head, get] = await Promise.all((['HEAD', 'GET'] as const).map(async (method) =>
      await app.inject({
        method,
        url,
        headers: { ...account.headers, ...conditions, 'x-request-id': 'same' }
      })
    ))
    t.equal(head?.statusCode, status, url)
    t.equal(head?.body, '', url)
    t.same({ ...head?.headers, date: '' }, { ...get?.headers, date: '' }, url)
    for (const name of has) {
      t.type(head?.headers[name], 'string', `${url}: ${name}`)
    }

    const refused = await app.inject({ method: 'HEAD', url, headers: { ...conditions } })
    t.equal(refused.statusCode, 401, url)
    t.equal(refused.body, '', url)
    t.equal(refused.headers['www-authenticate'], 'Bearer', url)
    t.equal(refused.headers.etag, undefined, url)
  }
})

t.test('malformed, unknown and deleted ids and those of other users get the same 404', async (t) => {
  const page = await createPage(app, owner)
  const deleted = await createPage(app, owner)
  t.equal((await send('DELETE', `/manage/landing_pages/${deleted.id}`)).statusCode, 204)
  const answers = new Set<string>()
  for (const id of [page.id, deleted.id, randomUUID(), page.public_id]) {
    const url = `/manage/landing_pages/${id}`
    for (
      const response of [
        await send('GET', url, undefined, {}, stranger),
        await send('PATCH', url, '{"current_data":{}}', {}, stranger),
        await send('PATCH', url, '{}', {}, stranger),
        await send('PATCH', url, '{"current_data":5}', {}, stranger),
        await send('PATCH', url, '{"price":2}', {}, stranger),
        await send('PATCH', url, '[]', {}, stranger),
        await send('PATCH', url, '{"current_data":{}}', { 'if-match': page.etag }, stranger),
        await send('DELETE', url, undefined, {}, stranger),
        await send('DELETE', url, undefined, { 'if-match': '"x"' }, stranger)
      ]
    ) {
      t.equal(response.statusCode, 404, id)
      answers.add(response.body)
    }
  }
  t.same([...answers], ['{"errors":["Not found"]}'])
  t.equal((await read(page.public_id)).body, '{"hello":"world"}')
})

t.test('DELETE without a body removes the page, whatever the content type', async (t) => {
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  for (
    const headers of [{}, { 'content-type': 'application/json' }, form, { ...form, 'content-length': '0' }, {
      'content-type': 'nonsense'
    }] as Record<string, string>[]
  ) {
    const page = await createPage(app, owner)
    t.equal((await read(page.public_id)).statusCode, 200)
    const response = await send('DELETE', `/manage/landing_pages/${page.id}`, undefined, headers)
    t.equal(response.statusCode, 204)
    t.equal(response.body, '')
    t.equal((await read(page.public_id)).statusCode, 404)
    t.equal((await send('GET', `/manage/landing_pages/${page.id}`)).statusCode, 404)
    for (const tag of ['*', page.etag]) {
      const again = await send('DELETE', `/manage/landing_pages/${page.id}`, undefined, { 'if-match': tag })
      t.equal(again.statusCode, 404)
    }
  }
})

t.test('DELETE with a form as body gets 415; POST and PATCH check the type even without a body', async (t) => {
  const page = await createPage(app, owner)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  t.equal((await send('DELETE', `/manage/landing_pages/${page.id}`, 'a=b', form)).statusCode, 415)
  t.equal((await send('PATCH', `/manage/landing_pages/${page.id}`, undefined, form)).statusCode, 415)
  t.equal((await send('POST', '/landing_pages', undefined, form)).statusCode, 415)
  t.equal((await send('POST', '/landing_pages')).statusCode, 422)
  t.equal((await read(page.public_id)).statusCode, 200, 'the page still exists')
})

t.test('the list contains the pages of the user, newest first, and continues by cursor', async (t) => {
  const account = await signUp(app)
  const list = async (query = '') =>
    await send('GET', `/manage/landing_pages${query}`, undefined, {}, account)
  t.equal((await list()).body, '[]')
  const ids: string[] = []
  for (let n = 0; n < 103; n++) ids.unshift((await createPage(app, account, `{"n":${n}}`)).id)

  const seen: string[] = []
  let url: string | undefined = '/manage/landing_pages?limit=10'
  let pages = 0
  while (url !== undefined) {
    const response = await send('GET', url, undefined, {}, account)
    t.equal(response.statusCode, 200)
    seen.push(...response.json().map(({ id }: { id: string }) => id))
    const link = /^<(\/manage\/landing_pages\?[^>]*)>; rel="next"$/
      .exec(String(response.headers.link ?? ''))
    url = link?.[1]
    if (++pages === 3) await createPage(app, account) // a newer page does not shift the others
  }
  t.same(seen, ids)
  t.equal(pages, 11)
  t.equal((await list()).json().length, 50, 'the default is 50')
  t.equal((await list('?limit=100')).json().length, 100)
  t.equal((await list('?limit=1')).json().length, 1)
  t.same(Object.keys((await list('?limit=1')).json()[0]), [
    ...'id public_id current_data created_at updated_at version published key'.split(' ')
  ])
})

t.test('a list of large documents ends early and links to the rest', async (t) => {
  const account = await signUp(app)
  for (let n = 0; n < 4; n++) await createPage(app, account, `["${n}${'x'.repeat(240_000)}"]`)
  const first = await send('GET', '/manage/landing_pages', undefined, {}, account)
  t.equal(first.json().length, 2)
  const rest = await send(
    'GET',
    String(/^<([^>]*)>/.exec(String(first.headers.link))?.[1]),
    undefined,
    {},
    account
  )
  t.equal(rest.json().length, 2)
  t.equal(rest.headers.link, undefined)
})
