import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { query } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'

// Writes of pages and deletions of the assets that they name, at the same time.

const app = await buildTestApp(t)
const owner = await signUp(app)
const { DATABASE_URL: url = '' } = app.config

const uploaded = async () => (await upload(app, owner, PNG)).json() as { id: string, url: string }
const removeUnused = async (id: string) => await sendAs(app, owner, 'DELETE', `/assets/${id}?if_unused=true`)
const put = async (id: string, document: string) =>
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${id}/document`, document)
const usedAssets = async (pageId: string): Promise<string[]> =>
  (await query(url, `SELECT used_assets FROM landing_pages WHERE id = '${pageId}'`))[0]
    ?.used_assets as unknown as string[]

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
      ? await Promise.all([write(), removeUnused(asset.id)])
      : (await Promise.all([removeUnused(asset.id), write()])).reverse() as [string, { statusCode: number }]
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
  const removed = removeUnused(asset.id)
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
  const assets = await Promise.all(Array.from({ length: 8 }, uploaded))
  const pages = await Promise.all(Array.from({ length: 4 }, async () => await createPage(app, owner, '[]')))
  for (let round = 0; round < 10; round++) {
    const shuffled = assets.toSorted(() => Math.random() - 0.5)
    const statuses = await Promise.all([
      ...pages.map(async ({ id }, index) => {
        const urls = shuffled.slice(index).map(({ url }) => url)
        return (await put(id, JSON.stringify([...urls, round]))).statusCode
      }),
      ...assets.slice(0, 4).map(async ({ id }) => (await removeUnused(id)).statusCode)
    ])
    t.same(statuses.filter((status) => ![204, 404, 409].includes(status)), [])
  }
})
