import { createHash, randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, createPage, nextOf, sendAs, signUp, type Account } from '../../helpers/app.ts'
import { query } from '../../helpers/servers.ts'
import { openTransaction } from '../../helpers/transaction.ts'

const app = await buildTestApp(t, { settings: { RATE_LIMIT_PUBLIC: '1000000' } })
const owner = await signUp(app)
const stranger = await signUp(app)

const urlOf = (id: string) => `/manage/landing_pages/${id}/revisions`
const get = async (url: string, headers: Record<string, string> = {}, account: Account = owner) =>
  await sendAs(app, account, 'GET', url, undefined, headers)
const write = async (id: string, document: string) =>
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${id}/document`, document)
const restore = async (
  id: string,
  version: number | string,
  headers: Record<string, string> = {},
  account: Account = owner
) => await sendAs(app, account, 'POST', `${urlOf(id)}/${version}/restore`, undefined, headers)
const tagOf = (document: string) => `"${createHash('sha256').update(document).digest('base64url')}"`
const versionsOf = async (id: string) => (await get(urlOf(id))).json().map((each: any) => each.version)
const newPage = async (...documents: string[]) => {
  const page = await createPage(app, owner, documents[0])
  for (const document of documents.slice(1)) await write(page.id, document)
  return page
}

t.test('every change of a document is a version, listed newest first', async (t) => {
  const before = Date.now()
  const { id } = await newPage('{"v":1}', '{"v":22}', '{"v":333}')
  const response = await get(urlOf(id))
  t.equal(response.statusCode, 200)
  const list = response.json()
  t.same(
    list.map(({ created_at: _time, ...rest }: any) => rest),
    ['{"v":333}', '{"v":22}', '{"v":1}'].map((document, index) => ({
      version: 3 - index,
      etag: tagOf(document),
      byte_size: document.length,
      author: { type: 'user', name: owner.user.email },
      restored_from: null,
      published: true,
      scheduled: false
    }))
  )
  const times = list.map((each: any) => Date.parse(each.created_at))
  t.same(times, times.toSorted().reverse())
  t.ok(times.every((time: number) => time >= before && time <= Date.now()))
})

t.test('a version is read with its bytes and its ETag', async (t) => {
  const documents = ['{"v" : 1e400}', '[12345678901234567890,\r\n"\\ud800"]', '{"a":1,"a":2}']
  const { id } = await newPage(...documents)
  for (const [index, document] of documents.entries()) {
    const response = await get(`${urlOf(id)}/${index + 1}`)
    t.equal(response.statusCode, 200)
    t.equal(response.body, document)
    t.equal(response.headers.etag, tagOf(document))
    const again = await get(`${urlOf(id)}/${index + 1}`, { 'if-none-match': tagOf(document) })
    t.equal(again.statusCode, 304)
  }
})

t.test('a restored version is published as a new version', async (t) => {
  const { id, public_id: publicId } = await newPage('{"v":1 }', '{"v":2}')
  const response = await restore(id, 1)
  t.equal(response.statusCode, 200)
  t.ok(response.body.includes('"current_data":{"v":1 },'))
  t.equal(response.json().version, 3)
  t.equal(response.headers.etag, tagOf('{"v":1 }').replace(/"$/, '.3"'))
  t.equal((await app.inject(`/landing_pages/${publicId}`)).body, '{"v":1 }')
  const [newest, second] = (await get(urlOf(id))).json()
  t.match(newest, { version: 3, etag: tagOf('{"v":1 }'), byte_size: 8, restored_from: 1 })
  t.match(second, { version: 2, etag: tagOf('{"v":2}'), restored_from: null })
  await write(id, '{"v":4}')
  const kept = (await get(urlOf(id))).json()
  t.same(kept.map((each: any) => each.restored_from), [null, 1, null, null], 'it is remembered')
})

t.test('restoring the bytes that the page has changes nothing', async (t) => {
  const { id } = await newPage('{"v":1}', '{"v":2}', '{"v":1}')
  const before = await get(`/manage/landing_pages/${id}`)
  for (const version of [3, 1]) {
    const response = await restore(id, version)
    t.equal(response.statusCode, 200)
    t.equal(response.body, before.body)
  }
  t.same(await versionsOf(id), [3, 2, 1])
})

t.test('a restore honours its preconditions', async (t) => {
  const page = await newPage('{"v":1}', '{"v":2}')
  const stale = await restore(page.id, 1, { 'if-match': page.recordTag })
  t.equal(stale.statusCode, 412)
  t.equal(stale.headers.etag, tagOf('{"v":2}').replace(/"$/, '.2"'))
  t.equal((await restore(page.id, 1, { 'if-none-match': '*' })).statusCode, 412)
  t.equal((await restore(page.id, 9, { 'if-match': page.recordTag })).statusCode, 404, 'no such version')
  t.same(await versionsOf(page.id), [2, 1])
  t.equal((await restore(page.id, 1, { 'if-match': tagOf('{"v":2}') })).statusCode, 200)
})

t.test('pages and versions that are unknown, malformed or foreign give the same 404', async (t) => {
  const { id } = await newPage('{"v":1}', '{"v":2}')
  const responses = [
    await get(urlOf(randomUUID())),
    await get(urlOf('x')),
    await get(urlOf(id), {}, stranger),
    await get(`${urlOf(id)}/1`, {}, stranger),
    await get(`${urlOf(randomUUID())}/1`),
    await restore(id, 1, {}, stranger),
    await restore(randomUUID(), 1)
  ]
  for (const version of ['3', '0', '-1', '01', '1.0', '1e0', 'x', '%00', '9'.repeat(18), '9'.repeat(40)]) {
    responses.push(await get(`${urlOf(id)}/${version}`), await restore(id, version))
  }
  for (const response of responses) {
    t.equal(response.statusCode, 404)
    t.equal(response.body, '{"errors":["Not found"]}')
  }
  t.same(await versionsOf(id), [2, 1])
})

t.test('the list continues by cursor', async (t) => {
  const { id } = await newPage(...Array.from({ length: 7 }, (_, index) => `[${index}]`))
  const seen: number[][] = []
  for (let next: string | undefined = `${urlOf(id)}?limit=3`; next !== undefined;) {
    const response: Awaited<ReturnType<typeof get>> = await get(next)
    seen.push(response.json().map((each: any) => each.version))
    next = nextOf(response)
  }
  t.same(seen, [[7, 6, 5], [4, 3, 2], [1]])
  t.equal((await get(`${urlOf(id)}?limit=7`)).headers.link, undefined)
  for (const cursor of ['_'.repeat(21) + 'w', 'A'.repeat(22)]) {
    t.equal((await get(`${urlOf(id)}?cursor=${cursor}`)).statusCode, 200, 'a made-up cursor')
  }
  t.equal((await get(`${urlOf(id)}?cursor=x`)).statusCode, 422)
  t.equal((await get(`${urlOf(id)}?cursor=${'A'.repeat(22)}`, {}, stranger)).statusCode, 404)
})

t.test('writes and restores at once each make one version, and none is lost', async (t) => {
  const { id } = await newPage('[0]')
  const responses = await Promise
    .all(Array.from(
      { length: 40 },
      async (_, index) => index % 4 === 3 ? await restore(id, 1) : await write(id, `[${index + 1}]`)
    ))
  for (const { statusCode } of responses) t.match(String(statusCode), /^20[04]$/)
  const list = (await get(`${urlOf(id)}?limit=100`)).json()
  t.same(list.map((each: any) => each.version), Array.from(list, (_, index) => list.length - index))
  const found = await Promise.all(list.map(async (each: any) => {
    const { body } = await get(`${urlOf(id)}/${each.version}`)
    t.equal(tagOf(body), each.etag)
    return body
  }))
  for (let index = 1; index <= 40; index++) {
    if (index % 4 !== 0) t.ok(found.includes(`[${index}]`), `document ${index} is kept`)
  }
})

t.test('the release before this one loses nothing that it overwrites', async (t) => {
  // Its statements know neither authors nor revisions.
  const page = await createPage(app, owner, '{"v":1}')
  const { DATABASE_URL: url = '' } = app.config
  const writeAsBefore = async (document: string) => {
    const hash = tagOf(document).slice(1, -1)
    await query(
      url,
      `UPDATE landing_pages SET current_data = '${document}', content_hash = '${hash}',
      version = version + 1, updated_at = now() WHERE id = '${page.id}'`
    )
  }
  await restore(page.id, 1)
  await write(page.id, '{"v":2}')
  await restore(page.id, 1)
  await writeAsBefore('{"v":4}')
  await writeAsBefore('{"v":4}')
  await query(url, `UPDATE landing_pages SET authored_version = NULL WHERE id = '${page.id}'`)
  const list = (await get(urlOf(page.id))).json()
  t.same(list.map((each: any) => [each.version, each.restored_from]), [[5, null], [4, null], [3, 1], [
    2,
    null
  ], [1, null]])
  t.ok(list.every(({ author }: any) => author.name === owner.user.email))
  t.equal((await get(`${urlOf(page.id)}/4`)).body, '{"v":4}')
  t.equal((await write(page.id, '{"v":6}')).statusCode, 204)
  t.equal((await get(`${urlOf(page.id)}/5`)).body, '{"v":4}')
})

t.test('a version that is still being written can not be restored, so the response is 404', async (t) => {
  const { DATABASE_URL: url = '' } = app.config
  const { id } = await newPage('[1]')
  const { client } = await openTransaction(t, url)
  const update =
    "UPDATE landing_pages SET current_data = '[2]', content_hash = 'x', version = 2 WHERE id = $1"
  await client.query(update, [id])
  const { statusCode, body } = await restore(id, 2)
  await client.query('COMMIT')
  t.equal(statusCode, 404)
  t.equal(body, '{"errors":["Not found"]}')
  t.same(await versionsOf(id), [2, 1])
})
