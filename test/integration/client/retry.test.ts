import t from 'tap'
import { createLandfallClient, memoryTokens } from '../../../packages/client/src/index.ts'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { createProxy } from '../../helpers/servers.ts'
import { testSettings } from '../../helpers/app.ts'
import { expiredTokens, failure, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const settings = await testSettings(t)
const database = await createProxy(t, settings.DATABASE_URL ?? '')
const { url } = await startApp(t, { ...settings, DATABASE_URL: database.url, RATE_LIMIT_PUBLIC: '2' })
const owner = await signedUp(url)
const page = await owner.landingPages.create({ hello: 'world' })

t.test('a read over the limit waits for Retry-After if it was asked to', async (t) => {
  let now = clock.now()
  replaceClock(t, () => now)
  const { fetch, sent } = recordingFetch(() => {
    if (sent.length === 4) now += 2000 // the client has waited for Retry-After
  })
  const client = createLandfallClient({
    baseUrl: url,
    fetch,
    cache: { maxEntries: 0 },
    retry: { publicReads: true }
  })
  for (let n = 0; n < 2; n++) await client.landingPages.read(page.public_id)

  t.match(await failure(client.landingPages.read(page.public_id)), {
    status: 429,
    retryAfterSeconds: Number,
    errors: [/^Too many requests/]
  }, 'a wait of nearly a minute exceeds maxWaitMs')
  t.equal(sent.at(-1)?.status, 429)
  t.equal(sent.length, 3)
  now += 58_500
  const impatient = createLandfallClient({ baseUrl: url })
  t.match(
    await failure(impatient.landingPages.read(page.public_id)),
    { status: 429 },
    'by default it rejects at once'
  )
  t.match(await client.landingPages.read(page.public_id), { document: { hello: 'world' } })
  t.same(sent.map(({ status }) => status), [200, 200, 429, 429, 200])
  now += 200_000 // the tests below start with an unused limit
})

t.test('a read uses the document of an earlier read when the service has no response', async (t) => {
  const { url } = await startApp(t, { RATE_LIMIT_PUBLIC: '2' })
  const service = await createProxy(t, url)
  const { fetch, sent } = recordingFetch()
  const reader = createLandfallClient({ baseUrl: service.url, fetch })
  const strict = createLandfallClient({ baseUrl: service.url, cache: { staleIfError: false }, fetch })
  const { public_id: publicId } = await (await signedUp(url)).landingPages.create({ hello: 'world' })
  const held = await reader.landingPages.read(publicId)
  t.match(held, { document: { hello: 'world' }, stale: false })
  await strict.landingPages.read(publicId)

  const copy = { document: { hello: 'world' }, etag: held.etag, notModified: true, stale: true }
  t.match(await reader.landingPages.read(publicId), copy, 'over the limit')
  t.equal(sent.at(-1)?.status, 429)
  t.match(await failure(strict.landingPages.read(publicId)), { status: 429 })
  t.match(await failure(reader.landingPages.read('x'.repeat(22))), { status: 429 }, 'nothing was read before')

  await service.refuse()
  t.match(await reader.landingPages.read(publicId), copy, 'without a connection')
  t.match(await failure(strict.landingPages.read(publicId)), TypeError)
  const signal = AbortSignal.abort(new Error('gone'))
  t.match(await failure(reader.landingPages.read(publicId, { signal })), { message: 'gone' })
})

t.test('reads are repeated while the database is unavailable, writes are not', async (t) => {
  const { fetch, sent } = recordingFetch(() => {
    if (sent.length === 2) return database.restore()
  })
  const client = await signedUp(url, { fetch })
  sent.length = 0
  await database.refuse()
  t.match(await failure(client.landingPages.create({})), {
    status: 503,
    retryAfterSeconds: 1,
    requestId: /./
  }, 'a write is not repeated, because it may have been carried out')
  t.equal(sent.length, 1)
  t.match(await client.auth.me(), { id: Number })
  t.same(sent.map(({ status }) => status), [503, 503, 200])
})

t.test('a 404 counts as a successful deletion only after a 503', async (t) => {
  const { id } = await owner.landingPages.create({})
  for (
    const [responses, expected] of [
      [[429], 'fails'],
      [[401], 'fails'],
      [[429, 401, 429], 'fails'],
      [[503], 'succeeds'],
      [[503, 401], 'succeeds'],
      [[503, 429, 401], 'succeeds']
    ] as const
  ) {
    const { client, sent } = await answeredFirst(responses)
    const error = await client.landingPages.delete(id).then(() => undefined, (error: unknown) => error)
    t.match(error, expected === 'fails' ? { status: 404 } : undefined, responses.join())
    t.same(sent.filter((one) => one !== 'refresh'), [...responses, 404])
  }
})

t.test('maxRetries and maxWaitMs limit the retries', async (t) => {
  for (
    const [retry, header, expected] of [
      [{ maxRetries: 2 }, '0', 3],
      [{ maxRetries: 0 }, '0', 1],
      [{ maxWaitMs: 1500 }, '1', 2],
      [{ maxWaitMs: 100 }, undefined, 1],
      [{ maxWaitMs: 100 }, 'soon', 1],
      [{ maxWaitMs: 60_000 }, new Date(Date.now() + 120_000).toUTCString(), 1],
      [{ maxRetries: 1 }, new Date(Date.now() - 1000).toUTCString(), 2]
    ] as const
  ) {
    let count = 0
    const fetch = async () => {
      count++
      return new Response('<h1>Too busy</h1>', {
        status: 503,
        headers: header === undefined ? {} : { 'retry-after': header }
      })
    }
    const client = createLandfallClient({ baseUrl: url, fetch, retry })
    t.match(await failure(client.landingPages.read('x')), {
      status: 503,
      errors: [/503/],
      requestId: undefined
    })
    t.equal(count, expected, JSON.stringify({ retry, header }))
  }
})

t.test('a signal aborts a call', async (t) => {
  const proxy = await createProxy(t, url)
  const client = await signedUp(proxy.url)
  await t.test('while its request is in flight', async (t) => {
    proxy.blackhole()
    const controller = new AbortController()
    const call = failure(client.auth.me({ signal: controller.signal }))
    controller.abort(new Error('enough'))
    t.match(await call, { message: 'enough' })
    await proxy.restore()
    t.ok(await client.auth.me())
  })
  await t.test('while it waits for a retry', async (t) => {
    const controller = new AbortController()
    const fetch = async () => {
      setImmediate(() => controller.abort())
      return new Response(null, { status: 429, headers: { 'retry-after': '20' } })
    }
    const waiting = createLandfallClient({ baseUrl: url, fetch, retry: { publicReads: true } })
    t.match(await failure(waiting.landingPages.read('x', { signal: controller.signal })), {
      name: 'AbortError'
    })
  })
  await t.test('while it waits for a refresh, which continues for other calls', async (t) => {
    const controller = new AbortController()
    const { fetch, count } = recordingFetch((path) => {
      if (path === '/auth/refresh') controller.abort()
    })
    const shared = createLandfallClient({ baseUrl: url, fetch, tokens: await expiredTokens(url) })
    const [aborted, other] = await Promise.allSettled([
      shared.auth.me({ signal: controller.signal }),
      shared.auth.me()
    ])
    t.match(aborted, { status: 'rejected', reason: { name: 'AbortError' } })
    t.match(other, { status: 'fulfilled' })
    t.equal(count('/auth/refresh'), 1)
  })
  await t.test('before it starts', async (t) => {
    t.match(await failure(client.auth.me({ signal: AbortSignal.abort() })), { name: 'AbortError' })
    t.match(await failure(client.landingPages.read(page.public_id, { signal: AbortSignal.abort() })), {
      name: 'AbortError'
    })
  })
})

/** A signed-in client whose first requests, except refreshes, get these statuses as answers. */
async function answeredFirst (statuses: readonly number[]) {
  const sent: unknown[] = []
  const left = [...statuses]
  const fetch = async (address: string, init: RequestInit) => {
    const isRefresh = address.endsWith('/auth/refresh')
    const status = isRefresh ? undefined : left.shift()
    const response = status === undefined ? await globalThis.fetch(address, init)
      : new Response(null, { status, headers: { 'retry-after': '0' } })
    sent.push(isRefresh ? 'refresh' : response.status)
    return response
  }
  const tokens = memoryTokens()
  await signedUp(url, { tokens })
  return { client: createLandfallClient({ baseUrl: url, fetch, tokens }), sent }
}
