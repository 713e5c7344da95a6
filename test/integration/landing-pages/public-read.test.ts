import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp } from '../../helpers/app.ts'

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000' })
const owner = await signUp(app)
const read = async (
  publicId: string,
  headers: Record<string, string> = {},
  method: 'GET' | 'HEAD' | 'OPTIONS' = 'GET'
) => await app.inject({ method, url: `/landing_pages/${publicId}`, headers })
const replace = async (id: string, document: string, more: Record<string, string> = {}) =>
  await sendAs(app, owner, 'PATCH', `/manage/landing_pages/${id}`, `{"current_data":${document}}`, more)

const small = '{"n": 1.0}'
const large = `{"items":[${
  Array.from({ length: 500 }, (_, n) => `{"item":${n},"text":"again and again"}`).join(', ')
}]}`

t.test('a read evaluates all conditions in the order of RFC 9110', async (t) => {
  const { id, public_id: publicId, etag } = await createPage(app, owner, large)
  /** An app without a cached copy, and with this time of the last write. */
  const readerAt = async (updatedAt: Date) => {
    await app.database.landingPage.update({ where: { id }, data: { updatedAt } })
    const { DATABASE_URL, UPLOADS_DIR } = app.config
    return await buildTestApp(t, {
      DATABASE_URL: String(DATABASE_URL),
      UPLOADS_DIR,
      RATE_LIMIT_PUBLIC: '1000'
    })
  }
  const updatedAt = new Date(Date.now() - 3_600_000)
  const modified = updatedAt.toUTCString()
  const earlier = new Date(updatedAt.getTime() - 60_000).toUTCString()
  const reader = await readerAt(updatedAt)
  const [brTag, gzipTag] = [etag.replace(/"$/, '-br"'), etag.replace(/"$/, '-gzip"')]
  const cases: [headers: Record<string, string>, status: number, named?: string][] = [
    [{ 'if-modified-since': modified }, 304],
    [{ 'if-modified-since': `${modified.slice(0, 3)} ${asctime(updatedAt)}` }, 304],
    [{ 'if-modified-since': earlier }, 200],
    [{ 'if-modified-since': 'nonsense' }, 200],
    [{ 'if-modified-since': modified, 'if-none-match': '"x"' }, 200],
    [{ 'if-modified-since': earlier, 'if-none-match': etag }, 304],
    [{ 'if-match': '"x"' }, 412, 'If-Match'],
    [{ 'if-match': `W/${etag}` }, 412, 'If-Match'],
    [{ 'if-match': '"x"', 'if-none-match': etag }, 412, 'If-Match'],
    [{ 'if-match': etag }, 200],
    [{ 'if-match': brTag }, 200],
    [{ 'if-match': gzipTag, 'if-unmodified-since': earlier }, 200],
    [{ 'if-match': etag, 'if-none-match': etag }, 304],
    [{ 'if-unmodified-since': modified }, 200],
    [{ 'if-unmodified-since': earlier }, 412, 'If-Unmodified-Since']
  ]
  for (const [headers, status, named] of cases) {
    for (const method of ['GET', 'HEAD'] as const) {
      const response = await reader.inject({ method, url: `/landing_pages/${publicId}`, headers })
      const what = `${method} ${JSON.stringify(headers)}`
      t.equal(response.statusCode, status, what)
      t.equal(response.headers.etag, etag, what)
      t.equal(response.headers['last-modified'], status === 412 ? undefined : modified, what)
      t.ok(response.headers.ratelimit, what)
      if (status === 412) t.equal(response.headers['cache-control'], 'no-store', what)
      if (named !== undefined && method === 'GET') t.match(response.json().errors[0], named, what)
    }
  }

  const ahead = new Date(Date.now() + 3_600_000)
  const fresh = await (await readerAt(ahead)).inject({
    url: `/landing_pages/${publicId}`,
    headers: { 'if-modified-since': ahead.toUTCString() }
  })
  t.equal(fresh.statusCode, 200, 'another write may have the same date')
  t.equal(fresh.headers['last-modified'], undefined)
})

/** The date as C's asctime() formats it, without the day of the week. */
const asctime = (date: Date): string => {
  const [, day = '', month, year, time] = date.toUTCString().split(' ')
  return `${month} ${String(Number(day)).padStart(2)} ${time} ${year}`
}

t.test('br and gzip responses have entity tags of their own', async (t) => {
  const page = await createPage(app, owner, large)
  const responses = [
    await read(page.public_id),
    await read(page.public_id, { 'accept-encoding': 'gzip, deflate, br' }),
    await read(page.public_id, { 'accept-encoding': 'gzip' })
  ]
  const decode = [String, brotliDecompressSync, gunzipSync]
  for (const [n, response] of responses.entries()) {
    t.equal(decode[n]?.(response.rawPayload).toString(), large)
    t.match(response.headers, {
      'content-encoding': [undefined, 'br', 'gzip'][n],
      'content-length': String(response.rawPayload.length),
      vary: 'Accept-Encoding',
      'content-type': 'application/json; charset=utf-8'
    })
  }
  const tags = responses.map((response) => String(response.headers.etag))
  t.equal(new Set(tags).size, 3)
  for (const [n, tag] of tags.entries()) {
    for (const [m, encoding] of ['identity', 'br', 'gzip'].entries()) {
      const known = await read(page.public_id, { 'if-none-match': tag, 'accept-encoding': encoding })
      t.equal(known.statusCode, n === m ? 304 : 200, `${tag} for ${encoding}`)
      if (n === m) {
        t.match(known.headers, { etag: tag, vary: 'Accept-Encoding', 'content-encoding': undefined })
      }
    }
    t.equal((await replace(page.id, large, { 'if-match': tag })).statusCode, 200)
  }
  await replace(page.id, small)
  for (const tag of tags) t.equal((await read(page.public_id, { 'if-none-match': tag })).statusCode, 200)
})

t.test('a document that compression would make longer is sent as it is', async (t) => {
  const response = await read((await createPage(app, owner, '{}')).public_id, { 'accept-encoding': 'br' })
  t.match(response, { body: '{}', headers: { 'content-encoding': undefined } })
})

t.test('each version is compressed once per encoding, also for concurrent requests', async (t) => {
  const page = await createPage(app, owner, large)
  const before = app.documents.compressions.br
  const headers = { 'accept-encoding': 'br' }
  await Promise.all(Array.from({ length: 20 }, async () => await read(page.public_id, headers)))
  t.equal(app.documents.compressions.br, before + 1)
})

t.test('a document that does not fit into the cache is sent uncompressed', async (t) => {
  const bare = await buildTestApp(t, {
    CACHE_MAX_BYTES: '10000',
    RATE_LIMIT_PUBLIC: '1000000',
    PUBLIC_CACHE_CONTROL: 'public, max-age=5'
  })
  const account = await signUp(bare)
  const page = await createPage(bare, account, large)
  const fitting = await createPage(bare, account, JSON.stringify(['again and again '.repeat(300)]))
  const [too, fits] = [page.public_id, fitting.public_id]
  for (const [publicId, encoding] of [[too, undefined], [fits, 'br'], [too, undefined]] as const) {
    const url = `/landing_pages/${publicId}`
    const response = await bare.inject({ url, headers: { 'accept-encoding': 'br' } })
    const caching = { vary: 'Accept-Encoding', 'cache-control': 'public, max-age=5' }
    t.match(response.headers, { 'content-encoding': encoding, ...caching })
    if (encoding === undefined) t.equal(response.body, large)
  }
})
