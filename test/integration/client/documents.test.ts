import t from 'tap'
import { createLandfallClient, exactJson, memoryTokens,
  NotFoundError } from '../../../packages/client/src/index.ts'
import { credentials, failure, losing, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const { url } = await startApp(t)
const EXACT =
  ' {"n": 12345678901234567890, "z": 1.0,\r\n "e": 1e400, "s": "\\ud800\\u00e9", "__proto__": []}\n'

t.test('getDocument and putDocument keep every byte, also around the document', async (t) => {
  const { landingPages } = await signedUp(url)
  const { id, public_id: publicId } = await landingPages.create({ draft: true })
  const { etag } = await landingPages.putDocument(id, exactJson(EXACT))
  const read = await landingPages.getDocument<{ z: number }>(id)
  t.same({ text: read.text, etag: read.etag, z: read.document.z }, { text: EXACT, etag, z: 1 })
  t.equal((await landingPages.read(publicId)).text, EXACT)
  const { etag: second } = await landingPages.putDocument(id, ['plain'], { ifMatch: etag })
  t.not(second, etag)
  t.equal((await landingPages.getDocument(id)).text, '["plain"]')
  const late = await failure(landingPages.putDocument(id, {}, { ifMatch: etag }))
  t.match(late, { name: 'PreconditionFailedError', status: 412 })
  t.match(await failure(landingPages.putDocument(id, { n: exactJson('1.0') })), { name: 'TypeError' })
  const missing = await failure(landingPages.getDocument(publicId))
  t.ok(missing instanceof NotFoundError)
  t.match(missing, { name: 'NotFoundError', status: 404 })
  t.equal((await landingPages.getDocument(id)).text, '["plain"]')
})

t.test('a long document, whose responses are compressed, has the same ETag everywhere', async (t) => {
  const { landingPages } = await signedUp(url)
  const page = await landingPages.create({ text: 'Hello '.repeat(1000) })
  t.equal((await landingPages.get(page.id)).etag, page.etag)
  const text = JSON.stringify(['Hello '.repeat(1000)])
  const { etag } = await landingPages.putDocument(page.id, exactJson(text), { ifMatch: page.etag })
  const [revision] = (await landingPages.revisionsPage(page.id)).items
  t.equal(revision?.etag, etag)
  t.match(await landingPages.getDocument(page.id), { text, etag })
  t.match(await landingPages.getRevision(page.id, 2), { text, etag })
  t.match(await landingPages.update(page.id, { n: 1 }, { ifMatch: etag }), { version: 3 })
})

t.test('a put repeated after a 503 succeeds when its document is stored', async (t) => {
  const tokens = memoryTokens()
  const { auth, landingPages } = createLandfallClient({ baseUrl: url, tokens })
  await auth.signUp(credentials())
  const page = await landingPages.create({ n: 1 })
  const { fetch, sent } = recordingFetch()
  let lost = 0
  const unlucky =
    createLandfallClient({ baseUrl: url, fetch: losing(fetch, () => lost-- > 0), tokens }).landingPages
  lost = 1
  const { etag } = await unlucky.putDocument(page.id, { n: 2 }, { ifMatch: page.etag })
  t.equal(etag, (await landingPages.getDocument(page.id)).etag)
  t.same(sent.map(({ status }) => status), [204, 412, 200])

  lost = 1
  t.match(await failure(unlucky.putDocument(page.id, { n: 3 }, { ifMatch: page.etag })), { status: 412 })
  lost = 0
  const refused = await failure(unlucky.putDocument(page.id, { n: 2 }, { ifMatch: page.etag }))
  t.match(refused, { status: 412 }, 'only after a 503')
})

t.test('patchDocument changes parts of a document and keeps all other bytes', async (t) => {
  const { landingPages } = await signedUp(url)
  const { id } = await landingPages.create({})
  const { etag } = await landingPages.putDocument(id, exactJson(EXACT))
  const options = { type: 'merge-patch', ifMatch: etag } as const
  const merged = await landingPages.patchDocument(id, exactJson('{"z": 2.50}'), options)
  const text = EXACT.replace('1.0', '2.50')
  t.match(await landingPages.getDocument(id), { text, etag: merged.etag })
  const add = [{ op: 'add', path: '/__proto__/-', value: 'x' }]
  await landingPages.patchDocument(id, add, { type: 'json-patch' })
  t.equal((await landingPages.getDocument(id)).text, text.replace('[]', '["x"]'))

  const patch = async (operation: object, options = {}) =>
    await failure(landingPages.patchDocument(id, [operation], { type: 'json-patch', ...options }))
  const conflict = { name: 'ConflictError', status: 409, errors: [/^Operation 1 /] }
  t.match(await patch({ op: 'test', path: '/z', value: 1 }), conflict)
  t.match(await patch({ op: 'remove', path: '/missing' }), { name: 'LandfallError', status: 422 })
  t.match(await patch({ op: 'remove', path: '/z' }, { ifMatch: etag }), { name: 'PreconditionFailedError' })
  t.match(await patch({ op: 'add', path: '/y', value: exactJson('1.0') }), { name: 'TypeError' })
  t.equal((await landingPages.getDocument(id)).text, text.replace('[]', '["x"]'))
})

t.test('reads returns the counts of hours or days', async (t) => {
  const { landingPages } = await signedUp(url)
  const { id } = await landingPages.create({})
  const to = new Date('2026-03-01T05:00:00Z')
  t.same(await landingPages.reads(id, { from: new Date('2026-03-01T03:30:00Z'), to }), [
    { at: '2026-03-01T03:00:00.000Z', reads: 0, not_modified: 0 },
    { at: '2026-03-01T04:00:00.000Z', reads: 0, not_modified: 0 }
  ])
  const days = await landingPages.reads(id, { from: '2026-02-27', to, per: 'day' })
  t.same(days.map(({ at }) => at.slice(0, 10)), ['2026-02-27', '2026-02-28', '2026-03-01'])
  t.equal((await landingPages.reads(id)).length, 24)
  const refused = await failure(landingPages.reads(id, { from: 'yesterday' }))
  t.match(refused, { status: 422, errors: [/^From must be/] })
})
