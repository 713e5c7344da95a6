import { createHash } from 'node:crypto'
import t from 'tap'
import { cleanUpPages } from '../../../src/modules/landing-pages/cleanup.ts'
import { pruneRevisions,
  type RevisionLimits } from '../../../src/modules/landing-pages/revision-repository.ts'
import { buildTestApp, createPage, nextOf, sendAs, signUp } from '../../helpers/app.ts'
import { query } from '../../helpers/servers.ts'

// The versions of pages: restores, and the removal of earlier ones. publication-model.test.ts compares any
// history with a model.

const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000000' })
const owner = await signUp(app)
const { DATABASE_URL: database = '' } = app.config

type Headers = Record<string, string>
const UNLIMITED: RevisionLimits = { maxCount: 1e6, maxBytes: 1e12, replacedSince: null }
const prune = async (limits: Partial<RevisionLimits>): Promise<number> =>
  await pruneRevisions(app.database, { ...UNLIMITED, ...limits })
const pageUrl = (id: string) => `/manage/landing_pages/${id}`
const urlOf = (id: string) => `${pageUrl(id)}/revisions`
const get = async (url: string, headers: Headers = {}) =>
  await sendAs(app, owner, 'GET', url, undefined, headers)
const write = async (id: string, document: string) =>
  await sendAs(app, owner, 'PUT', `${pageUrl(id)}/document`, document)
const restore = async (id: string, version: number | string, headers: Headers = {}) =>
  await sendAs(app, owner, 'POST', `${urlOf(id)}/${version}/restore`, undefined, headers)
const tagOf = (document: string) => `"${createHash('sha256').update(document).digest('base64url')}"`
const versionsOf = async (id: string): Promise<number[]> =>
  (await get(`${urlOf(id)}?limit=100`)).json().map((each: any) => each.version)
const newPage = async (...documents: string[]) => {
  const page = await createPage(app, owner, documents[0])
  for (const document of documents.slice(1)) await write(page.id, document)
  return page
}

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
  const one = await get(`${urlOf(id)}/1`)
  t.match(one, { statusCode: 200, body: '{"v":1 }', headers: { etag: tagOf('{"v":1 }') } })
  t.equal((await get(`${urlOf(id)}/1`, { 'if-none-match': tagOf('{"v":1 }') })).statusCode, 304)
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

t.test('versions that are unknown or malformed give a 404', async (t) => {
  const { id } = await newPage('{"v":1}', '{"v":2}')
  for (const version of ['3', '0', '-1', '01', '1.0', '1e0', 'x', '%00', '9'.repeat(18), '9'.repeat(40)]) {
    for (const { statusCode, body } of [await get(`${urlOf(id)}/${version}`), await restore(id, version)]) {
      t.same([statusCode, body], [404, '{"errors":["Not found"]}'], version)
    }
  }
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
  const writeAsBefore = async (document: string) => {
    const hash = tagOf(document).slice(1, -1)
    await query(
      database,
      `UPDATE landing_pages SET current_data = '${document}', content_hash = '${hash}',
      version = version + 1, updated_at = now() WHERE id = '${page.id}'`
    )
  }
  await restore(page.id, 1)
  await write(page.id, '{"v":2}')
  await restore(page.id, 1)
  await writeAsBefore('{"v":4}')
  await writeAsBefore('{"v":4}')
  await query(database, `UPDATE landing_pages SET authored_version = NULL WHERE id = '${page.id}'`)
  const list = (await get(urlOf(page.id))).json()
  t.same(list.map((each: any) => each.restored_from), [null, null, 1, null, null])
  t.ok(list.every(({ author }: any) => author.name === owner.user.email))
  t.equal((await get(`${urlOf(page.id)}/4`)).body, '{"v":4}')
  t.equal((await write(page.id, '{"v":6}')).statusCode, 204)
  t.equal((await get(`${urlOf(page.id)}/5`)).body, '{"v":4}')
})

t.test('the age of a version counts from when it was replaced', async (t) => {
  const { id } = await newPage('[1]', '[2]', '[3]', '[4]')
  const age = async (version: number, days: number) =>
    await query(
      database,
      `UPDATE landing_page_revisions SET created_at = now() - interval '${days} days'
        WHERE page_id = '${id}' AND version = ${version}`
    )
  await age(1, 300)
  await age(2, 200)
  await age(3, 100)
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60 * 1000)
  await prune({ replacedSince: daysAgo(250) })
  t.same(await versionsOf(id), [4, 3, 2, 1])
  await prune({ replacedSince: daysAgo(150) })
  t.same(await versionsOf(id), [4, 3, 2], 'version 1 was replaced 200 days ago')
  await prune({ replacedSince: daysAgo(90) })
  t.same(await versionsOf(id), [4, 3], 'version 3 is 100 days old, but was replaced today')
})

t.test('the cleanup ends with many pages and many versions, in small batches', async (t) => {
  await prune({ maxCount: 3 })
  const { id } = await createPage(app, owner, '[0]')
  await query(
    database,
    `INSERT INTO landing_page_revisions
      SELECT '${id}', n, '[]', 'x', 2, now(), 'user', 'x', NULL FROM generate_series(2, 1001) n`
  )
  await query(database, `UPDATE landing_pages SET version = 1002 WHERE id = '${id}'`)
  const user = await signUp(app)
  await query(
    database,
    `INSERT INTO landing_pages (id, user_id, public_id, current_data, content_hash)
      SELECT gen_random_uuid(), ${user.user.id}, 'p' || n, '[]', 'x' FROM generate_series(1, 1000) n`
  )
  t.equal(await prune({ maxCount: 3 }), 998)
  t.same(await versionsOf(id), [1002, 1001, 1000, 999])
  t.equal(await prune({ maxCount: 3 }), 0)
})

t.test('the settings limit what the cleanup keeps', async (t) => {
  const { id } = await newPage('[1]', '[2]', '[3]')
  const settings = { DATABASE_URL: database, REVISIONS_MAX: '1', UPLOADS_DIR: app.config.UPLOADS_DIR }
  await cleanUpPages(await buildTestApp(t, settings))
  t.same(await versionsOf(id), [3, 2])
})
