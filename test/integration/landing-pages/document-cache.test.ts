import { randomBytes } from 'node:crypto'
import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { DatabaseUnavailableError } from '../../../src/infra/postgres/unavailable.ts'
import { CachedDocument,
  type DocumentVersion } from '../../../src/modules/landing-pages/public/cached-document.ts'
import { DocumentCache,
  type DocumentCacheOptions } from '../../../src/modules/landing-pages/public/document-cache.ts'
import { DELETED } from '../../../src/modules/landing-pages/public/shared-documents.ts'
import { Body } from '../../../src/modules/landing-pages/public/prepared-head.ts'
import { buildTestApp, createPage, signUp } from '../../helpers/app.ts'

// Loads, writes and messages in every order, step by step. replicas.test.ts tests them as real races.

const ID = 'A'.repeat(22)
const GONE = { publicId: ID, version: DELETED }
const documentOf = (version: number, text = `{"v":${version}}`, publicId = ID): DocumentVersion => ({
  publicId,
  version,
  hash: String(version).padEnd(43, 'x'),
  updatedAt: new Date(version),
  body: new Body(text)
})
const cacheOf = (options: Partial<DocumentCacheOptions>) =>
  new DocumentCache({
    maxBytes: 1e6,
    maxStaleMs: 0,
    read: async () => undefined,
    hearsAllWrites: () => true,
    ...options
  })
const versionIn = (cache: DocumentCache): number | null | undefined => {
  const held = cache.get(ID, 0)
  return held instanceof CachedDocument ? held.version : held
}

/** Returns a database read that waits for the test to provide its response. */
function controlledRead () {
  const responses: ((document: DocumentVersion | undefined) => void)[] = []
  return {
    responses,
    read: async () =>
      await new Promise<DocumentVersion | undefined>((resolve) => {
        responses.push(resolve)
      }),
    asked: async (times: number) => {
      while (responses.length < times) await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

t.test('a load that began before a write or a deletion does not undo it', async (t) => {
  for (const maxBytes of [1e6, 0]) {
    const { responses, read, asked } = controlledRead()
    const cache = cacheOf({ read, maxBytes })
    const overtaken = cache.load(ID)
    await asked(1)
    await cache.publish(documentOf(2))
    responses[0]?.(documentOf(1))
    if (maxBytes === 0) {
      // Without a cache, the load that began before the write returns its own result. Later calls must
      // start another load.
      const later = cache.load(ID)
      await asked(2)
      responses[1]?.(documentOf(2))
      t.equal((await overtaken)?.version, 1)
      t.equal((await later)?.version, 2)
    } else {
      t.equal((await overtaken)?.version, 2)
    }

    const { responses: more, read: readAgain, asked: askedAgain } = controlledRead()
    const other = cacheOf({ read: readAgain, maxBytes })
    const deleted = other.load(ID)
    await askedAgain(1)
    await other.publish(GONE)
    more[0]?.(documentOf(1))
    t.equal(await deleted, undefined)
    t.equal(versionIn(other), null, 'the tombstone stays')
  }
})

t.test('a write published after a newer version or a deletion is not cached', async (t) => {
  for (const newer of [documentOf(3), GONE]) {
    const cache = cacheOf({})
    await cache.publish(newer)
    if (newer !== GONE) { for (let n = 0; n < 20; n++) await cache.publish(documentOf(4 + n)) }
    await cache.publish(documentOf(2))
    t.equal(versionIn(cache), newer === GONE ? null : 23)
  }
  const small = cacheOf({ maxBytes: 1, read: async () => documentOf(3) })
  t.equal((await small.load(ID))?.version, 3)
  await small.publish(documentOf(2))
  t.equal(versionIn(small), undefined, 'a loaded version counts even after its eviction')

  const gone = cacheOf({})
  t.equal(await gone.load(ID), undefined)
  await gone.publish(documentOf(2))
  t.equal(versionIn(gone), null)
})

t.test('what began before expireAll() answers its callers but is not cached', async (t) => {
  const { responses, read, asked } = controlledRead()
  const cache = cacheOf({ read })
  let now = clock.now()
  replaceClock(t, () => now)
  const startedAt = now
  const loading = cache.load(ID)
  await asked(1)
  now += 10
  cache.expireAll()
  responses[0]?.(documentOf(1))
  t.equal((await loading)?.version, 1)
  t.equal(versionIn(cache), undefined)
  await cache.publish(documentOf(2), startedAt)
  t.equal(cache.get(ID, now), undefined)
  await cache.publish(documentOf(3), now)
  t.equal(versionIn(cache), 3)
})

t.test('the cache budget counts all encodings of a document', async (t) => {
  // Random hexadecimal digits can't be compressed to less than half of their 30 KB.
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '1000', CACHE_MAX_BYTES: String(3 * 33_000) })
  const owner = await signUp(app)
  const pages: string[] = []
  for (let n = 0; n < 3; n++) {
    const document = JSON.stringify([randomBytes(15_000).toString('hex')])
    pages.push((await createPage(app, owner, document)).public_id)
  }
  const held = () => pages.map((publicId) => app.documents.get(publicId, 0) instanceof CachedDocument)
  t.same(held(), [true, true, true])
  for (const encoding of ['br', 'gzip']) {
    await app.inject({ url: `/landing_pages/${pages[2]}`, headers: { 'accept-encoding': encoding } })
  }
  t.equal(held()[2], true)
  t.ok(held().includes(false), 'older entries are evicted')
  pages.push((await createPage(app, owner, JSON.stringify(['x'.repeat(100_000)]))).public_id)
  t.equal(held()[3], false, 'larger than the whole budget')
  t.equal((await app.inject(`/landing_pages/${pages[3]}`)).statusCode, 200, 'but it is served')
})

t.test('while PostgreSQL is known to be down, copies are served at once and one read probes it', async (t) => {
  const { responses, read } = controlledRead()
  let reads = 0
  const cache = cacheOf({
    maxStaleMs: 60_000,
    read: async () => {
      if (++reads === 1) throw new DatabaseUnavailableError('away')
      return await read()
    }
  })
  await cache.publish(documentOf(1))
  cache.expireAll()
  t.equal((await cache.load(ID))?.version, 1, 'the first call reads from PostgreSQL')
  for (let n = 0; n < 20; n++) t.equal((await cache.load(ID))?.version, 1)
  while (responses.length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.equal(reads, 2, 'only one more read is running')
  responses[0]?.(documentOf(2))
  while (versionIn(cache) !== 2) await new Promise((resolve) => setImmediate(resolve))
  const now = clock.now()
  t.notOk(cache.isStale(cache.get(ID, now) as CachedDocument, now))
})

t.test('the age of a copy counts from the start of its load', async (t) => {
  const { responses, read, asked } = controlledRead()
  const cache = cacheOf({ read })
  let now = clock.now()
  replaceClock(t, () => now)
  const loading = cache.load(ID)
  await asked(1)
  const start = now
  now += 5000
  responses[0]?.(documentOf(1))
  t.equal((await loading)?.knownAt, start)
  t.equal(cache.get(ID, start + 59_999), await loading)
  t.equal(cache.get(ID, start + 60_000), undefined)
})

t.test('the overhead of entries counts, so that many small documents stay within the budget', async (t) => {
  const cache = cacheOf({ maxBytes: 100 * 1024 })
  const ids = Array.from({ length: 1000 }, (_, n) => String(n).padStart(22, '0'))
  for (const publicId of ids) await cache.publish(documentOf(1, '[]', publicId))
  const held = ids.filter((publicId) => cache.get(publicId, 0) instanceof CachedDocument).length
  t.ok(held > 40 && held < 100, `${held} are cached`)
})
