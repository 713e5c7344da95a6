import { randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, listen, sendAs, signUp } from '../../helpers/app.ts'
import { GIF, pathOf, PNG, upload } from '../../helpers/assets.ts'
import { onEachStore, stored } from '../../helpers/stores.ts'

const app = await buildTestApp(t)

t.test('unknown, malformed and foreign ids get the same 404', async (t) => {
  const owner = await signUp(app)
  const stranger = await signUp(app)
  const asset = (await upload(app, owner, PNG)).json()
  const ids = [asset.id, asset.id.toUpperCase(), randomUUID(), 'x', '%00', `${asset.id}0`, `{${asset.id}}`]
  for (const method of ['GET', 'DELETE'] as const) {
    for (const id of ids) {
      const response = await sendAs(app, stranger, method, `/assets/${id}`)
      t.match(response, { statusCode: 404, body: '{"errors":["Not found"]}' }, `${method} ${id.slice(0, 40)}`)
    }
  }
  t.equal((await sendAs(app, owner, 'GET', `/assets/${asset.id.toUpperCase()}`)).statusCode, 200)
  t.equal((await app.inject(pathOf(asset))).statusCode, 200)
})

onEachStore('DELETE removes the row and the file, a second DELETE gets 404', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const asset = (await upload(app, account, PNG)).json()
  const kept = (await upload(app, account, GIF)).json()
  t.equal((await app.inject(pathOf(asset))).statusCode, 200)

  const [file, record] = [pathOf(asset), `/assets/${asset.id}`]
  const response = await sendAs(app, account, 'DELETE', record)
  t.match(response, { statusCode: 204, body: '', headers: { 'content-type': undefined } })
  for (const [method, url] of [['GET', file], ['HEAD', file], ['GET', record], ['DELETE', record]] as const) {
    t.equal((await sendAs(app, account, method, url)).statusCode, 404, `${method} ${url}`)
  }
  t.strictSame((await sendAs(app, account, 'GET', '/assets')).json(), [kept])
  t.strictSame(await stored(app), { published: [pathOf(kept).slice('/uploads/'.length)], temporary: [] })
})

onEachStore('a false precondition keeps an asset, a matching ETag saves a read', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const uploaded = await upload(app, account, PNG)
  const url = `/assets/${uploaded.json().id}`
  const etag = String(uploaded.headers.etag)
  const send = async (method: 'GET' | 'DELETE', headers: Record<string, string> = {}, by = account) =>
    await sendAs(app, by, method, url, undefined, headers)

  const creator = { ...account, headers: { ...account.headers, 'if-none-match': '*' } }
  t.equal((await upload(app, creator, PNG)).statusCode, 412)
  t.equal((await send('GET')).headers.etag, etag)
  t.equal((await send('GET', { 'if-none-match': etag })).statusCode, 304)
  t.equal((await send('GET', { 'if-match': '"x"' })).statusCode, 412)
  // The use of an asset has no date, so dates know only the upload.
  const [past, later] = [-60_000, 60_000].map((ms) => new Date(Date.now() + ms).toUTCString()) as [
    string,
    string
  ]
  t.equal((await send('GET', { 'if-modified-since': later })).statusCode, 200)
  t.equal((await send('GET', { 'if-unmodified-since': later })).statusCode, 200)
  t.equal((await send('GET', { 'if-unmodified-since': past })).statusCode, 412)
  const stranger = await signUp(app)
  const refused: [header: string, value: string][] = [
    ['If-Match', '"x"'],
    ['If-Match', `W/${etag}`],
    ['If-None-Match', '*'],
    ['If-None-Match', etag],
    ['If-Unmodified-Since', past]
  ]
  for (const [name, value] of refused) {
    const response = await send('DELETE', { [name]: value })
    t.match(response, { statusCode: 412, headers: { etag } }, `${name}: ${value}`)
    t.match(response.json().errors[0], name)
    t.equal((await send('DELETE', { [name]: value }, stranger)).statusCode, 404, 'another account')
  }
  t.equal((await app.inject(pathOf(uploaded.json()))).statusCode, 200, 'the file is still there')
  t.equal((await send('DELETE', { 'if-match': etag, 'if-none-match': '"x"' })).statusCode, 204)
})

onEachStore(
  'exactly one of many concurrent deletions of an asset succeeds, and reads get 200 or 404',
  async (t, build) => {
    const app = await build(t)
    const account = await signUp(app)
    const url = await listen(app)
    for (let round = 0; round < 3; round++) {
      const asset = (await upload(app, account, Buffer.concat([PNG, Buffer.alloc(200_000)]))).json()
      const read = async () => {
        const response = await fetch(url + pathOf(asset))
        await response.arrayBuffer()
        return response.status
      }
      const remove = async () =>
        (await fetch(`${url}/assets/${asset.id}`, { method: 'DELETE', headers: account.headers })).status
      const [reads, deletes] = await Promise.all([
        Promise.all(Array.from({ length: 20 }, read)),
        Promise.all(Array.from({ length: 5 }, remove))
      ])
      t.ok(reads.every((status) => status === 200 || status === 404), `${reads}`)
      t.strictSame(deletes.sort(), [204, 404, 404, 404, 404])
    }
  }
)
