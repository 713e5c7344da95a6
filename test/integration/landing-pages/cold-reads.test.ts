import { setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { batchReads } from '../../../src/modules/landing-pages/public/batched-reads.ts'
import type { DocumentVersion } from '../../../src/modules/landing-pages/public/cached-document.ts'
import { DocumentCache } from '../../../src/modules/landing-pages/public/document-cache.ts'
import { Body } from '../../../src/modules/landing-pages/public/prepared-head.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { claimRedis, createProxy } from '../../helpers/servers.ts'
import { countStatements } from '../../helpers/statements.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Reads of documents that no cache holds share statements and Redis commands.

const UNKNOWN = 'U'.repeat(22)
const SMALL = '{"small":true}'
const LARGE = JSON.stringify({ large: 'x'.repeat(100_000) })

const read = async (app: FastifyInstance, publicId: string) => await app.inject(`/landing_pages/${publicId}`)
const readAll = async (app: FastifyInstance, publicIds: readonly string[]) =>
  await Promise.all(publicIds.map(async (publicId) => await read(app, publicId)))

interface World {
  readonly settings: Record<string, string>
  /** The process that writes; its caches hold all pages. */
  readonly writer: FastifyInstance
  readonly owner: Awaited<ReturnType<typeof signUp>>
  readonly create: (documents: readonly string[]) => Promise<{ id: string, public_id: string }[]>
}

async function world (t: Test, settings: Record<string, string>): Promise<World> {
  const all = { ...settings, RATE_LIMIT_PUBLIC: '1000000' }
  const writer = await buildTestApp(t, all)
  const owner = await signUp(writer)
  return {
    settings: all,
    writer,
    owner,
    create: async (documents) => {
      const pages = []
      for (const document of documents) pages.push(await createPage(writer, owner, document))
      return pages
    }
  }
}

const versionOf = (publicId: string, version: number): DocumentVersion => ({
  publicId,
  version,
  hash: String(version).padEnd(43, 'x'),
  updatedAt: new Date(version),
  body: new Body(`{"v":${version}}`)
})
const numbered = (count: number) => Array.from({ length: count }, (_, n) => `{"n":${n}}`)

const lockDocuments = async (t: Test, url: string) => {
  const { client } = await openTransaction(t, url)
  await client.query('LOCK TABLE landing_pages IN ACCESS EXCLUSIVE MODE')
  return client
}

t.test('concurrent reads of many cold documents are one statement', async (t) => {
  const { settings: counted, during } = await countStatements(t)
  const { settings, create } = await world(t, counted)
  const ids = (await create(numbered(60))).map(({ public_id: id }) => id)
  const reader = await buildTestApp(t, settings)
  const asked = [...ids, UNKNOWN].flatMap((id) => [id, id, id])
  const expected = [...numbered(60), 404].flatMap((answer) => [answer, answer, answer])
  const statements = await during(async () => {
    const responses = await readAll(reader, asked)
    t.same(responses.map(({ statusCode, body }) => statusCode === 200 ? body : statusCode), expected)
  })
  // The process also asks from time to time whether PostgreSQL answers.
  t.equal(statements.filter((text) => text.includes('landing_pages')).length, 1, statements.join('\n'))
})

t.test('a batch has existing, missing, deleted and large documents', async (t) => {
  for (const redisUrl of [undefined, await claimRedis(t)]) {
    const { settings, writer, owner, create } = await world(t, {
      ...await testSettings(t),
      ...redisUrl !== undefined && { REDIS_URL: redisUrl }
    })
    const [small, deleted, large, other] = await create([SMALL, SMALL, LARGE, '[]'])
    const removed = await sendAs(writer, owner, 'DELETE', `/manage/landing_pages/${deleted?.id}`)
    t.equal(removed.statusCode, 204)
    const ids = [small, deleted, large, other].map((page) => page?.public_id as string)
    const expected = [SMALL, 404, LARGE, '[]', 404]
    const shown = async (app: FastifyInstance) =>
      (await readAll(app, [...ids, UNKNOWN])).map(({ statusCode, body }) =>
        statusCode === 200 ? body : statusCode
      )
    const reader = await buildTestApp(t, settings)
    t.same(await shown(reader), expected, redisUrl === undefined ? 'PostgreSQL' : 'Redis')
    t.same(await shown(reader), expected, 'memory')
    if (redisUrl === undefined) continue
    const redis = new Redis(redisUrl)
    t.teardown(() => redis.disconnect())
    for (const key of await redis.keys('landfall:document:*')) await redis.del(key)
    t.same(await shown(await buildTestApp(t, settings)), expected, 'PostgreSQL, because Redis is empty')
    await until(async () => (await redis.keys('landfall:document:*')).length === 3)
    t.same(await shown(await buildTestApp(t, settings)), expected, 'Redis, filled by reads')
  }
})

t.test('a batch answers no read that came after a later write', async (t) => {
  /** A statement sees the documents of the moment in which it begins, and answers when the test says so. */
  const table = new Map([['a', 1], ['b', 1]].map(([id, version]) => [id as string, version as number]))
  const statements: { readonly ids: readonly string[], readonly response: () => void }[] = []
  const stored = batchReads<DocumentVersion | undefined>({
    readMany: async (ids) => {
      const seen = ids.map((publicId) => versionOf(publicId, table.get(publicId) as number))
      await new Promise<void>((resolve) => statements.push({ ids: [...ids], response: resolve }))
      return seen
    },
    maxBytes: Infinity,
    missing: undefined
  })
  const begun = async (count: number) => await until(() => statements.length === count, `${count} statements`)
  for (const maxBytes of [1e6, 0]) {
    statements.length = 0
    const cache = new DocumentCache({
      maxBytes,
      maxStaleMs: 0,
      read: async (publicId) => await stored.read(publicId),
      hearsAllWrites: () => true
    })
    const before = table.get('a') as number
    const first = [cache.load('a'), cache.load('b')]
    await begun(1)
    // Another process writes; this one hears of it.
    table.set('a', before + 1)
    await cache.publish(versionOf('a', before + 1))
    const later = cache.load('a')
    const neighbour = cache.load('b')
    await begun(2)
    statements[0]?.response()
    await Promise.all(first)
    statements[1]?.response()
    t.equal((await later)?.version, before + 1, 'a reader after the write')
    t.equal((await neighbour)?.version, 1)
    t.same(statements.map(({ ids }) => ids), [['a', 'b'], ['a']], 'one flight for the other document')
  }
})

t.test('a lost connection is a 503 for one batch only', async (t) => {
  const base = await testSettings(t)
  const url = base.DATABASE_URL as string
  const proxy = await createProxy(t, url)
  const { settings, create } = await world(t, base)
  const ids = (await create(numbered(20))).map(({ public_id: id }) => id)
  const reader = await buildTestApp(t, { ...settings, DATABASE_URL: proxy.url })
  const locker = await lockDocuments(t, url)
  const reads = readAll(reader, ids)
  await untilBlocked(url, 1)
  proxy.disconnect()
  const responses = await reads
  t.same([...new Set(responses.map(({ statusCode }) => statusCode))], [503])
  await locker.query('COMMIT')
  t.same((await readAll(reader, ids)).map(({ body }) => body), numbered(20))
})

t.test('a slow statement is a 503 for one batch only', async (t) => {
  const base = await testSettings(t)
  const url = base.DATABASE_URL as string
  const { settings, create } = await world(t, base)
  const ids = (await create(numbered(20))).map(({ public_id: id }) => id)
  const reader = await buildTestApp(t, { ...settings, DATABASE_TIMEOUT_MS: '1000' })
  const locker = await lockDocuments(t, url)
  const first = readAll(reader, ids.slice(0, 5))
  await untilBlocked(url, 1)
  // More batches than may be under way at the same time.
  const others = []
  for (const id of ids.slice(5, 10)) {
    others.push(read(reader, id))
    await turn()
    await turn()
  }
  await untilBlocked(url, 3) // the first batches hold up no later ones
  const responses = [...await first, ...await Promise.all(others)]
  t.same([...new Set(responses.map(({ statusCode }) => statusCode))], [503])
  await locker.query('COMMIT')
  t.same((await readAll(reader, ids)).map(({ body }) => body), numbered(20))
})
