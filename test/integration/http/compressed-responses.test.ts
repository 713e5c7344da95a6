import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { buildTestApp, createPage, sendAs, signIn, signUp } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'

// The compression of the management API. public-responses.test.ts has that of public reads, addresses.test.ts
// the syntax of Accept-Encoding.

const app = await buildTestApp(t, { CORS_ORIGINS: 'https://editor.example.com' })
const owner = await signUp(app)
const DOCUMENT = JSON.stringify({ sections: Array(100).fill({ title: 'Hello', price: 9.9 }) })
const RECORD = `{"current_data":${DOCUMENT}}`
const DECODE = { br: brotliDecompressSync, gzip: gunzipSync } as const

interface Options {
  readonly headers?: Record<string, string>
  readonly payload?: string
}

const send = async (
  method: Parameters<typeof sendAs>[2],
  url: string,
  { headers, payload }: Options = {}
) => await sendAs(app, owner, method, url, payload, headers)

const tagOf = async (url: string, headers = {}): Promise<string> =>
  String((await send('GET', url, { headers })).headers.etag)

/** Uploads a picture that many pages use, so that its record is long. Returns the URL of the record. */
async function uploadUsedPicture (): Promise<string> {
  const asset = (await upload(app, owner, PNG, 'dot.png')).json()
  for (let i = 0; i < 12; i++) await createPage(app, owner, JSON.stringify({ picture: asset.url }))
  return `/assets/${asset.id}`
}

for (const encoding of ['br', 'gzip'] as const) {
  const accept = { 'accept-encoding': encoding }

  t.test(`${encoding}: reads return the same content with another ETag, and HEAD responses as GET`, async (t) => {
    const { id } = await createPage(app, owner, DOCUMENT)
    const url = `/manage/landing_pages/${id}`
    const asset = await uploadUsedPicture()
    const ofPage = ['', '/document', '/revisions/1', '/reads'].map((path) => url + path)
    for (const url of [...ofPage, '/manage/landing_pages', asset]) {
      const plain = await send('GET', url)
      t.equal(plain.headers['content-encoding'], undefined, url)
      t.match(plain.headers, { vary: 'Origin, Accept-Encoding' }, url)

      const compressed = await send('GET', url, { headers: accept })
      t.match(compressed.headers, {
        'content-encoding': encoding,
        'content-length': String(compressed.rawPayload.length),
        vary: 'Origin, Accept-Encoding',
        'cache-control': 'private, no-cache'
      }, url)
      t.equal(DECODE[encoding](compressed.rawPayload).toString(), plain.body, url)
      t.ok(compressed.rawPayload.length < plain.rawPayload.length, url)
      const etag = plain.headers.etag as string | undefined
      t.equal(compressed.headers.etag, etag?.replace(/"$/, `-${encoding}"`), url)

      const { headers: headHeaders } = await send('HEAD', url, { headers: accept })
      for (const name of ['content-encoding', 'content-length', 'vary', 'etag']) {
        t.equal(headHeaders[name], compressed.headers[name], `${name} of HEAD ${url}`)
      }
    }
  })

  t.test(`${encoding}: a read with the ETag of any encoding is answered with 304 and that ETag`, async (t) => {
    const { id } = await createPage(app, owner, DOCUMENT)
    const url = `/manage/landing_pages/${id}`
    for (const path of [url, `${url}/document`, `${url}/revisions/1`, await uploadUsedPicture()]) {
      for (const etag of [await tagOf(path), await tagOf(path, accept)]) {
        for (const method of ['GET', 'HEAD'] as const) {
          const headers = { ...accept, 'if-none-match': `"other", ${etag}` }
          const known = await send(method, path, { headers })
          t.equal(known.statusCode, 304, `${method} ${path} ${etag}`)
          t.match(known.headers, { etag, vary: 'Origin, Accept-Encoding' }, `${method} ${path} ${etag}`)
          t.equal(known.headers['content-encoding'], undefined)
        }
      }
    }
  })

  t.test(`${encoding}: a write accepts every ETag of the current version, and none of an earlier one`, async (t) => {
    const { id } = await createPage(app, owner, DOCUMENT)
    const url = `/manage/landing_pages/${id}`
    const merge = { headers: { 'content-type': 'application/merge-patch+json' }, payload: '{"added":1}' }
    const writes: [Parameters<typeof send>[0], string, Options?][] = [
      ['PATCH', url, { payload: RECORD.replace('9.9', '1.0') }],
      ['PUT', `${url}/document`, { payload: DOCUMENT.replace('9.9', '2.0') }],
      ['PATCH', `${url}/document`, merge],
      ['POST', `${url}/revisions/1/restore`],
      ['DELETE', url]
    ]
    for (const from of [url, `${url}/document`]) {
      for (
        const [method, path, { payload, ...more } = {}] of writes.slice(0, from === url ? -1 : undefined)
      ) {
        const etag = await tagOf(from, accept)
        t.match(etag, new RegExp(`-${encoding}"$`))
        const headers = { ...accept, ...more.headers, 'if-match': etag }
        const write = async () => await send(method, path, { headers, payload })
        const response = await write()
        t.ok(response.statusCode < 300, `${method} ${path} with ${etag}`)
        if (method === 'DELETE') continue
        const isCompressed = response.headers['content-encoding'] !== undefined
        if (isCompressed) t.equal(response.headers.etag, await tagOf(url, accept))
        t.equal((await write()).statusCode, 412, `${method} ${path} with ${etag} again`)
      }
    }
    const asset = await uploadUsedPicture()
    const etag = await tagOf(asset, accept)
    t.match(etag, new RegExp(`-${encoding}"$`))
    t.equal((await send('DELETE', asset, { headers: { 'if-match': '"other-br"' } })).statusCode, 412)
    t.equal((await send('DELETE', asset, { headers: { 'if-match': etag } })).statusCode, 204)
  })
}

t.test('records that writes return are compressed', async (t) => {
  const headers = { 'accept-encoding': 'gzip' }
  const created = await send('POST', '/landing_pages', { headers, payload: RECORD })
  t.match(created.headers, { 'content-encoding': 'gzip', 'cache-control': 'no-store', etag: /\.1-gzip"$/ })
  const { id } = JSON.parse(gunzipSync(created.rawPayload).toString())
  const patched = await send('PATCH', `/manage/landing_pages/${id}`, {
    headers: { ...headers, 'if-match': String(created.headers.etag) },
    payload: RECORD.replace('9.9', '1.0')
  })
  t.match(patched.headers, { 'content-encoding': 'gzip', etag: /\.2-gzip"$/ })
  t.match(gunzipSync(patched.rawPayload).toString(), /"price":1\.0/)
})

t.test('short responses, errors, and responses that may hold secrets are sent as they are', async (t) => {
  const headers = { 'accept-encoding': 'br, gzip' }
  const { id, recordTag } = await createPage(app, owner)
  const short = await send('GET', `/manage/landing_pages/${id}`, { headers })
  t.match(short.headers, { etag: recordTag, vary: 'Origin, Accept-Encoding' })
  const put = await send('PUT', `/manage/landing_pages/${id}/document`, { headers, payload: DOCUMENT })
  t.equal(put.statusCode, 204)
  const missing = await send('GET', '/manage/landing_pages/none', { headers })
  t.equal(missing.statusCode, 404)
  for (let i = 0; i < 4; i++) await signIn(app, owner, { headers: { 'user-agent': 'x'.repeat(256) } })
  const sessions = await send('GET', '/auth/sessions', { headers })
  t.ok(sessions.rawPayload.length > 1024)
  for (const { headers } of [short, put, missing, sessions]) t.equal(headers['content-encoding'], undefined)
})

t.test('a record beyond the memory for compression is sent as it is', async (t) => {
  const settings = { MAX_DOCUMENT_BYTES: String(9 * 1024 * 1024) }
  const app = await buildTestApp(t, settings)
  const owner = await signUp(app)
  const get = async (bytes: number) => {
    const { id } = await createPage(app, owner, `["${'x'.repeat(bytes - 4)}"]`)
    const encoding = { 'accept-encoding': 'gzip' }
    return await sendAs(app, owner, 'GET', `/manage/landing_pages/${id}/document`, undefined, encoding)
  }
  const large = await get(9 * 1024 * 1024)
  t.match(large.headers, { etag: /^"[\w-]{43}"$/, 'content-length': String(9 * 1024 * 1024) })
  t.equal(large.headers['content-encoding'], undefined)
  t.equal((await get(1024 * 1024)).headers['content-encoding'], 'gzip')
})
