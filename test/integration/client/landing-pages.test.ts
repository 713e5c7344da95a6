import t from 'tap'
import { createLandfallClient, exactJson,
  PreconditionFailedError } from '../../../packages/client/src/index.ts'
import { DocumentCache } from '../../../packages/client/src/document-cache.ts'
import { failure, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const { url } = await startApp(t, { RATE_LIMIT_PUBLIC: '100000' })

t.test('a page can be created, read, replaced and deleted', async (t) => {
  const { landingPages } = await signedUp(url)
  const page = await landingPages.create<{ title: string }>({ title: 'Hello' })
  t.match(page, {
    current_data: { title: 'Hello' },
    text: '{"title":"Hello"}',
    etag: /^"[\w-]{43}\.1"$/,
    public_id: /^\w{22}$/
  })
  t.same(await landingPages.get(page.id), page)
  const { text } = page
  t.match(await landingPages.read(page.public_id), { document: { title: 'Hello' }, text, etag: String })

  const updated = await landingPages.update(page.id, ['a list'], { ifMatch: page.etag })
  t.same(updated.current_data, ['a list'])
  t.not(updated.etag, page.etag)
  const late = await failure(landingPages.update(page.id, {}, { ifMatch: page.etag }))
  t.ok(late instanceof PreconditionFailedError)
  t.match(await failure(landingPages.delete(page.id, { ifMatch: page.etag })), {
    name: 'PreconditionFailedError'
  })
  t.match((await landingPages.read(page.public_id)).document, ['a list'], 'the document is unchanged')

  const { etag } = await landingPages.read(page.public_id)
  await landingPages.delete(page.id, { ifMatch: etag })
  t.match(await failure(landingPages.get(page.id)), { status: 404, errors: ['Not found'] })
  t.match(await failure(landingPages.read(page.public_id)), { status: 404 })
})

t.test('pages that have changed since a time are listed, the oldest change first', async (t) => {
  const { landingPages } = await signedUp(url)
  await landingPages.create({})
  const [one, two] = [await landingPages.create({}), await landingPages.create({})]
  const { updated_at: updatedSince } = await landingPages.update(one.id, { a: 1 })
  for (const since of [two.updated_at, new Date(two.updated_at)]) {
    const ids: string[] = []
    for await (const { id } of landingPages.list({ updatedSince: since, limit: 1 })) ids.push(id)
    t.same(ids.slice(-2), [two.id, one.id])
  }
  t.equal((await landingPages.listPage({ updatedSince })).items.at(-1)?.id, one.id)
})

t.test('a change can wait until readers get it everywhere', async (t) => {
  const { landingPages } = await signedUp(url)
  const receipt = { settled: true, reached: ['replicas'] }
  const page = await landingPages.create({}, { wait: 10 })
  t.same(page.receipt, receipt)
  t.equal((await landingPages.update(page.id, { a: 1 })).receipt, undefined)
  t.same((await landingPages.putDocument(page.id, { a: 2 }, { wait: 10 })).receipt, receipt)
  t.same((await landingPages.unpublish(page.id, { wait: 10 })).receipt, receipt)
  t.same(await landingPages.delete(page.id, { wait: 10 }), { receipt })
})

t.test('a page can be written and found by its key', async (t) => {
  const { landingPages } = await signedUp(url)
  const first = await landingPages.putByKey('shop', exactJson('{"price":1.0}'), { createOnly: true })
  t.match(first, { created: true, etag: /^"[\w-]{43}\.1"$/ })
  t.match(await failure(landingPages.putByKey('shop', {}, { createOnly: true })), { status: 412 })
  const second = await landingPages.putByKey('shop', exactJson('{"price":2.0}'), { ifMatch: first.etag })
  t.equal(second.created, false)
  const page = await landingPages.getByKey('shop')
  t.match(page, { key: 'shop', text: '{"price":2.0}', version: 2 })

  t.equal((await landingPages.setKey(page.id, 'store')).key, 'store')
  t.equal((await landingPages.update(page.id, [], { key: null })).key, null)
  t.match(await failure(landingPages.getByKey('store')), { status: 404 })
  const unpublished = await landingPages.create({}, { key: 'store', published: false })
  t.match(unpublished, { key: 'store', published: false })
})

t.test('exactJson keeps every byte of a document', async (t) => {
  const { landingPages } = await signedUp(url)
  const text =
    '{ "n": 12345678901234567890, "z": 1.0, "e": 1e400, "m": -0, "s": "\\u00e9\\/\\"}", "__proto__": ' +
    '{"current_data": [1]} }'
  const page = await landingPages.create(exactJson(text))
  t.equal(page.text, text)
  t.equal((await landingPages.get(page.id)).text, text)
  t.equal((await landingPages.read(page.public_id)).text, text)
  t.equal((await landingPages.update(page.id, exactJson(`[${text}]`))).text, `[${text}]`)
  t.equal((await landingPages.listPage()).items[0]?.text, `[${text}]`)
  t.throws(() => exactJson('{"half":'), SyntaxError)
  const refused = { name: 'TypeError', message: /whole document/ }
  for (const nested of [{ price: exactJson('12345678901234567890') }, [exactJson('1.0')]]) {
    t.match(await failure(landingPages.create(nested)), refused)
    t.match(await failure(landingPages.update(page.id, nested)), refused)
  }
  t.equal((await landingPages.get(page.id)).text, `[${text}]`)
})

t.test('an unchanged document is read again with a 304', async (t) => {
  const { landingPages } = await signedUp(url)
  const page = await landingPages.create({ list: [1] })
  const { fetch, sent } = recordingFetch()
  const reader = createLandfallClient({ baseUrl: url, fetch }).landingPages
  const first = await reader.read<{ list: number[] }>(page.public_id)
  first.document.list.push(2)
  const second = await reader.read(page.public_id)
  t.same(second.document, { list: [1] }, 'a caller that changes its document does not change the cached one')
  t.same([first.notModified, second.notModified], [false, true])
  await landingPages.update(page.id, { list: [3] })
  t.match(await reader.read(page.public_id), { document: { list: [3] }, notModified: false })
  t.match(await reader.read(page.public_id), { document: { list: [3] }, notModified: true })
  t.same(sent.map(({ status }) => status), [200, 304, 200, 304])
  t.equal(sent[0]?.headers.get('authorization'), null)

  const forgetful = createLandfallClient({ baseUrl: url, cache: { maxEntries: 0 } }).landingPages
  for (let n = 0; n < 2; n++) t.equal((await forgetful.read(page.public_id)).notModified, false)
})

t.test('a document is used for maxAgeSeconds without a request', async (t) => {
  const { landingPages } = await signedUp(url)
  const page = await landingPages.create({ price: 1 })
  const { fetch, sent } = recordingFetch()
  const options = { baseUrl: url, fetch }
  const reader = createLandfallClient({ ...options, cache: { maxAgeSeconds: 3600 } }).landingPages
  const reads = await Promise.all(Array.from({ length: 50 }, async () => await reader.read(page.public_id)))
  for (const { document } of reads) t.same(document, { price: 1 })
  t.equal(sent.length, 1, 'reads at the same time share a request')
  await landingPages.update(page.id, { price: 2 })
  t.match(await reader.read(page.public_id), { document: { price: 1 }, notModified: true, stale: false })
  t.equal(sent.length, 1)

  const brief = createLandfallClient({ ...options, cache: { maxAgeSeconds: 0.001 } }).landingPages
  t.match(await brief.read(page.public_id), { document: { price: 2 } })
  await landingPages.update(page.id, { price: 3 })
  t.match(await brief.read(page.public_id), { document: { price: 3 }, notModified: false }, 'asked again')
})

t.test('a caller that aborts a shared read does not end it for the others', async (t) => {
  const { landingPages } = await signedUp(url)
  const page = await landingPages.create({ price: 1 })
  const reader = createLandfallClient({ baseUrl: url, cache: { maxAgeSeconds: 3600 } }).landingPages
  const controller = new AbortController()
  const aborted = failure(reader.read(page.public_id, { signal: controller.signal }))
  const other = reader.read(page.public_id)
  controller.abort(new Error('gone'))
  t.match(await aborted, { message: 'gone' })
  t.match(await other, { document: { price: 1 } })
})

t.test('a baseUrl that is not an absolute URL is rejected with an example', async (t) => {
  for (const baseUrl of ['localhost:3000', 'pages.example.com', '/api', '', 'ftp://example.com', 'http://']) {
    const told =
      'baseUrl must be a URL that starts with http:// or https://, such as https://pages.example.com'
    t.throws(() => createLandfallClient({ baseUrl }), new TypeError(`${told}, not "${baseUrl}"`))
  }
})

t.test('the cache stays within its limits and evicts the least recently used document', async (t) => {
  const cache = new DocumentCache({ maxEntries: 2, maxCharacters: 10 })
  const entry = (text: string) => ({ etag: text, text, askedMs: 0 })
  cache.set('a', entry('aaaa'))
  cache.set('b', entry('bbbb'))
  cache.get('a')
  cache.set('c', entry('c'))
  t.same(['a', 'b', 'c'].map((key) => cache.get(key)?.text), ['aaaa', undefined, 'c'])
  cache.set('d', entry('dddddddddd'))
  t.same(['a', 'c', 'd'].map((key) => cache.get(key)?.text), [undefined, undefined, 'dddddddddd'])
  cache.set('e', entry('eeeeeeeeeee'))
  t.same(['d', 'e'].map((key) => cache.get(key)?.text), ['dddddddddd', undefined])
})

t.test('landingPages.list() returns all pages, newest first, until it is aborted', async (t) => {
  const { landingPages } = await signedUp(url)
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.unshift((await landingPages.create({ n })).id)

  const found = []
  for await (const page of landingPages.list<{ n: number }>({ limit: 2 })) found.push(page)
  t.same(found.map(({ id }) => id), ids)
  t.same(found.map(({ current_data: data }) => data.n), [4, 3, 2, 1, 0])

  const first = await landingPages.listPage({ limit: 3 })
  t.equal(first.items.length, 3)
  const rest = await landingPages.listPage({ cursor: first.next })
  t.same(rest.items.map(({ id }) => id), ids.slice(3))
  t.equal(rest.next, undefined)
  t.match(await failure(landingPages.listPage({ limit: 0 })), { status: 422, errors: [/^Limit must be/] })

  const controller = new AbortController()
  let seen = 0
  const listing = (async () => {
    for await (const { id } of landingPages.list({ limit: 2, signal: controller.signal })) {
      t.equal(id, ids[seen])
      if (++seen === 3) controller.abort()
    }
  })()
  t.match(await failure(listing), { name: 'AbortError' })
  t.equal(seen, 3)
})

t.test('lists are searched and sorted, and iterators go on behind empty parts', async (t) => {
  const { landingPages, assets } = await signedUp(url)
  for (const title of ['b cafe', 'Zebra', 'A Café']) await landingPages.create({ title })
  const labels = []
  for await (const { label, reads } of landingPages.summaries({ q: 'café', sort: 'label', limit: 1 })) {
    labels.push(label)
    t.same(reads, Array(24).fill(0))
  }
  t.same(labels, ['A Café', 'b cafe'])
  const { items } = await landingPages.listPage({ q: 'zebra', sort: 'updated' })
  t.same(items.map(({ current_data: data }) => data), [{ title: 'Zebra' }])
  t.match(await failure(landingPages.listPage({ q: 'x'.repeat(101) })), {
    status: 422,
    errors: [/^Q is too long/]
  })
  await assets.upload(new Blob(['text'], { type: 'text/plain' }), { filename: 'note.txt' })
  const names = []
  for await (const { filename } of assets.list({ type: 'document', sort: 'byte_size', q: 'NOTE' })) {
    names.push(filename)
  }
  t.same(names, ['note.txt'])
  t.same((await assets.listPage({ type: 'image' })).items, [])

  const asked: string[] = []
  const client = createLandfallClient({
    baseUrl: 'http://localhost',
    apiKey: `lf_${'x'.repeat(46)}`,
    fetch: async (address) => {
      asked.push(String(address))
      const link = { link: `</assets?q=a&cursor=${asked.length}>; rel="next"` }
      const body = asked.length === 3 ? '[{"id":"found"}]' : '[]'
      return new Response(body, {
        headers: { 'content-type': 'application/json', ...asked.length < 4 && link }
      })
    }
  })
  const found = []
  for await (const { id } of client.assets.list({ q: 'a' })) found.push(id)
  t.same(found, ['found'])
  t.same(asked.map((address) => new URL(address).search), [
    '?q=a',
    '?q=a&cursor=1',
    '?q=a&cursor=2',
    '?q=a&cursor=3'
  ])
})
