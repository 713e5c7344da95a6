import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import type { FastifyInstance } from 'fastify'
import { buildTestApp, createPage, listen, signUp } from '../../helpers/app.ts'
import { connection } from '../../helpers/raw.ts'
import { claimRedis, startRedisServer } from '../../helpers/servers.ts'

let subnet = 0
const newAddress = (): string => `198.51.100.${++subnet}`
const read = async (
  app: FastifyInstance,
  publicId: string,
  remoteAddress: string,
  headers: Record<string, string> = {},
  method: 'GET' | 'HEAD' = 'GET'
) => await app.inject({ method, url: `/landing_pages/${publicId}`, remoteAddress, headers })

/** Reads until a read gets 429, at most `most` times. Returns how many reads passed. */
async function passed (
  app: FastifyInstance,
  publicId: string,
  address: string,
  most: number,
  headers: Record<string, string> = {}
): Promise<number> {
  let count = 0
  while (count < most && (await read(app, publicId, address, headers)).statusCode !== 429) count++
  return count
}

async function appWithPage (t: Test, settings: Record<string, string> = {}) {
  const app = await buildTestApp(t, settings)
  return { app, page: await createPage(app, await signUp(app)) }
}

for (const kind of ['in the process', 'in Redis'] as const) {
  t.test(`reads are counted ${kind}`, async (t) => {
    const redis: Record<string, string> = kind === 'in Redis' ? { REDIS_URL: await claimRedis(t) } : {}
    const { app, page } = await appWithPage(t, {
      ...redis,
      ALLOWED_HOSTS: 'www.example.com,*.apps.example.com,203.0.113.0/28,203.0.113.77,2001:db8:7::/48'
    })

    t.test('30 reads pass, the 31st gets 429 with Retry-After', async (t) => {
      const from = newAddress()
      for (let n = 1; n <= 30; n++) {
        const response = await read(app, page.public_id, from)
        t.equal(response.statusCode, 200)
        t.equal(response.headers['ratelimit-policy'], '"public";q=30;w=60')
        t.match(response.headers.ratelimit, new RegExp(`^"public";r=${30 - n};t=\\d+$`))
      }
      const response = await read(app, page.public_id, from)
      t.equal(response.statusCode, 429)
      t.match(response.json(), { errors: [/^Too many requests, try again in \d+ seconds$/] })
      const seconds = Number(response.headers['retry-after'])
      t.ok(seconds <= 60)
      t.equal(response.headers.ratelimit, `"public";r=0;t=${seconds}`)
      t.equal(response.headers['access-control-allow-origin'], '*')
      t.match(response.headers['access-control-expose-headers'], /Retry-After/)
      t.equal((await read(app, page.public_id, newAddress())).statusCode, 200, 'other addresses')
    })

    t.test('GET and HEAD with a 200, 304 or 404 count towards the same limit', async (t) => {
      const from = newAddress()
      for (let n = 0; n < 6; n++) {
        t.equal((await read(app, page.public_id, from)).statusCode, 200)
        t.equal((await read(app, page.public_id, from, {}, 'HEAD')).statusCode, 200)
        t.equal((await read(app, page.public_id, from, { 'if-none-match': page.etag })).statusCode, 304)
        t.equal((await read(app, 'A'.repeat(22), from)).statusCode, 404)
        t.equal((await read(app, 'malformed', from)).statusCode, 404)
      }
      t.equal((await read(app, page.public_id, from)).statusCode, 429)
      t.equal((await read(app, page.public_id, from, {}, 'HEAD')).statusCode, 429)
      t.equal((await read(app, 'A'.repeat(22), from)).statusCode, 429)
    })

    t.test('exactly 30 of 100 concurrent reads pass', async (t) => {
      const from = newAddress()
      const responses = await Promise.all(Array.from({ length: 100 }, async () =>
        await read(app, page.public_id, from)))
      t.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 30)
    })

    t.test('an allowed host has 1,000 reads, and the two tiers are counted separately', async (t) => {
      const from = newAddress()
      const origin = { origin: 'https://www.example.com' }
      const first = await read(app, page.public_id, from, origin)
      t.equal(first.headers['ratelimit-policy'], '"allowed-host";q=1000;w=60')
      t.match(first.headers.ratelimit, /^"allowed-host";r=999;t=\d+$/)
      t.equal(await passed(app, page.public_id, from, 2000, origin), 999)
      t.equal(await passed(app, page.public_id, from, 100), 30, 'the public tier is not affected')
      t.equal((await read(app, page.public_id, from, origin)).statusCode, 429)
    })

    t.test('an IPv4-mapped address counts as IPv4, and an IPv6 address by its /64', async (t) => {
      const last = newAddress()
      t.equal(await passed(app, page.public_id, last, 20), 20)
      t.equal(await passed(app, page.public_id, `::ffff:${last}`, 100), 10)
      t.equal(await passed(app, page.public_id, `2001:db8:${kind.length}:1::1`, 20), 20)
      t.equal(await passed(app, page.public_id, `2001:DB8:${kind.length}:1:ffff:ffff:ffff:ffff`, 100), 10)
      t.equal(await passed(app, page.public_id, `2001:db8:${kind.length}:2::1`, 100), 30)
    })
  })
}

t.test('ALLOWED_HOSTS matches origins, referers and client addresses', async (t) => {
  const { app, page } = await appWithPage(t, {
    TRUST_PROXY: '10.0.0.0/8',
    ALLOWED_HOSTS:
      'www.example.com, *.apps.example.com,203.0.113.0/28,203.0.113.77,2001:db8:7::/48,b\u00fccher.example'
  })
  const policy = async (address: string, headers: Record<string, string>) =>
    String((await read(app, page.public_id, address, headers)).headers['ratelimit-policy'])
  const outside = newAddress()
  // In every notation that proxies use.
  const forwarded = '203.0.113.1 203.0.113.1:4711 ::ffff:203.0.113.1 [2001:db8:7::1] [2001:db8:7::1]:4711'
  for (
    const [address, headers] of [
      ...forwarded.split(' ').map((text) => ['10.0.0.1', { 'x-forwarded-for': text }]),
      [outside, { origin: 'https://www.example.com' }],
      [outside, { origin: 'http://WWW.EXAMPLE.COM:8080' }],
      [outside, { origin: 'https://a.apps.example.com' }],
      [outside, { origin: 'https://a.b.apps.example.com' }],
      [outside, { referer: 'https://www.example.com/a?b#c' }],
      [outside, { origin: 'https://xn--bcher-kva.example' }],
      ['203.0.113.15', {}],
      ['203.0.113.77', {}],
      ['::ffff:203.0.113.1', {}],
      ['2001:db8:7:ffff::1', {}],
      ['203.0.113.1', { origin: 'https://elsewhere.example' }]
    ] as [string, Record<string, string>][]
  ) t.match(await policy(address, headers), /^"allowed-host"/, JSON.stringify([address, headers]))
  for (
    const [address, headers] of [
      [outside, {}],
      [outside, { origin: 'https://example.com' }],
      [outside, { origin: 'https://apps.example.com' }],
      [outside, { origin: 'https://evil-www.example.com' }],
      [outside, { origin: 'https://www.example.com.evil.example' }],
      [outside, { origin: 'https://evilapps.example.com' }],
      [outside, { origin: 'www.example.com' }],
      [outside, { origin: 'https://evil.example/?https://www.example.com' }],
      [outside, { origin: 'https://www.example.com@evil.example' }],
      [outside, { origin: 'null', referer: 'https://www.example.com/' }],
      [outside, { origin: 'https://evil.example', referer: 'https://www.example.com/' }],
      [outside, { referer: 'nonsense' }],
      [outside, { host: 'www.example.com' }],
      ['203.0.113.16', {}],
      ['203.0.113.78', {}],
      ['2001:db8:8::1', {}],
      [outside, { 'x-forwarded-for': '203.0.113.1' }],
      [outside, { forwarded: 'for=203.0.113.1' }]
    ] as [string, Record<string, string>][]
  ) t.match(await policy(address, headers), /^"public"/, JSON.stringify([address, headers]))
})

t.test('only trusted proxies set the client address with X-Forwarded-For', async (t) => {
  const settings = { RATE_LIMIT_PUBLIC: '3', RATE_LIMIT_ALLOWED_HOSTS: '4', ALLOWED_HOSTS: 'a.example' }
  const { app, page } = await appWithPage(t, { TRUST_PROXY: '10.0.0.0/8,fd00::/8', ...settings })
  const cases: [peer: string, forwarded: string, passes: number, what: string][] = [
    ['10.0.0.1', '192.0.2.1', 3, 'a client'],
    ['fd00::1', '192.0.2.1', 0, 'the same client through another proxy'],
    ['10.0.0.1', '192.0.2.2', 3, 'another client'],
    ['10.0.0.1', '1.1.1.1, 192.0.2.2', 0, 'addresses that the client put in front are ignored'],
    ['10.0.0.1', '192.0.2.2, 10.9.9.9', 0, 'a chain of trusted proxies'],
    ['10.0.0.1', '192.0.2.2:4711', 0, 'with a port'],
    ['10.0.0.1', '::ffff:192.0.2.2', 0, 'IPv4-mapped'],
    ['10.0.0.1', 'nonsense', 3, 'the proxy counts as the client'],
    ['10.0.0.1', 'other nonsense', 0, 'the proxy counts as the client'],
    ['192.0.2.50', '192.0.2.51', 3, 'an untrusted peer counts as the client'],
    ['192.0.2.50', '192.0.2.52', 0, 'an untrusted peer counts as the client']
  ]
  for (const [peer, forwarded, passes, what] of cases) {
    const headers = { 'x-forwarded-for': forwarded }
    t.equal(await passed(app, page.public_id, peer, 10, headers), passes, what)
  }
  t.equal(await passed(app, page.public_id, '10.0.0.1', 10, { origin: 'https://a.example' }), 4)
})

t.test('many headers do not hide an appended X-Forwarded-For', async (t) => {
  const { app, page } = await appWithPage(t, { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_PUBLIC: '3' })
  const proxy = connection(t, await listen(app))
  const statuses: number[] = []
  const hidden = `X-Forwarded-For: 192.0.2.1\r\n${'a:b\r\n'.repeat(97)}X-Forwarded-For: 203.0.113.9`
  for (let n = 1; n <= 5; n++) {
    const client = hidden.replace('2.1', `2.${n}`)
    proxy.send(`GET /landing_pages/${page.public_id} HTTP/1.1\r\nHost: x\r\n${client}\r\n\r\n`)
    statuses.push((await proxy.response()).status)
  }
  t.same(statuses, [200, 200, 200, 429, 429])
})

t.test('the window ends 60 seconds after its first read', async (t) => {
  const redis = await startRedisServer(t)
  for (const settings of [{}, { REDIS_URL: redis.url }] as Record<string, string>[]) {
    const { app, page } = await appWithPage(t, settings)
    const from = newAddress()
    const start = clock.now()
    let now = start
    replaceClock(t, () => now)
    t.equal(await passed(app, page.public_id, from, 15), 15)
    now = start + 59_000
    t.equal(await passed(app, page.public_id, from, 100), 15, 'reads do not extend the window')
    const retryAfter = (await read(app, page.public_id, from)).headers['retry-after']
    if (settings.REDIS_URL === undefined) {
      t.equal(retryAfter, '1', 'the time that is left')
    } else {
      // The window ends by the clock of Redis, which this test does not move.
      now = start + 60_000
      t.equal(await passed(app, page.public_id, from, 100), 0, 'by the clock of Redis')
      const { commands } = app.redisClient!
      const [key = '', ...others] = await commands.keys('landfall:window:2:*')
      t.same(others, [])
      const left = await commands.pttl(key)
      t.ok(left > 110_000 && left <= 120_000, 'Redis keeps it for another minute')
      await commands.del(key)
      now += 60_000
    }
    now += 1000
    t.equal(await passed(app, page.public_id, from, 100), 30)
  }
})
