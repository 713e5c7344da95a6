import t from 'tap'
import { buildTestApp, createPage, signUp, type Account } from '../../helpers/app.ts'

// Documents by themselves, without their records.

const app = await buildTestApp(t, {
  settings: { RATE_LIMIT_PUBLIC: '1000000', MAX_DOCUMENT_BYTES: String(64 * 1024) }
})
const owner = await signUp(app)
const stranger = await signUp(app)

const urlOf = (id: string) => `/manage/landing_pages/${id}/document`
const get = async (id: string, headers: Record<string, string> = {}, account: Account = owner) =>
  await app.inject({ url: urlOf(id), headers: { ...account.headers, ...headers } })
const put = async (
  id: string,
  payload: string | Buffer | undefined,
  headers: Record<string, string> = {},
  account: Account = owner
) =>
  await app.inject({
    method: 'PUT',
    url: urlOf(id),
    headers: { ...account.headers, 'content-type': 'application/json', ...headers },
    ...payload !== undefined && { payload }
  })
const read = async (publicId: string) => await app.inject({ url: `/landing_pages/${publicId}` })

t.test('the document is sent and stored byte for byte', async (t) => {
  const { id, public_id: publicId } = await createPage(app, owner)
  for (
    const document of [
      '{}',
      '[]',
      ' {"a" : 1.0}\r\n',
      '\t[1e400,-0, 12345678901234567890 ]\n',
      '{"a":1,"a":2,"__proto__":{"\\ud800":"\\u0000"}}'
    ]
  ) {
    const written = await put(id, document)
    t.equal(written.statusCode, 204, document)
    t.equal(written.body, '')
    t.equal(written.headers['content-length'], undefined)
    const found = await get(id)
    t.equal(found.body, document)
    t.equal(found.headers['content-type'], 'application/json; charset=utf-8')
    t.equal(found.headers.etag, written.headers.etag)
    const published = await read(publicId)
    t.equal(published.body, document)
    t.equal(published.headers.etag, written.headers.etag, 'the same ETag as the public read')
  }
})

t.test('a byte order mark is no part of the document', async (t) => {
  const { id } = await createPage(app, owner)
  t.equal((await put(id, '\uFEFF{"a":1}')).statusCode, 204)
  t.equal((await get(id)).body, '{"a":1}')
})

t.test('the body must be a document', async (t) => {
  const { id } = await createPage(app, owner, '{"kept":true}')
  const deep = '['.repeat(101) + ']'.repeat(101)
  const type = ['Request body must be a JSON object or array']
  for (
    const [body, status, errors] of [
      ['5', 422, type],
      ['"text"', 422, type],
      ['null', 422, type],
      [undefined, 422, type],
      ['{"a":', 400, ['Request body is not valid JSON (line 1, column 6)']],
      [Buffer.from([0x22, 0xff, 0x22]), 400, ['Request body is not valid JSON (not UTF-8)']],
      [deep, 422, ['Document is nested too deeply (maximum is 100 levels)']],
      [`["${'x'.repeat(64 * 1024)}"]`, 413, ['Request body is too large']]
    ] as const
  ) {
    const response = await put(id, body)
    t.equal(response.statusCode, status)
    t.same(response.json().errors, errors)
    t.equal((await put(id, body, {}, stranger)).statusCode, status === 422 ? 404 : status, 'as a stranger')
  }
  t.equal((await put(id, '{}', { 'content-type': 'text/plain' })).statusCode, 415)
  t.equal((await get(id)).body, '{"kept":true}')
  t.equal((await put(id, '{"current_data":{}}')).statusCode, 204)
  t.equal((await get(id)).body, '{"current_data":{}}', 'there is no wrapper')
})

t.test('a document that the client has is not sent again', async (t) => {
  const page = await createPage(app, owner)
  for (const tag of [page.etag, `W/${page.etag}`, '*', `"x", ${page.etag}`]) {
    const response = await get(page.id, { 'if-none-match': tag })
    t.equal(response.statusCode, 304, tag)
    t.equal(response.body, '')
    t.equal(response.headers.etag, page.etag)
  }
  t.equal((await get(page.id, { 'if-none-match': '"other"' })).statusCode, 200)
  t.equal((await get(page.id, { 'if-match': '"other"' })).statusCode, 412)
  const head = await app.inject({ method: 'HEAD', url: urlOf(page.id), headers: owner.headers })
  t.equal(head.statusCode, 200)
  t.equal(head.headers['content-length'], '17')
  t.equal(head.headers.etag, page.etag)
  t.equal(head.body, '')
})

t.test("a write accepts each of a page's ETags in If-Match", async (t) => {
  const page = await createPage(app, owner, '{"v":0}')
  let { etag, recordTag } = page
  for (const [index, tag] of [() => etag, () => recordTag, () => '*', () => `"x", ${etag}`].entries()) {
    const response = await put(page.id, `{"v":${index + 1}}`, { 'if-match': tag() })
    t.equal(response.statusCode, 204, tag())
    etag = String(response.headers.etag)
    const record = await app.inject({ url: `/manage/landing_pages/${page.id}`, headers: owner.headers })
    recordTag = String(record.headers.etag)
  }
  const stale: Record<string, string>[] = [{ 'if-match': page.etag }, { 'if-none-match': '*' }, {
    'if-none-match': etag
  }]
  for (const headers of stale) {
    const response = await put(page.id, '{"lost":true}', headers)
    t.equal(response.statusCode, 412, JSON.stringify(headers))
    t.equal(response.headers.etag, etag, 'with the current ETag of the document')
  }
  t.equal((await get(page.id)).body, '{"v":4}')
})

t.test('a document is written as a version of the page', async (t) => {
  const page = await createPage(app, owner, '{"v":1}')
  await put(page.id, '{"v":2}')
  await put(page.id, '{"v":2}')
  const record = await app.inject({ url: `/manage/landing_pages/${page.id}`, headers: owner.headers })
  t.equal(record.json().version, 2, 'the same bytes change nothing')
})
