import t from 'tap'
import { Redis } from 'ioredis'
import pg from 'pg'
import { claimRedis, createDatabase, query, startPostgresServer, startRedisServer,
  type Teardown } from '../../helpers/servers.ts'

function connectRedis (t: Teardown, url: string, options: object = {}): Redis {
  const client = new Redis(url, { retryStrategy: null, maxRetriesPerRequest: 0, ...options })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  return client
}

t.test('databases are empty and separate, and are dropped after their test even if connections are open', async (t) => {
  let urls: string[] = []
  await t.test('the test that uses them', async (t) => {
    urls = await Promise.all([1, 2, 3, 4].map(async () => await createDatabase(t)))
    t.equal(new Set(urls).size, 4)
    const [first, second] = urls as [string, string]
    await query(first, 'CREATE TABLE things (id integer)')
    t.match(await query(first, "SELECT to_regclass('things') AS found"), [{ found: 'things' }])
    t.match(await query(second, "SELECT to_regclass('things') AS found"), [{ found: null }])
    const stranger = new pg.Client({ connectionString: first })
    stranger.on('error', () => {})
    await stranger.connect()
  })
  for (const url of urls) {
    await t.rejects(query(url, 'SELECT 1'), { code: '3D000' }, 'the database is dropped')
  }
})

t.test('Redis databases are separate, and are flushed and released after their test', async (t) => {
  let urls: string[] = []
  await t.test('the test that uses them', async (t) => {
    urls = await Promise.all(Array.from({ length: 8 }, async () => await claimRedis(t)))
    t.equal(new Set(urls).size, 8, 'all databases differ')
    const [first, second] = urls.map((url) => connectRedis(t, url)) as [Redis, Redis]
    await first.set('key', 'value')
    t.equal(await second.get('key'), null)
    t.equal(await second.dbsize(), 0)
  })
  t.equal(await connectRedis(t, urls[0] as string).dbsize(), 0)
})

t.test("a Redis database that contains data isn't claimed", async (t) => {
  const server = await startRedisServer(t, { databases: 3 })
  const client = connectRedis(t, `${server.url}/1`)
  await client.set('precious', 'yes')
  const before = process.env.TEST_REDIS_URL
  process.env.TEST_REDIS_URL = server.url
  t.teardown(() => {
    process.env.TEST_REDIS_URL = before
  })
  t.match(await claimRedis(t), /\/2$/)
  await t.rejects(claimRedis(t), /None of the 3 databases/)
  t.equal(await client.get('precious'), 'yes')
})

t.test('a private Redis can be frozen, stopped, killed and started again on its port', async (t) => {
  const server = await startRedisServer(t, { maxmemory: '8mb' })
  const ask = async (): Promise<unknown> => {
    const client = connectRedis(t, server.url, { commandTimeout: 300, connectTimeout: 300 })
    try {
      return (await client.config('GET', 'maxmemory') as string[])[1]
    } finally {
      client.disconnect()
    }
  }
  t.equal(await ask(), String(8 * 1024 * 1024), 'the settings still apply')
  server.pause()
  await t.rejects(ask(), /timed out/i)
  server.resume()
  t.equal(await ask(), String(8 * 1024 * 1024))
  const { pid, port } = server
  await server.stop()
  await t.rejects(ask(), 'nobody listens')
  await server.start()
  t.not(server.pid, pid)
  t.equal(server.port, port)
  t.equal(await ask(), String(8 * 1024 * 1024))
  server.pause()
  await server.kill()
  await t.rejects(ask(), 'nobody listens')
})

t.test('a private Redis requires its password', async (t) => {
  const server = await startRedisServer(t)
  const client = connectRedis(t, `redis://127.0.0.1:${server.port}`)
  await t.rejects(client.ping(), /NOAUTH/)
})

t.test('a private PostgreSQL keeps committed data after a crash, and can be frozen with all its processes', async (t) => {
  const server = await startPostgresServer(t)
  await query(server.url, 'CREATE TABLE things AS SELECT 7 AS id')
  await server.kill()
  await t.rejects(query(server.url, 'SELECT 1'), { code: 'ECONNREFUSED' })
  await server.start()
  t.same(await query(server.url, 'SELECT id FROM things'), [{ id: 7 }])

  const client = new pg.Client({ connectionString: server.url, query_timeout: 300 })
  client.on('error', () => {})
  await client.connect()
  server.pause()
  await t.rejects(client.query('SELECT 1'), /timeout/i, 'an open connection gets no answer')
  server.resume()
  await client.end()
  const url = new URL(server.url)
  url.password = 'wrong'
  await t.rejects(query(url.href, 'SELECT 1'), { code: '28P01' }, 'a wrong password is refused')
})
