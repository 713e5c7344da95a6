import { randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, listen, signUp, type Account } from '../../helpers/app.ts'
import { GIF, pathOf, PNG, upload } from '../../helpers/assets.ts'
import { onEachStore, stored } from '../../helpers/stores.ts'

t.test('a page of the list has 50 records by default and at most 100', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  await app.database.$executeRaw`
    INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${account.user.id}, 'key-' || n, n || '.bin', 'application/octet-stream', 1, repeat('0', 64)
    FROM generate_series(1, 103) n`
  const newestFirst = Array.from({ length: 103 }, (_, n) => `${103 - n}.bin`)
  const list = async (query: string) => {
    const response = await app.inject({ url: `/assets${query}`, headers: account.headers })
    return {
      names: response.json().map(({ filename }: { filename: string }) => filename),
      next: /^<\/assets([^>]+)>; rel="next"$/.exec(String(response.headers.link))?.[1] ??
        ''
    }
  }
  for (const [query, size] of [['', 50], ['?limit=100', 100]] as const) {
    const seen: string[] = []
    const sizes: number[] = []
    for (let page = await list(query);; page = await list(page.next)) {
      seen.push(...page.names)
      sizes.push(page.names.length)
      if (page.next === '') break
    }
    t.strictSame(seen, newestFirst)
    t.strictSame(sizes, size === 50 ? [50, 50, 3] : [100, 3])
  }
  t.equal((await app.inject({ url: '/assets?limit=101', headers: account.headers })).statusCode, 422)
})

t.test('unknown ids, malformed ids and ids of other users get the same 404, byte for byte', async (t) => {
  const app = await buildTestApp(t)
  const owner = await signUp(app)
  const stranger = await signUp(app)
  const asset = (await upload(app, owner, PNG)).json()
  const ids = [asset.id, asset.id.toUpperCase(), randomUUID(), 'x', '%00', `${asset.id}0`, `{${asset.id}}`]
  for (const method of ['GET', 'DELETE'] as const) {
    for (const id of ids) {
      const response = await app.inject({ method, url: `/assets/${id}`, headers: stranger.headers })
      t.equal(response.statusCode, 404, `${method} ${id.slice(0, 40)}`)
      t.equal(response.body, '{"errors":["Not found"]}')
    }
  }
  t.equal(
    (await app.inject({ url: `/assets/${asset.id.toUpperCase()}`, headers: owner.headers })).statusCode,
    200
  )
  t.equal((await stored(app)).published.length, 1)
})

onEachStore('DELETE removes the row and the file, a second DELETE gets 404', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const asset = (await upload(app, account, PNG)).json()
  const kept = (await upload(app, account, GIF)).json()
  t.equal((await app.inject(pathOf(asset))).statusCode, 200)

  const response = await app.inject({
    method: 'DELETE',
    url: `/assets/${asset.id}`,
    headers: account.headers
  })
  t.equal(response.statusCode, 204)
  t.equal(response.body, '')
  t.equal(response.headers['content-type'], undefined)
  for (
    const [method, url] of [['GET', pathOf(asset)], ['HEAD', pathOf(asset)], ['GET', `/assets/${asset.id}`], [
      'DELETE',
      `/assets/${asset.id}`
    ]] as const
  ) {
    t.equal((await app.inject({ method, url, headers: account.headers })).statusCode, 404, `${method} ${url}`)
  }
  t.strictSame((await app.inject({ url: '/assets', headers: account.headers })).json(), [kept])
  t.strictSame(await stored(app), { published: [pathOf(kept).slice('/uploads/'.length)], temporary: [] })
})

onEachStore(
  'a false precondition keeps an asset, and a matching ETag avoids reading it again',
  async (t, build) => {
    const app = await build(t)
    const account = await signUp(app)
    const uploaded = await upload(app, account, PNG)
    const url = `/assets/${uploaded.json().id}`
    const etag = String(uploaded.headers.etag)
    const send = async (method: 'GET' | 'DELETE', headers: Record<string, string> = {}, by = account) =>
      await app.inject({ method, url, headers: { ...by.headers, ...headers } })
    const past = new Date(Date.now() - 60_000).toUTCString()

    t.equal((await send('GET')).headers.etag, etag)
    t.equal((await send('GET', { 'if-none-match': etag })).statusCode, 304)
    t.equal((await send('GET', { 'if-match': '"x"' })).statusCode, 412)
    for (
      const [headers, named] of [
        [{ 'if-match': '"x"' }, 'If-Match'],
        [{ 'if-match': `W/${etag}` }, 'If-Match'],
        [{ 'if-none-match': '*' }, 'If-None-Match'],
        [{ 'if-none-match': etag }, 'If-None-Match'],
        [{ 'if-unmodified-since': past }, 'If-Unmodified-Since']
      ] as [
        Record<string, string>,
        string
      ][]
    ) {
      const response = await send('DELETE', headers)
      t.equal(response.statusCode, 412, JSON.stringify(headers))
      t.match(response.json().errors[0], named)
      t.equal(response.headers.etag, etag)
      t.equal((await send('DELETE', headers, await signUp(app))).statusCode, 404, 'another account')
    }
    t.equal((await app.inject(pathOf(uploaded.json()))).statusCode, 200, 'the file is still there')
    t.equal((await send('DELETE', { 'if-match': etag, 'if-none-match': '"x"' })).statusCode, 204)
  }
)

t.test('DELETE without a body accepts any Content-Type', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  for (
    const type of [
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json',
      'nonsense'
    ]
  ) {
    const { id } = (await upload(app, account, PNG)).json()
    const response = await app.inject({
      method: 'DELETE',
      url: `/assets/${id}`,
      headers: { ...account.headers, 'content-type': type, 'content-length': '0' }
    })
    t.equal(response.statusCode, 204, type)
  }
  t.strictSame(await stored(app), { published: [], temporary: [] })
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

t.test("a list contains only the user's own assets, even with a cursor from another user's list", async (t) => {
  const app = await buildTestApp(t)
  const [owner, stranger] = [await signUp(app), await signUp(app)]
  const own: string[] = []
  const strange: string[] = []
  for (let n = 0; n < 3; n++) {
    strange.unshift((await upload(app, stranger, PNG)).json().id)
    own.unshift((await upload(app, owner, PNG)).json().id)
  }
  const list = async (account: Account, query: string) => {
    const response = await app.inject({ url: `/assets?${query}`, headers: account.headers })
    return {
      ids: response.json().map(({ id }: { id: string }) => id),
      next: /[?]([^>]*)>/.exec(String(response.headers.link))?.[1] ?? ''
    }
  }
  const first = await list(owner, 'limit=1')
  t.same(first.ids, own.slice(0, 1))
  t.same((await list(owner, first.next.replace('limit=1', 'limit=100'))).ids, own.slice(1))
  t.same((await list(stranger, first.next.replace('limit=1', 'limit=100'))).ids, strange)
})
