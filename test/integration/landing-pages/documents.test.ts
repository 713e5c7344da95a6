import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp, type Account } from '../../helpers/app.ts'

// Documents by themselves, without their records.

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000', MAX_DOCUMENT_BYTES: String(64 * 1024) })
const owner = await signUp(app)
const stranger = await signUp(app)

const urlOf = (id: string) => `/manage/landing_pages/${id}/document`
const get = async (id: string) => await sendAs(app, owner, 'GET', urlOf(id))
const put = async (
  id: string,
  payload: string | Buffer | undefined,
  headers: Record<string, string> = {},
  account: Account = owner
) => await sendAs(app, account, 'PUT', urlOf(id), payload, { 'content-type': 'application/json', ...headers })
const read = async (publicId: string) => await app.inject({ url: `/landing_pages/${publicId}` })

t.test('the document is sent and stored byte for byte', async (t) => {
  const { id, public_id: publicId } = await createPage(app, owner)
  // publication-model.test.ts and hostile/exact-bytes.test.ts have many others.
  const document = ' {"a" : 1.0, "a":1e400,"__proto__":{"\\ud800":"\\u0000"}}\r\n'
  const { statusCode, headers: { etag } } = await put(id, document)
  t.equal(statusCode, 204)
  const headers = { 'content-type': 'application/json; charset=utf-8', etag }
  t.match(await get(id), { body: document, headers })
  t.match(await read(publicId), { body: document, headers }, 'the same as the public read')
  t.equal((await put(id, '\uFEFF{"a":1}')).statusCode, 204)
  t.equal((await get(id)).body, '{"a":1}', 'a byte order mark is no part of the document')
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
      [`["${'x'.repeat(64 * 1024)}"]`, 413, ['Request body is too large (maximum is 65536 bytes)']]
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
