import t from 'tap'
import { createReferenceFinder,
  indexPages } from '../../../src/modules/landing-pages/references/asset-references.ts'
import { buildTestApp, createPage, sendAs, signUp, type Account } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { query } from '../../helpers/servers.ts'

// Pages that a release without references wrote, before or during an upgrade.

const app = await buildTestApp(t)
const url = app.config.DATABASE_URL as string
const sql = async (text: string) => await query(url, text)

const uploaded = async (account: Account) =>
  (await upload(app, account, PNG)).json() as { id: string, url: string }
const get = async (id: string, account: Account) => await sendAs(app, account, 'GET', `/assets/${id}`)
const put = async (id: string, account: Account, document: string) =>
  (await sendAs(app, account, 'PUT', `/manage/landing_pages/${id}/document`, document)).statusCode
const usersOf = async (id: string, account: Account): Promise<string[]> =>
  (await get(id, account)).json().used_by.map((page: { id: string }) => page.id)
const forget = async (account: Account) =>
  await sql('UPDATE landing_pages SET used_assets = NULL, indexed_version = NULL WHERE user_id = ' +
    `${account.user.id}`)
const unknownPages = async (account: Account): Promise<number> =>
  (await sql(`SELECT FROM unindexed_pages WHERE user_id = ${account.user.id}`)).length

/** Writes a document as an older release does. */
const writeBefore = async (pageId: string, document: string) =>
  await sql(`UPDATE landing_pages SET current_data = '${document}', content_hash = md5('${document}'), version
    = version + 1
      WHERE id = '${pageId}'`)

async function pagesOf (account: Account, documents: readonly string[]): Promise<string[]> {
  const pages = []
  for (const document of documents) pages.push(await createPage(app, account, document))
  return pages.map(({ id }) => id)
}

t.test('files in pages of an older release are found', async (t) => {
  const account = await signUp(app)
  const [used, unused] = [await uploaded(account), await uploaded(account)]
  const [using = '', other = ''] = await pagesOf(account, [JSON.stringify([used.url]), '["x"]'])
  await forget(account)
  const rows = async () =>
    await sql('SELECT id, version, updated_at, content_hash FROM landing_pages ORDER BY id')
  const before = await rows()
  t.same(await usersOf(used.id, account), [using])
  t.equal(await unknownPages(account), 0)
  t.same(await rows(), before, 'nothing else has changed')

  await writeBefore(other, JSON.stringify([used.url]))
  await writeBefore(using, '["y"]')
  const remove = async (id: string) =>
    (await sendAs(app, account, 'DELETE', `/assets/${id}?if_unused=true`)).statusCode
  t.equal(await remove(used.id), 409)
  t.same(await usersOf(used.id, account), [other])
  await writeBefore(other, '[]')
  t.equal(await remove(used.id), 204)
  t.equal(await remove(unused.id), 204)
})

t.test("no page is searched for an asset that does not exist, or is another owner's", async (t) => {
  const [account, stranger] = [await signUp(app), await signUp(app)]
  const [gone, strange] = [await uploaded(account), await uploaded(stranger)]
  t.equal((await sendAs(app, account, 'DELETE', `/assets/${gone.id}`)).statusCode, 204)
  await pagesOf(account, ['["x"]'])
  await forget(account)
  for (const { id } of [gone, strange]) {
    t.equal((await sendAs(app, account, 'DELETE', `/assets/${id}?if_unused=true`)).statusCode, 404)
  }
  t.equal(await unknownPages(account), 1)
})

t.test('the same bytes, written again, say which assets they use', async (t) => {
  const account = await signUp(app)
  const asset = await uploaded(account)
  const document = JSON.stringify([asset.url])
  const [id = ''] = await pagesOf(account, [document])
  await forget(account)
  t.equal(await put(id, account, document), 204)
  const rows = await sql(`SELECT version::int, used_assets FROM landing_pages WHERE id = '${id}'`)
  t.match(rows, [{ version: 1, used_assets: [asset.id] }])
})

t.test('the search in the background looks at all pages', async (t) => {
  const accounts = [await signUp(app), await signUp(app)]
  const large = 'x'.repeat(300_000)
  for (const account of accounts) {
    const asset = await uploaded(account)
    await pagesOf(account, [`["${large}"]`, JSON.stringify([large, asset.url]), '[1]', `["${large}"]`])
    await sql(`INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
        SELECT gen_random_uuid(), md5(${account.user.id} || '-' || n), ${account.user.id}, '["${asset.url}"]',
          'x'
        FROM generate_series(1, 1100) n`)
    await forget(account)
  }
  const sum = await indexPages(app.database)
  t.ok(sum >= 2208, `${sum} pages`)
  for (const account of accounts) t.equal(await unknownPages(account), 0)
  const [{ count = 0 } = {}] =
    await sql('SELECT count(*)::int FROM landing_pages WHERE cardinality(used_assets) = 1')
  t.ok(count as number >= 2202)
  t.equal(await indexPages(app.database), 0, 'nothing is left')
})

t.test('a search beside writes keeps what they store', async (t) => {
  const account = await signUp(app)
  const assets = await Promise.all(Array.from({ length: 4 }, async () => await uploaded(account)))
  const pages = await pagesOf(account, Array.from({ length: 10 }, () => '[]'))
  for (let round = 0; round < 8; round++) {
    await forget(account)
    const written = pages.map((id, index) =>
      [id, assets[(round + index) % 4] as { id: string, url: string }] as const
    )
    await Promise.all([
      indexPages(app.database, { userId: account.user.id }),
      ...written.map(async ([id, asset]) =>
        t.equal(await put(id, account, JSON.stringify([asset.url, round])), 204)
      )
    ])
    const rows = await sql('SELECT id, used_assets FROM landing_pages ' +
      `WHERE indexed_version = version AND user_id = ${account.user.id}`)
    const expected = new Map(written.map(([id, asset]) => [id, [asset.id]]))
    t.same(new Map(rows.map((row) => [row.id, row.used_assets])), expected)
  }
})

t.test('a search that takes too long is a 503, and the next request goes on', async (t) => {
  const account = await signUp(app)
  const asset = await uploaded(account)
  await sql(`INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
      SELECT gen_random_uuid(), md5('slow-' || n), ${account.user.id}, '["${asset.url}"]', 'x'
      FROM generate_series(1, 400) n`)
  t.intercept(app, 'findReferences', { value: createReferenceFinder(app.database, 20) })
  let left = await unknownPages(account)
  let refusals = 0
  for (;; refusals++) {
    const response = await get(asset.id, account)
    if (response.statusCode === 200) break
    t.equal(response.statusCode, 503)
    t.match(response.json().errors, [/try again shortly/])
    t.equal(response.headers['retry-after'], '2')
    const now = await unknownPages(account)
    t.ok(now <= left, `${now} pages are left`) // on a slow machine, the time may be over before the first one
    left = now
  }
  t.ok(refusals > 0)
  t.equal(await unknownPages(account), 0)
})
