import t from 'tap'
import { cleanUpPages } from '../../../src/modules/landing-pages/cleanup.ts'
import { buildTestApp, createKey, createPage, senderFor, signUp, walkList,
  type Account } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { query } from '../../helpers/servers.ts'

// Publishing, unpublishing, drafts and the trash. publication-model.test.ts has sequences of them.

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000' })
const owner = await signUp(app)
const { DATABASE_URL: database = '' } = app.config

const send = senderFor(app, owner)
const urlOf = (id: string): string => `/manage/landing_pages/${id}`
const read = async (publicId: string) => await app.inject(`/landing_pages/${publicId}`)
const publication = async (id: string) => (await send('GET', `${urlOf(id)}/publication`)).json()

t.test('readers get the 404 of an unknown page while a page is unpublished', async (t) => {
  const { id, public_id: publicId } = await createPage(app, owner, '{"v":1}')
  const unknown = await read('0'.repeat(22))
  const strip = ({ body, headers }: Awaited<ReturnType<typeof read>>) => {
    const { date: _date, 'x-request-id': _id, ratelimit: _limit, ...rest } = headers
    return { body, rest }
  }
  const unpublished = await send('POST', `${urlOf(id)}/unpublish`)
  t.match(unpublished.json(), { id, version: 2, published: false, current_data: { v: 1 } })
  const hidden = await read(publicId)
  t.equal(hidden.statusCode, 404)
  t.same(strip(hidden), strip(unknown))
  t.equal((await send('POST', `${urlOf(id)}/unpublish`)).headers.etag, unpublished.headers.etag, 'again')
  t.equal((await send('POST', `${urlOf(id)}/publish`)).json().version, 3)
  t.equal((await read(publicId)).body, '{"v":1}')
})

t.test('a page can be created unpublished', async (t) => {
  for (
    const body of [
      '{"current_data":[1],"published":false}',
      '{"landing_page":{"published":false,"current_data":[1]}}',
      '{"landing_page":{"published":true,"current_data":[1]},"published":false}'
    ]
  ) {
    const response = await send('POST', '/landing_pages', body)
    t.equal(response.statusCode, 201)
    t.equal(response.json().published, false)
    t.equal((await read(response.json().public_id)).statusCode, 404)
  }
  const wrong = await send('POST', '/landing_pages', '{"current_data":[1],"published":"no"}')
  t.same([wrong.statusCode, wrong.json()], [422, { errors: ['Published must be true or false'] }])
  const { id } = await createPage(app, owner)
  t.equal(
    (await send('PATCH', urlOf(id), '{"published":false}')).statusCode,
    422,
    'a write does not unpublish'
  )
  t.equal((await send('PATCH', urlOf(id), '{"current_data":[2],"published":false}')).json().published, true)
})

t.test('a draft is a document that readers do not get', async (t) => {
  const { id, public_id: publicId, recordTag } = await createPage(app, owner, '{"v":1}')
  const draft = `${urlOf(id)}/draft`
  const none = { statusCode: 404, body: '{"errors":["The page has no draft"]}' }
  t.equal((await send('HEAD', draft)).statusCode, 404)
  for (const method of ['GET', 'DELETE'] as const) t.match(await send(method, draft), none)
  t.match(await send('PUT', draft, '{"v":2}', { 'if-match': '*' }), {
    statusCode: 412,
    body: '{"errors":["There is nothing here that If-Match could match"]}'
  })
  const begun = await send('PUT', draft, ' {"v": 2.50}\n')
  const etag = String(begun.headers.etag)
  t.match([begun.statusCode, begun.headers.location], [201, draft])
  t.match(await send('GET', draft), { body: ' {"v": 2.50}\n', headers: { etag } })
  t.equal((await send('GET', draft, undefined, { 'if-none-match': etag })).statusCode, 304)
  t.equal((await send('PUT', draft, '{"v":3}', { 'if-none-match': '*' })).statusCode, 412)
  t.equal((await send('PUT', draft, '{"v":3}', { 'if-match': etag })).statusCode, 204)
  const lost = await send('PUT', draft, '{"v":4}', { 'if-match': etag })
  t.match(lost, { statusCode: 412, headers: { etag: (await send('GET', draft)).headers.etag } })
  const patch = { 'content-type': 'application/merge-patch+json' }
  t.equal((await send('PATCH', draft, '{"w":1}', patch)).statusCode, 204)
  t.equal((await send('GET', draft)).body, '{"v":3,"w":1}')

  t.equal((await read(publicId)).body, '{"v":1}')
  t.equal((await send('GET', urlOf(id))).headers.etag, recordTag, 'the record is the same')
  const author = { type: 'user', name: owner.user.email }
  const about = { base_version: 1, byte_size: 13, outdated: false, author }
  t.match(await publication(id), { published: true, version: 1, draft: about })
  t.equal((await send('DELETE', draft, undefined, { 'if-match': '"other"' })).statusCode, 412)
  t.equal((await send('DELETE', draft)).statusCode, 204)
  t.same((await publication(id)).draft, null)
})

t.test('a patch without a draft begins one from the document', async (t) => {
  const { id, etag } = await createPage(app, owner, '{"price": 1.50, "a":1}')
  const draft = `${urlOf(id)}/draft`
  const type = { 'content-type': 'application/json-patch+json' }
  const body = '[{"op":"replace","path":"/a","value":2.0}]'
  t.equal((await send('PATCH', draft, body, { ...type, 'if-match': '"other"' })).statusCode, 412)
  const response = await send('PATCH', draft, body, { ...type, 'if-match': etag })
  t.match([response.statusCode, response.headers.location], [201, draft])
  t.equal((await send('GET', draft)).body, '{"price": 1.50, "a":2.0}')
})

t.test('a draft is not published over a change of the document that its author has not seen', async (t) => {
  const { id, public_id: publicId } = await createPage(app, owner, '{"v":1}')
  const url = `${urlOf(id)}/publish`
  const { headers: { etag } } = await send('PUT', `${urlOf(id)}/draft`, '{"draft":true}')
  await send('POST', `${urlOf(id)}/unpublish`)
  t.equal((await publication(id)).draft.outdated, false, 'unpublishing changes no byte')
  await send('PUT', `${urlOf(id)}/document`, '{"v":2}')
  await send('PUT', `${urlOf(id)}/document`, '{"v":1}')
  t.match((await publication(id)).draft, { base_version: 1, outdated: true }, 'there and back is a change')
  const refusals: [number, string | undefined, string][] = [
    [
      409,
      undefined,
      'The document has changed since the draft was begun: the draft is based on version 1, the current ' +
      'version is 4'
    ],
    [409, '{"base_version":3}', 'The current version is 4, not 3'],
    [422, '{"base_version":"4"}', 'Base version must be a whole number of at least 1']
  ]
  for (const [status, body, error] of refusals) {
    const response = await send('POST', url, body)
    t.same([response.statusCode, response.json().errors], [status, [error]])
  }
  const publish = async (tag: unknown) =>
    await send('POST', url, '{"base_version":4}', { 'if-match': String(tag) })
  t.equal((await publish('"other"')).statusCode, 412)
  t.match((await publish(etag)).json(), { version: 5, published: true, current_data: { draft: true } })
  t.equal((await read(publicId)).body, '{"draft":true}')
})

t.test('a deleted page is in the trash, and comes back as it was', async (t) => {
  const account = await signUp(app)
  const as = senderFor(app, account)
  const { id, public_id: publicId, recordTag } = await createPage(app, account, '{"title":"Sale","v":1}')
  await as('PUT', `${urlOf(id)}/draft`, '{"draft":1}')
  await app.database.landingPageReadsHourly.create({
    data: { pageId: id, at: new Date(new Date().setUTCMinutes(0, 0, 0)), reads: 3, notModified: 0 }
  })
  t.equal((await as('DELETE', urlOf(id), undefined, { 'if-match': '"other"' })).statusCode, 412)
  t.equal((await as('DELETE', urlOf(id), undefined, { 'if-match': recordTag })).statusCode, 204)
  t.equal((await read(publicId)).statusCode, 404)
  for (const list of ['landing_pages', 'landing_pages?q=sale', 'landing_page_summaries?sort=label']) {
    t.same((await as('GET', `/manage/${list}`)).json(), [], list)
  }
  const [entry, ...others] = (await as('GET', '/manage/deleted_pages')).json()
  t.same(others, [])
  t.match(entry, { id, public_id: publicId, label: 'Sale', byte_size: 22, published: true })
  t.equal(Date.parse(entry.purged_at) - Date.parse(entry.deleted_at), 30 * 24 * 60 * 60 * 1000)
  const restored = await as('POST', `/manage/deleted_pages/${id}/restore`)
  t.match(restored.json(), { id, public_id: publicId, version: 3, published: true })
  t.equal((await read(publicId)).body, '{"title":"Sale","v":1}')
  t.equal((await as('GET', `${urlOf(id)}/draft`)).body, '{"draft":1}')
  t.match((await as('GET', '/manage/landing_page_summaries?q=sale')).json(), [{ id, label: 'Sale' }])
  t.ok(
    (await as('GET', `${urlOf(id)}/reads`)).json().some((hour: any) => hour.reads === 3),
    'with its counts'
  )
  t.same((await as('GET', '/manage/deleted_pages')).json(), [])
})

t.test('the trash is listed by the time of deletion, in parts', async (t) => {
  const account = await signUp(app)
  const as = senderFor(app, account)
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.push((await createPage(app, account)).id)
  const deleted = [ids[3], ids[0], ids[4], ids[1], ids[2]] as string[]
  for (const [second, id] of deleted.entries()) {
    await as('DELETE', urlOf(id))
    // Two deletions may be within the same millisecond.
    const time = `deleted_at + interval '${second} s'`
    await query(database, `UPDATE landing_pages SET deleted_at = ${time} WHERE id = '${id}'`)
  }
  const parts = await walkList(app, account, '/manage/deleted_pages?limit=2')
  t.equal(parts.length, 3)
  t.same(parts.flat(), deleted.reverse())
  t.equal((await as('GET', '/manage/deleted_pages?q=x')).statusCode, 422)
})

t.test('a page in the trash is removed for good by its owner, or after TRASH_DAYS', async (t) => {
  const pages = []
  for (let n = 0; n < 3; n++) pages.push(await createPage(app, owner))
  for (const { id } of pages) await send('DELETE', urlOf(id))
  const [removed, old, young] = pages.map(({ id }) => id)
  const restore = async (id?: string) =>
    (await send('POST', `/manage/deleted_pages/${id}/restore`)).statusCode
  t.equal((await send('DELETE', `/manage/deleted_pages/${removed}`)).statusCode, 204)
  t.equal(await restore(removed), 404)
  t.same(await query(database, `SELECT FROM landing_page_revisions WHERE page_id = '${removed}'`), [])
  await query(
    database,
    `UPDATE landing_pages SET deleted_at = now() - interval '31 days' WHERE id = '${old}'`
  )
  t.match(await cleanUpPages(app), { pages: 1 })
  t.equal(await restore(old), 404)
  t.equal(await restore(young), 200)
  const noTrash = await buildTestApp(t, { DATABASE_URL: database, TRASH_DAYS: '0' })
  t.equal((await senderFor(noTrash, owner)('DELETE', urlOf(young as string))).statusCode, 204)
  t.equal(await restore(young), 404, 'with TRASH_DAYS=0 it is removed at once')
})

t.test('drafts count as uses of an asset, and pages in the trash do not', async (t) => {
  const asset = (await upload(app, owner, PNG)).json()
  const { id } = await createPage(app, owner)
  const usedBy = async () =>
    (await send('GET', `/assets/${asset.id}`)).json().used_by.map((page: any) => page.id)
  t.same(await usedBy(), [])
  await send('PUT', `${urlOf(id)}/draft`, JSON.stringify({ picture: asset.url }))
  t.same(await usedBy(), [id])
  t.equal((await send('DELETE', `/assets/${asset.id}?if_unused=true`)).statusCode, 409)
  await send('POST', `${urlOf(id)}/publish`)
  t.same(await usedBy(), [id])
  await send('DELETE', urlOf(id))
  t.same(await usedBy(), [])
  t.equal((await send('DELETE', `/assets/${asset.id}?if_unused=true`)).statusCode, 204)
})

t.test('a key may write drafts without publishing', async (t) => {
  const { id } = await createPage(app, owner)
  const reader = await createKey(app, owner, ['pages:read'])
  const editor = await createKey(app, owner, ['pages:read', 'drafts:write'])
  const publisher = await createKey(app, owner, ['pages:write'])
  const draft = `${urlOf(id)}/draft`
  const statuses = async (key: Pick<Account, 'headers'>) => [
    (await send('PUT', draft, '{"a":1}', {}, key)).statusCode,
    (await send('GET', draft, undefined, {}, key)).statusCode,
    (await send('POST', `${urlOf(id)}/publish`, undefined, {}, key)).statusCode,
    (await send('POST', `${urlOf(id)}/unpublish`, undefined, {}, key)).statusCode,
    (await send('PUT', `${urlOf(id)}/document`, '{"a":1}', {}, key)).statusCode
  ]
  t.same(await statuses(reader), [403, 404, 403, 403, 403])
  t.same(await statuses(editor), [201, 200, 403, 403, 403])
  t.same(await statuses(publisher), [204, 403, 200, 200, 204])
})

t.test('a key that only writes drafts cannot find out what is in one', async (t) => {
  const { id } = await createPage(app, owner)
  await send('PUT', `${urlOf(id)}/draft`, '{"price":1}')
  const writer = await createKey(app, owner, ['drafts:write'])
  const patch = async (operations: object[], key: Pick<Account, 'headers'> = owner) => {
    const headers = { 'content-type': 'application/json-patch+json' }
    return await send('PATCH', `${urlOf(id)}/draft`, JSON.stringify(operations), headers, key)
  }
  const test = { op: 'test', path: '/price', value: 1 }
  const add = { op: 'add', path: '/name', value: 'x' }
  for (const value of [1, 2]) {
    const refused = await patch([add, { ...test, value }], writer)
    t.same([refused.statusCode, refused.json()], [403, { errors: ['API key lacks the scope pages:read'] }])
  }
  t.equal((await patch([add], writer)).statusCode, 204)
  for (const scopes of [['drafts:write', 'pages:read'], ['pages:write']]) {
    t.equal((await patch([test], await createKey(app, owner, scopes))).statusCode, 204)
  }
  t.equal((await patch([test])).statusCode, 204)
})
