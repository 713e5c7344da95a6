import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { startVarnish } from '../../shared/balancer.ts'
import { ask, call, checkConsoleOrigin, Owner } from '../../helpers/client.ts'
import { provide } from '../../shared/programs.ts'
import { freePort, startRedisServer } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs deploy/varnish/default.vcl in front of the service.

const varnish = provide('varnish')
provide('xkey')

async function startSite (t: Test, cacheControl: string) {
  const service = await startService(t, {
    ...await testSettings(t),
    PUBLIC_CACHE_CONTROL: cacheControl,
    TRUST_PROXY: '127.0.0.1'
  })
  const direct = service.url.replace('localhost', '127.0.0.1')
  const url = await startInFront(t, [direct], await freePort())
  return { service, direct, url, owner: await Owner.signUp(url) }
}

/** Starts Varnish in front of replicas, which it asks in turn; the first has the management API. */
async function startInFront (t: Test, replicas: readonly string[], port: number): Promise<string> {
  const [first = '', second] = replicas.map((url) => new URL(url).port)
  const { url } = await startVarnish(t, varnish, first, port, second === undefined ? [] : inTurn(second))
  await until(async () => (await call('GET', `${url}/health/ready`)).status === 200, 'Varnish is ready')
  return url
}

/** Changes of the file for a second replica. */
const inTurn = (port: string): [string, string][] => [
  ['import std;', 'import std; import directors;'],
  [
    'acl purgers',
    `backend second { .host = "127.0.0.1"; .port = "${port}"; }
sub vcl_init {
  new replicas = directors.round_robin();
  replicas.add_backend(default);
  replicas.add_backend(second);
}
acl purgers`
  ],
  ['  if ((req.method !=', '  set req.backend_hint = replicas.backend();\n  if ((req.method !=']
]

const get = async (url: string, headers: Record<string, string> = {}, from = '127.0.0.1', method = 'GET') => {
  const { pathname, search } = new URL(url)
  return await ask(url, pathname + search, { method, headers, from })
}

t.test('Varnish caches public reads', async (t) => {
  const { service, direct, url, owner } = await startSite(t, 'public, max-age=600')
  const page = await owner.createPage(url, JSON.stringify({ text: 'Landing page. '.repeat(300) }))
  const path = `/landing_pages/${page.public_id}`

  t.test('readers beyond the limit get the document, without headers of another reader', async (t) => {
    const ids = new Set()
    for (let n = 0; n < 40; n++) {
      const { status, headers } = await get(`${url}${path}?n=${n}`, { 'x-request-id': `mine/${n}` })
      t.same([status, headers['x-request-id'], headers.ratelimit, headers['ratelimit-policy']], [
        200,
        `mine/${n}`,
        undefined,
        undefined
      ])
      ids.add((await get(url + path)).headers['x-request-id'])
    }
    t.equal(ids.size, 40, 'every response has a request id')
  })

  t.test('each encoding has the bytes and the ETag of the service', async (t) => {
    for (const encoding of ['br', 'gzip', 'identity']) {
      const headers = { 'accept-encoding': encoding }
      const expected = await get(direct + path, headers)
      for (const accepted of [encoding, encoding, `${encoding}, deflate`]) {
        const { status, headers, body } = await get(url + path, { 'accept-encoding': accepted })
        t.same([status, body, headers.etag, headers['content-encoding'], headers.vary], [
          200,
          expected.body,
          expected.headers.etag,
          expected.headers['content-encoding'],
          expected.headers.vary
        ], accepted)
      }
      const unchanged = { ...headers, 'if-none-match': String(expected.headers.etag) }
      t.equal((await get(url + path, unchanged)).status, 304)
    }
    const { headers } = await get(url + path, { 'accept-encoding': 'br' })
    t.match(headers, {
      age: /^\d+$/,
      'access-control-allow-origin': '*',
      'cache-control': 'public, max-age=600'
    })
  })

  t.test('nothing with a token is cached', async (t) => {
    const other = await Owner.signUp(url)
    for (const [account, count] of [[owner, 1], [other, 0], [owner, 1]] as const) {
      const { text } = await account.call('GET', `${url}/manage/landing_pages`)
      t.equal(JSON.parse(text).length, count)
    }
    t.equal((await call('GET', `${url}/manage/landing_pages`)).status, 401)
    const { headers } = await owner.call('GET', url + path)
    t.ok(headers.get('ratelimit'), 'a read with a token comes from the service')
  })

  t.test('only pages of the address of Varnish may use the session of a browser', async (t) => {
    await checkConsoleOrigin(t, url)
  })

  t.test("a reader does not get another reader's 429", async (t) => {
    const limited = await until(async () => {
      const path = `/landing_pages/${randomBytes(11).toString('hex')}`
      return (await get(url + path)).status === 429 && path
    }, 'a 429')
    t.equal((await get(url + limited, {}, '127.0.0.2')).status, 404)
  })

  t.test('files are cached with their headers, and ranges work', async (t) => {
    const bytes = randomBytes(5000)
    const { path } = await owner.store(url, bytes)
    const whole = await get(url + path)
    t.match(whole, {
      status: 200,
      body: bytes,
      headers: { 'cache-control': /immutable/, 'content-disposition': /./ }
    })
    const part = await get(url + path, { range: 'bytes=10-19' })
    t.match(part, { status: 206, body: bytes.subarray(10, 20), headers: { etag: whole.headers.etag } })
  })

  t.test('without the service there are documents, and errors like those of the service', async (t) => {
    await service.end('SIGKILL')
    t.equal((await get(url + path, { 'accept-encoding': 'br' })).status, 200)
    const { status, headers, body } = await get(`${url}/health/live`)
    t.match([status, headers], [503, {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': /./
    }])
    t.same(JSON.parse(body.toString()), { errors: ['The service can not be reached, try again shortly'] })
  })
})

t.test('Varnish has fresh documents, and stale ones only while the service is away', async (t) => {
  const { service, url, owner } = await startSite(t, 'public, max-age=1')
  const page = await owner.createPage(url, '{"v":1}')
  const path = `${url}/landing_pages/${page.public_id}`
  const read = async () => {
    const { headers, body } = await get(path)
    return { age: Number(headers.age), document: body.toString() }
  }
  t.match(await read(), { document: '{"v":1}' })
  await owner.update(url, page.id, '{"v":2}')
  await until(async () => {
    const { age, document } = await read()
    t.ok(age <= 2, 'a stale document is not served')
    return document === '{"v":2}'
  }, 'the new document')
  await service.end('SIGKILL')
  await until(async () => (await read()).age > 2, 'the document is stale')
  t.match(await read(), { document: '{"v":2}' })
})

t.test('behind Varnish, no older page follows a purge', async (t) => {
  const redis = await startRedisServer(t)
  const port = await freePort()
  const settings = {
    ...await testSettings(t),
    REDIS_URL: redis.url,
    PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=86400',
    CDN_PURGE: 'varnish',
    CDN_PURGE_URL: `http://127.0.0.1:${port}`,
    TRUST_PROXY: '127.0.0.1',
    RATE_LIMIT_PUBLIC: '1000000'
  }
  const replicas = [await startService(t, settings), await startService(t, settings)]
  const direct = replicas.map(({ url }) => url.replace('localhost', '127.0.0.1'))
  const url = await startInFront(t, direct, port)
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, '{"v":1}')
  const path = `${url}/landing_pages/${page.public_id}`
  const read = async (): Promise<number> => JSON.parse((await get(path)).body.toString()).v
  const cdn = async () => {
    const answer = await owner.call('GET', `${direct[0]}/manage/landing_pages/${page.id}/publication`)
    return answer.json<{ cdn: { state: string, version: number } }>().cdn
  }

  // Readers read all the time, and check what they get against the versions that were purged before.
  const end = new AbortController()
  let [purged, reads, hits] = [1, 0, 0]
  const readers = Array.from({ length: 4 }, async () => {
    while (!end.signal.aborted) {
      const oldest = purged
      const response = await get(path)
      const { v } = JSON.parse(response.body.toString()) as { v: number }
      if (v < oldest) t.fail(`version ${v} after the purge of version ${oldest}`)
      reads++
      if (Number(response.headers.age) > 0) hits++
      await sleep(5)
    }
  })
  const WRITES = 30
  const watcher = (async () => {
    while (!end.signal.aborted) {
      const { state, version } = await cdn()
      if (state === 'purged') purged = version
      await sleep(100)
    }
  })()
  for (let v = 2; v <= WRITES; v++) {
    const { status } = await owner.update(direct[v % 2] as string, page.id, `{"v":${v}}`)
    t.equal(status, 200)
    const before = hits
    if (v % 10 === 0) await until(() => hits > before, 'after a burst, the page is cached again')
    else await sleep(100)
  }
  await until(() => purged === WRITES, 'the last version is purged')
  end.abort()
  await Promise.all([...readers, watcher])
  t.equal(await read(), WRITES)
  t.ok(hits > 0, `${hits} of ${reads} reads from the cache`)
  const purge = { 'xkey-purge': `lf-${page.public_id}` }
  t.equal((await get(path, purge, '127.0.0.2', 'PURGE')).status, 403, 'only the replicas may purge')
  t.equal((await get(path)).headers.xkey, undefined)

  const { status } = await owner.call('DELETE', `${direct[1]}/manage/landing_pages/${page.id}`)
  t.equal(status, 204)
  await until(async () => (await get(path)).status === 404, 'the deleted page is gone')
  const asset = await owner.store(direct[0] as string, randomBytes(100))
  const file = url + asset.path
  t.equal((await get(file)).status, 200)
  await owner.call('DELETE', `${direct[1]}/assets/${asset.id}`)
  await until(async () => (await get(file)).status === 404, 'the deleted file is gone')
})
