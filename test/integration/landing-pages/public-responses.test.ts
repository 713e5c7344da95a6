import { pino } from 'pino'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, createPage, signUp } from '../../helpers/app.ts'
import { startPostgresServer } from '../../helpers/servers.ts'

const large = `{"items":[${Array.from({ length: 200 }, (_, n) => `{"item":${n}}`).join(',')}]}`
const read = async (
  app: FastifyInstance,
  publicId: string,
  headers: Record<string, string> = {},
  method: 'GET' | 'HEAD' | 'OPTIONS' = 'GET'
) => await app.inject({ method, url: `/landing_pages/${publicId}`, headers })

t.test('every public response has a request id, rate limit headers and CORS for any origin', async (t) => {
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '9' })
  const page = await createPage(app, await signUp(app), large)
  const unknown = 'A'.repeat(22)
  let left = 9
  for (
    const [publicId, headers, method, status] of [
      [page.public_id, {}, 'GET', 200],
      [page.public_id, {}, 'HEAD', 200],
      [page.public_id, { 'accept-encoding': 'br' }, 'GET', 200],
      [page.public_id, { 'accept-encoding': 'gzip' }, 'GET', 200],
      [page.public_id, { 'if-none-match': page.etag }, 'GET', 304],
      [page.public_id, { 'if-none-match': page.etag }, 'HEAD', 304],
      [unknown, {}, 'GET', 404],
      [unknown, {}, 'HEAD', 404],
      ['malformed', {}, 'GET', 404],
      [page.public_id, {}, 'GET', 429],
      [page.public_id, {}, 'HEAD', 429]
    ] as [string, Record<string, string>, 'GET' | 'HEAD', number][]
  ) {
    const what = `${method} ${status} ${JSON.stringify(headers)}`
    left = Math.max(0, left - 1)
    const response = await read(app, publicId, { ...headers, 'x-request-id': 'mine' }, method)
    t.equal(response.statusCode, status, what)
    t.match(response.headers, {
      'x-request-id': 'mine',
      'ratelimit-policy': '"public";q=9;w=60',
      ratelimit: new RegExp(`^"public";r=${left};t=\\d+$`),
      'access-control-allow-origin': '*',
      'access-control-expose-headers':
        'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Link, Cache-Status, Age, Location',
      'timing-allow-origin': '*'
    }, what)
    if (status === 200 && method === 'GET' && !('accept-encoding' in headers)) t.equal(response.body, large)
    if (status >= 400) continue
    t.match(response.headers, {
      vary: 'Accept-Encoding',
      'cache-control': 'public, max-age=0, must-revalidate'
    }, what)
  }
})

t.test('Cache-Status, Age and the metrics show where a read was served from', async (t) => {
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(t, {
    DATABASE_URL: postgres.url,
    UPLOADS_DIR: t.testdir(),
    RATE_LIMIT_PUBLIC: '9'
  })
  const page = await createPage(app, await signUp(app), large)
  let now = clock.now()
  replaceClock(t, () => now)
  // The counted reads of the public tier, by source and status.
  const counted = async () => {
    const line = /^landfall_public_reads_total\{tier="public",source="(.+)",status="(.+)"\} ([1-9]\d*)$/gm
    return Object.fromEntries([...(await app.metrics.metrics()).matchAll(line)]
      .map(([, source, status, count]) => [`${source} ${status}`, Number(count)]))
  }
  const expected: Record<string, number> = {}
  t.same(await counted(), expected)
  async function is (
    source: string,
    status: number,
    cacheStatus: string | undefined,
    age: string | undefined,
    publicId = page.public_id,
    headers: Record<string, string> = {}
  ) {
    const result = `${source} ${status}`
    const response = await read(app, publicId, headers)
    t.equal(response.statusCode, status, result)
    t.equal(response.headers['cache-status'], cacheStatus, result)
    t.equal(response.headers.age, age, result)
    if (status < 400) t.equal(response.headers['x-content-type-options'], 'nosniff', result)
    expected[result] = (expected[result] ?? 0) + 1
    t.same(await counted(), expected)
  }
  const HIT = 'landfall; hit'
  await is('process', 200, HIT, undefined)
  await is('process', 304, HIT, undefined, page.public_id, { 'if-none-match': page.etag })
  now += 2000 // past its short lease
  await is('database', 200, 'landfall; fwd=miss', undefined)
  await is('process', 200, HIT, undefined, page.public_id, { 'accept-encoding': 'br' })
  await is('none', 404, undefined, undefined, 'malformed')
  await is('none', 404, undefined, undefined, 'A'.repeat(22))
  const known = now
  await postgres.stop()
  for (const seconds of [5, 8]) {
    now = known + seconds * 1000 + 999
    await is('stale', 200, 'landfall; hit; detail=stale', String(seconds))
  }
  await is('none', 503, undefined, undefined, 'B'.repeat(22))
  await is('none', 429, undefined, undefined)
})

t.test('the 62 characters of public ids are equally frequent', async (t) => {
  const counts = new Map<string, number>()
  const draws = 10_000
  for (let n = 0; n < draws; n++) {
    for (const character of randomPublicId()) counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  t.equal(counts.size, 62)
  const expected = draws * 22 / 62
  // The standard deviation is about 60. A byte modulo 62 would make the first eight 21 % more frequent.
  for (const [character, count] of counts) {
    t.ok(Math.abs(count - expected) < 7 * Math.sqrt(expected), `${character}: ${count}`)
  }
})

t.test('the service warns once about X-Forwarded-For from untrusted peers', async (t) => {
  const lines: string[] = []
  const app = await buildTestApp(
    t,
    { TRUST_PROXY: '10.0.0.0/8' },
    pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  )
  const warnings = () => lines.filter((text) => text.includes('X-Forwarded-For'))
  const page = await createPage(app, await signUp(app))
  const readFrom = async (remoteAddress: string, headers: Record<string, string>) =>
    await app.inject({ url: `/landing_pages/${page.public_id}`, remoteAddress, headers })
  await readFrom('192.0.2.1', {})
  await readFrom('10.0.0.1', { 'x-forwarded-for': '192.0.2.7' })
  t.same(warnings(), [])
  for (let n = 1; n < 5; n++) await readFrom(`192.0.2.${n}`, { 'x-forwarded-for': '192.0.2.7' })
  t.equal(warnings().length, 1)
  t.match(warnings()[0], /TRUST_PROXY/)
})
