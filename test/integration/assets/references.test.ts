import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp, type Account } from '../../helpers/app.ts'
import { PNG, pathOf, upload } from '../../helpers/assets.ts'
import { query } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'

// Which pages use an asset, and deletions that depend on it, also while pages are written.

const app = await buildTestApp(t)
const owner = await signUp(app)
const { DATABASE_URL: url = '' } = app.config

interface Uploaded {
  readonly id: string
  readonly url: string
  readonly etag: string
  /** The last part of the URL. */
  readonly key: string
}

async function uploaded (account: Account = owner): Promise<Uploaded> {
  const response = await upload(app, account, PNG)
  const { id, url } = response.json()
  return { id, url, etag: String(response.headers.etag), key: url.split('/').at(-1) }
}

type Headers = Record<string, string>
const get = async (id: string, headers: Headers = {}, by: Account = owner) =>
  await sendAs(app, by, 'GET', `/assets/${id}`, undefined, headers)

const remove = async (id: string, query = '', headers: Headers = {}, by: Account = owner) =>
  await sendAs(app, by, 'DELETE', `/assets/${id}${query}`, undefined, headers)

const usersOf = async ({ id }: Uploaded): Promise<string[]> =>
  (await get(id)).json().used_by.map((page: { id: string }) => page.id)

const send = async (
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  payload?: string,
  headers: Headers = {}
) => await sendAs(app, owner, method, `/manage/landing_pages/${url}`, payload, headers)
const put = async (id: string, document: string) => await send('PUT', `${id}/document`, document)
const usedAssets = async (pageId: string): Promise<string[]> =>
  (await query(url, `SELECT used_assets FROM landing_pages WHERE id = '${pageId}'`))[0]
    ?.used_assets as unknown as string[]
const JSON_PATCH = { 'content-type': 'application/json-patch+json' }
const MERGE_PATCH = { 'content-type': 'application/merge-patch+json' }

t.test('the record lists the pages that use an asset, newest first', async (t) => {
  const asset = await uploaded()
  t.same((await get(asset.id)).json().used_by, [])
  const older = await createPage(app, owner, JSON.stringify({ image: asset.url }))
  await createPage(app, owner, '{"image":null}')
  const newer = await createPage(app, owner, JSON.stringify([[[{ html: `<img src="${asset.url}">` }]]]))
  const pages = [newer, older].map((page) => ({ id: page.id, public_id: page.public_id }))
  t.same((await get(asset.id)).json().used_by, pages)
  t.equal((await upload(app, owner, PNG)).json().used_by, undefined, 'the response to an upload')
  for (const record of (await app.inject({ url: '/assets', headers: owner.headers })).json()) {
    t.equal(record.used_by, undefined, 'the list')
  }
})

t.test('each way to write a document changes what it uses', async (t) => {
  const asset = await uploaded()
  const using = JSON.stringify({ a: asset.url })
  const { id } = await createPage(app, owner)
  const add = `[{"op":"add","path":"/a","value":"${asset.url}"}]`
  const ways: Record<string, () => Promise<{ statusCode: number }>> = {
    'PATCH of the page': async () => await send('PATCH', id, `{"current_data":${using}}`),
    PUT: async () => await put(id, using),
    'a JSON patch': async () => await send('PATCH', `${id}/document`, add, JSON_PATCH),
    'a merge patch': async () => await send('PATCH', `${id}/document`, using, MERGE_PATCH),
    restore: async () => await send('POST', `${id}/revisions/2/restore`)
  }
  for (const [name, write] of Object.entries(ways)) {
    t.same(await usersOf(asset), [], `before ${name}`)
    t.ok((await write()).statusCode < 300, name)
    t.same(await usersOf(asset), [id], name)
    t.ok((await put(id, '{"a":1}')).statusCode < 300)
  }
  t.same(await usersOf(asset), [], 'an older version of the page does not count')

  await put(id, using)
  t.equal((await send('POST', `${id}/revisions/1/restore`)).statusCode, 200)
  t.same(await usersOf(asset), [], 'a version is restored that does not use it')
  await put(id, using)
  t.equal((await send('DELETE', id)).statusCode, 204)
  t.same(await usersOf(asset), [], 'the page is deleted')
})

t.test('a page uses an asset if its name stands anywhere in the document', async (t) => {
  const asset = await uploaded()
  const [stem] = asset.key.split('.')
  const { id } = await createPage(app, owner)
  const documents = {
    'another BASE_URL': JSON.stringify([`https://old.example.com/base/uploads/${asset.key}`]),
    'a relative path': JSON.stringify([`../uploads/${asset.key}?x#y`]),
    'the name alone': JSON.stringify([asset.key]),
    'the name of a member': JSON.stringify({ [asset.url]: 1 }),
    'a variant': JSON.stringify([`/uploads/${stem}/w640.webp 640w, /uploads/${stem}/w320.webp 320w`]),
    'escapes before it': `["https:\\/\\/landfall.test\\u002F${asset.key}\\u0022"]`,
    'JSON in a string': JSON.stringify([JSON.stringify({ url: asset.url }).replaceAll('/', '\\/')]),
    'a long document': JSON.stringify(['%'.repeat(300_000), asset.key, '&'.repeat(300_000)])
  }
  for (const [name, document] of Object.entries(documents)) {
    t.equal((await put(id, document)).statusCode, 204, name)
    t.same(await usersOf(asset), [id], name)
    t.equal((await put(id, '[]')).statusCode, 204)
  }
})

t.test('the page of another owner is no use', async (t) => {
  const asset = await uploaded()
  const stranger = await signUp(app)
  const strange = await createPage(app, stranger, JSON.stringify([asset.url]))
  t.same(await usedAssets(strange.id), [])
})

t.test('the record lists at most 100 pages', async (t) => {
  const account = await signUp(app)
  const asset = await uploaded(account)
  const ids: string[] = []
  for (let n = 0; n < 103; n++) ids.unshift((await createPage(app, account, JSON.stringify([asset.url]))).id)
  const usedBy = (await get(asset.id, {}, account)).json().used_by
  t.same(usedBy.map((page: { id: string }) => page.id), ids.slice(0, 100))
  const refused = await remove(asset.id, '?if_unused=true', {}, account)
  t.equal(refused.statusCode, 409)
  const names = usedBy.slice(0, 10).map((page: { public_id: string }) => page.public_id).join(', ')
  t.same(refused.json().errors, [`File is used by 103 pages: ${names}, …`])
  const etag = String((await get(asset.id, {}, account)).headers.etag)
  t.equal((await remove(asset.id, '', { 'if-match': etag }, account)).statusCode, 204)
})

t.test('if_unused=true deletes an asset only if no page uses it', async (t) => {
  const asset = await uploaded()
  const page = await createPage(app, owner, JSON.stringify([asset.url]))
  const refused = await remove(asset.id, '?if_unused=true')
  t.equal(refused.statusCode, 409)
  t.same(refused.json(), { errors: [`File is used by 1 page: ${page.public_id}`] })
  t.equal((await app.inject(pathOf(asset))).statusCode, 200, 'the file is still there')

  const second = await createPage(app, owner, JSON.stringify([asset.url]))
  t.same((await remove(asset.id, '?if_unused=true')).json(), {
    errors: [`File is used by 2 pages: ${second.public_id}, ${page.public_id}`]
  })
  for (const { id } of [page, second]) await put(id, '[]')
  t.equal((await remove(asset.id, '?if_unused=true')).statusCode, 204)
  t.equal((await app.inject(pathOf(asset))).statusCode, 404)
  t.equal((await remove(asset.id, '?if_unused=true')).statusCode, 404)
})

t.test('without if_unused=true an asset is deleted although a page uses it', async (t) => {
  for (const query of ['', '?if_unused=false']) {
    const asset = await uploaded()
    const { id } = await createPage(app, owner, JSON.stringify([asset.url]))
    t.equal((await remove(asset.id, query)).statusCode, 204)
    t.equal((await app.inject(pathOf(asset))).statusCode, 404)
    // The page stays as it is, and can still be written.
    t.equal((await put(id, JSON.stringify([asset.url, 2]))).statusCode, 204)
    t.equal((await send('POST', `${id}/revisions/1/restore`)).statusCode, 200)
  }
})

t.test('the ETag of a record changes with the pages that use it', async (t) => {
  const asset = await uploaded()
  t.equal((await get(asset.id, { 'if-none-match': asset.etag })).statusCode, 304)
  await createPage(app, owner, JSON.stringify([asset.url]))
  const changed = await get(asset.id, { 'if-none-match': asset.etag })
  const etag = String(changed.headers.etag)
  t.equal(changed.statusCode, 200)
  t.not(etag, asset.etag)

  t.match(await remove(asset.id, '', { 'if-match': asset.etag }), { statusCode: 412, headers: { etag } })
  t.equal((await remove(asset.id, '?if_unused=true', { 'if-match': asset.etag })).statusCode, 412)
  t.equal((await remove(asset.id, '?if_unused=true', { 'if-match': etag })).statusCode, 409)
  t.equal((await remove(asset.id, '', { 'if-match': etag })).statusCode, 204)
})

t.test('of a write and a deletion at once, one sees the other', async (t) => {
  for (let round = 0; round < 24; round++) {
    const asset = await uploaded()
    const document = JSON.stringify([asset.url, round])
    const isNew = round % 2 === 0
    const page = isNew ? undefined : await createPage(app, owner, '[]')
    const write = async () =>
      page === undefined ? (await createPage(app, owner, document)).id
        : (t.equal((await put(page.id, document)).statusCode, 204), page.id)
    const [pageId, { statusCode }] = round % 3 === 0
      ? await Promise.all([write(), remove(asset.id, '?if_unused=true')])
      : (await Promise.all([remove(asset.id, '?if_unused=true'), write()])).reverse() as [
        string,
        { statusCode: number }
      ]
    const isUsed = (await usedAssets(pageId)).includes(asset.id)
    t.equal(statusCode, isUsed ? 409 : 204)
    const { statusCode: read } = await app.inject({ url: `/assets/${asset.id}`, headers: owner.headers })
    t.equal(read, isUsed ? 200 : 404)
  }
})

t.test('a deletion waits for a write that is not committed, and then sees it', async (t) => {
  const asset = await uploaded()
  const page = await createPage(app, owner, '[]')
  const { client: writer } = await openTransaction(t, url)
  await writer.query('SELECT FROM assets WHERE id = $1 FOR KEY SHARE', [asset.id])
  const use =
    'UPDATE landing_pages SET used_assets = ARRAY[$1::uuid], version = 2, indexed_version = 2 WHERE id = $2'
  await writer.query(use, [asset.id, page.id])
  const removed = remove(asset.id, '?if_unused=true')
  await untilBlocked(url, 1)
  await writer.query('COMMIT')
  t.equal((await removed).statusCode, 409)
})

t.test('a write waits for a deletion that is not committed, and then does not list the asset', async (t) => {
  for (const end of ['COMMIT', 'ROLLBACK']) {
    const [asset, other] = [await uploaded(), await uploaded()]
    const page = await createPage(app, owner, '[]')
    const { client } = await openTransaction(t, url)
    await client.query('DELETE FROM assets WHERE id = $1', [asset.id])
    const written = put(page.id, JSON.stringify([asset.url, other.url]))
    await untilBlocked(url, 1)
    await client.query(end)
    t.equal((await written).statusCode, 204)
    const expected = end === 'COMMIT' ? [other.id] : [asset.id, other.id]
    t.same((await usedAssets(page.id)).sort(), expected.sort(), end)
  }
})

t.test('writes and deletions of many assets at once never end in a deadlock', async (t) => {
  const assets = await Promise.all(Array.from({ length: 8 }, async () => await uploaded()))
  const pages = await Promise.all(Array.from({ length: 4 }, async () => await createPage(app, owner, '[]')))
  for (let round = 0; round < 10; round++) {
    const shuffled = assets.toSorted(() => Math.random() - 0.5)
    const statuses = await Promise.all([
      ...pages.map(async ({ id }, index) => {
        const urls = shuffled.slice(index).map(({ url }) => url)
        return (await put(id, JSON.stringify([...urls, round]))).statusCode
      }),
      ...assets.slice(0, 4).map(async ({ id }) => (await remove(id, '?if_unused=true')).statusCode)
    ])
    t.same(statuses.filter((status) => ![204, 404, 409].includes(status)), [])
  }
})
