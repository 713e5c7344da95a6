import { randomBytes, randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import t from 'tap'
import { clock } from '../../src/clock.ts'
import { DatabaseUnavailableError } from '../../src/database/unavailable.ts'
import { CachedDocument, type DocumentVersion } from '../../src/landing-pages/cached-document.ts'
import { DocumentCache, type DocumentCacheOptions } from '../../src/landing-pages/document-cache.ts'
import { DOCUMENT_SCRIPTS, SharedDocuments } from '../../src/landing-pages/shared-documents.ts'
import { SharedRedis } from '../../src/plugins/redis.ts'
import { buildTestApp, createPage, signUp, testSettings } from '../helpers/app.ts'
import { claimRedis, createProxy, startRedisServer } from '../helpers/servers.ts'
import { until } from '../helpers/until.ts'

// What may overtake what, step by step; test/landing-pages/replicas.test.ts has the same by chance and on real races.

const ID = 'A'.repeat(22)
const documentOf = (version: number, text = `{"v":${version}}`, publicId = ID): DocumentVersion =>
  ({ publicId, version, hash: String(version).padEnd(43, 'x'), updatedAt: new Date(version), bytes: Buffer.from(text) })
const silent = { level: 'silent', fatal () {}, error () {}, warn () {}, info () {}, debug () {}, trace () {}, silent () {}, child: () => silent } as unknown as FastifyBaseLogger
const cacheOf = (options: Partial<DocumentCacheOptions>) =>
  new DocumentCache({ maxBytes: 1e6, maxStaleMs: 0, read: async () => undefined, hearsAllWrites: () => true, ...options })
const versionIn = (cache: DocumentCache): number | null | undefined => {
  const held = cache.get(ID, 0)
  return held instanceof CachedDocument ? held.version : held
}

/** A read of the database that answers when it is told to. */
function heldBack () {
  const answers: ((document: DocumentVersion | undefined) => void)[] = []
  return {
    answers,
    read: async () => await new Promise<DocumentVersion | undefined>((resolve) => { answers.push(resolve) }),
    asked: async (times: number) => { while (answers.length < times) await new Promise((resolve) => setImmediate(resolve)) }
  }
}

t.test('a publication that comes late replaces nothing newer', async (t) => {
  const cache = cacheOf({})
  await cache.publish(ID, documentOf(3))
  await cache.publish(ID, documentOf(2))
  t.equal(versionIn(cache), 3)
  await cache.publish(ID, undefined)
  t.equal(versionIn(cache), null)
})

t.test('what a read brings that one write has overtaken is not kept: another write may have come unheard', async (t) => {
  const channel = `test:${randomUUID()}`
  const redis = new SharedRedis(await claimRedis(t), { channels: [channel], scripts: DOCUMENT_SCRIPTS }, silent)
  t.teardown(() => redis.close())
  await redis.start()
  const heard: string[] = []
  const { answers, read, asked } = heldBack()
  const cache = cacheOf({ read, shared: new SharedDocuments(redis, channel) })
  redis.on('message', (_channel, message) => { heard.push(message) })
  const overtaken = cache.load(ID)
  await asked(1)
  for (const version of [2, 3]) await redis.commands.publish(channel, `${ID} ${version}`)
  while (heard.length < 2) await new Promise((resolve) => setImmediate(resolve))
  answers[0]?.(documentOf(2))
  t.equal((await overtaken)?.version, 2)
  t.equal(versionIn(cache), undefined)
})

t.test('a read that a write or a deletion overtakes is not used', async (t) => {
  for (const maxBytes of [1e6, 0]) {
    const { answers, read, asked } = heldBack()
    const cache = cacheOf({ read, maxBytes })
    const overtaken = cache.load(ID)
    await asked(1)
    await cache.publish(ID, documentOf(2))
    answers[0]?.(documentOf(1))
    if (maxBytes === 0) {
      // Without a cache there is nothing newer at hand for a read that began before the write; one that begins later
      // must not join it.
      const later = cache.load(ID)
      await asked(2)
      answers[1]?.(documentOf(2))
      t.equal((await overtaken)?.version, 1)
      t.equal((await later)?.version, 2)
    } else {
      t.equal((await overtaken)?.version, 2)
    }

    const { answers: more, read: readAgain, asked: askedAgain } = heldBack()
    const other = cacheOf({ read: readAgain, maxBytes })
    const deleted = other.load(ID)
    await askedAgain(1)
    await other.publish(ID, undefined)
    more[0]?.(documentOf(1))
    t.equal(await deleted, undefined)
    t.equal(versionIn(other), null, 'and it stays so')
  }
})

t.test('a write whose answer comes after the news of a newer one, or of the deletion, is not kept', async (t) => {
  for (const newer of [documentOf(3), undefined]) {
    const cache = cacheOf({ read: async () => newer })
    await cache.publish(ID, newer)
    if (newer !== undefined) for (let n = 0; n < 20; n++) await cache.publish(ID, documentOf(4 + n)) // it is long gone
    await cache.publish(ID, documentOf(2))
    t.equal(versionIn(cache), newer === undefined ? null : 23)
  }
  const small = cacheOf({ maxBytes: 1, read: async () => documentOf(3) })
  t.equal((await small.load(ID))?.version, 3)
  await small.publish(ID, documentOf(2))
  t.equal(versionIn(small), undefined, 'what was loaded counts, too, though it is no longer held')

  const gone = cacheOf({})
  t.equal(await gone.load(ID), undefined)
  await gone.publish(ID, documentOf(2))
  t.equal(versionIn(gone), null)
})

t.test('a write during which others may have gone unheard is not trusted', async (t) => {
  const cache = cacheOf({})
  let now = clock.now()
  t.intercept(clock, 'now', { value: () => now })
  const startedAt = now
  now += 10
  cache.expireAll()
  await cache.publish(ID, documentOf(2), startedAt)
  t.equal(cache.get(ID, now), undefined)
  await cache.publish(ID, documentOf(3), now)
  t.equal(versionIn(cache), 3)
})

t.test('a read may be ahead of the news: what it brings stays, and no read that began before it is joined', async (t) => {
  const { answers, read, asked } = heldBack()
  const cache = cacheOf({ read })
  const ahead = cache.load(ID)
  await asked(1)
  await cache.publish(ID, documentOf(5))
  const behind = cache.load(ID)
  await asked(2)
  answers[0]?.(documentOf(6))
  t.equal((await ahead)?.version, 6)
  t.equal(versionIn(cache), 6, 'newer than the one that overtook it')
  const later = cache.load(ID)
  await asked(3)
  answers[1]?.(documentOf(5))
  answers[2]?.(documentOf(6))
  t.equal((await behind)?.version, 6)
  t.equal((await later)?.version, 6)
  t.equal(versionIn(cache), 6)
})

t.test('a Redis that holds an older version than was heard of is not believed, nor given one', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const shared = new SharedDocuments(app.shared!, `test:${randomUUID()}`)
  const { answers, read, asked } = heldBack()
  const cache = cacheOf({ maxBytes: 0, shared, read })
  const overtaken = cache.load(ID)
  await asked(1)
  await cache.publish(ID, documentOf(2))
  await app.shared!.commands.flushdb()
  answers[0]?.(documentOf(1))
  t.equal((await overtaken)?.version, 1)
  t.equal(await shared.get(ID), undefined)
  await shared.fill(documentOf(1)) // another replica, which has not heard of it
  const later = cache.load(ID)
  await asked(2)
  answers[1]?.(documentOf(2))
  t.equal((await later)?.version, 2)
})

t.test('what was read before writes went unheard is given to who waits, not kept', async (t) => {
  const { answers, read, asked } = heldBack()
  const cache = cacheOf({ read })
  let now = clock.now()
  t.intercept(clock, 'now', { value: () => now })
  const loading = cache.load(ID)
  await asked(1)
  now += 10
  cache.expireAll()
  answers[0]?.(documentOf(1))
  t.equal((await loading)?.version, 1)
  t.equal(versionIn(cache), undefined)
})

t.test('a database that has lost its last writes is believed, and so are the versions that it gives out again', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const shared = new SharedDocuments(app.shared!, `test:${randomUUID()}`)
  for (const redis of [undefined, shared]) {
    let row = documentOf(5, '{"lost":true}')
    const cache = cacheOf({ read: async () => row, ...(redis !== undefined && { shared: redis }) })
    t.equal((await cache.load(ID))?.version, 5)
    row = documentOf(4)
    await app.shared!.commands.flushdb() // its copy would be believed for a minute
    cache.expireAll()
    t.equal((await cache.load(ID))?.version, 4)
    t.equal(versionIn(cache), 4, 'and kept')

    await shared.publish(ID, documentOf(5, '{"lost":true}'))
    row = { ...documentOf(5, '{"new":true}'), hash: 'y'.repeat(43) }
    await cache.publish(ID, row)
    t.match(cache.get(ID, 0), { hash: row.hash })
    if (redis !== undefined) t.match(await shared.get(ID), { document: { hash: row.hash } })
    const other = cacheOf({ read: async () => documentOf(5, '{"lost":true}') })
    await other.load(ID)
    await other.publish(ID, row)
    t.match(other.get(ID, 0), { hash: row.hash })
  }
})

t.test('one read for all who wait, and one representation per version however often that is read', async (t) => {
  let reads = 0
  const cache = cacheOf({ read: async () => { reads++; return documentOf(1, JSON.stringify('x'.repeat(2000))) } })
  const [first, ...others] = await Promise.all(Array.from({ length: 20 }, async () => await cache.load(ID)))
  t.equal(reads, 1)
  t.ok(others.every((other) => other === first))
  const br = await first?.make('br', cache.compressions)
  cache.expireAll()
  t.equal(cache.get(ID, clock.now()), undefined)
  t.equal((await cache.load(ID))?.ready('br'), br)
  t.equal(reads, 2)
})

t.test('the budget counts every representation', async (t) => {
  // 30 KB of hexadecimal digits, of which no compression makes less than half.
  const app = await buildTestApp(t, { settings: { RATE_LIMIT_PUBLIC: '1000', CACHE_MAX_BYTES: String(3 * 33_000) } })
  const owner = await signUp(app)
  const pages: string[] = []
  for (let n = 0; n < 3; n++) pages.push((await createPage(app, owner, JSON.stringify([randomBytes(15_000).toString('hex')]))).public_id)
  const held = () => pages.map((publicId) => app.documents.get(publicId, 0) instanceof CachedDocument)
  t.same(held(), [true, true, true])
  for (const encoding of ['br', 'gzip']) await app.inject({ url: `/landing_pages/${pages[2]}`, headers: { 'accept-encoding': encoding } })
  t.equal(held()[2], true)
  t.ok(held().includes(false), 'what it grew by is taken from the oldest')
  pages.push((await createPage(app, owner, JSON.stringify(['x'.repeat(100_000)]))).public_id)
  t.equal(held()[3], false, 'larger than the whole budget')
  t.equal((await app.inject(`/landing_pages/${pages[3]}`)).statusCode, 200, 'and read all the same')
})

t.test('while PostgreSQL is known to be away a copy is served without waiting for its answer, and everybody learns when it is back', async (t) => {
  const answers: ((document: DocumentVersion) => void)[] = []
  let reads = 0
  const cache = cacheOf({
    maxStaleMs: 60_000,
    read: async () => {
      if (++reads === 1) throw new DatabaseUnavailableError('away')
      return await new Promise<DocumentVersion>((resolve) => { answers.push(resolve) })
    }
  })
  await cache.publish(ID, documentOf(1))
  cache.expireAll()
  t.equal((await cache.load(ID))?.version, 1, 'the first one asks')
  for (let n = 0; n < 20; n++) t.equal((await cache.load(ID))?.version, 1)
  while (answers.length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.equal(reads, 2, 'and one asks meanwhile')
  answers[0]?.(documentOf(2))
  while (versionIn(cache) !== 2) await new Promise((resolve) => setImmediate(resolve))
  const now = clock.now()
  t.notOk(cache.isStale(cache.get(ID, now) as CachedDocument, now))
})

t.test('a copy is as old as the question that brought it, not as its answer', async (t) => {
  const { answers, read, asked } = heldBack()
  const cache = cacheOf({ read })
  let now = clock.now()
  t.intercept(clock, 'now', { value: () => now })
  const loading = cache.load(ID)
  await asked(1)
  const start = now
  now += 5000
  answers[0]?.(documentOf(1))
  t.equal((await loading)?.knownAt, start)
  t.equal(cache.get(ID, start + 59_999), await loading)
  t.equal(cache.get(ID, start + 60_000), undefined)
})

t.test('guesses: as many ids as are remembered to name nothing are few, and push no document out', async (t) => {
  let reads = 0
  const cache = cacheOf({ maxBytes: 10_000, read: async (publicId) => { reads++; return publicId === ID ? documentOf(1) : undefined } })
  await cache.load(ID)
  const guesses = Array.from({ length: 25_000 }, (_, n) => String(n).padStart(22, '0'))
  for (const guess of guesses) await cache.load(guess)
  const remembered = guesses.filter((guess) => cache.get(guess, clock.now()) === null)
  t.equal(remembered.length, 10_000)
  t.equal(remembered.at(-1), guesses.at(-1), 'the last ones')
  t.equal(versionIn(cache), 1)
  t.equal(reads, 1 + guesses.length)
})

t.test('what an entry costs beside its bytes counts, so that many small documents keep within the budget', async (t) => {
  const cache = cacheOf({ maxBytes: 100 * 1024 })
  const ids = Array.from({ length: 1000 }, (_, n) => String(n).padStart(22, '0'))
  for (const publicId of ids) await cache.publish(publicId, documentOf(1, '[]', publicId))
  const held = ids.filter((publicId) => cache.get(publicId, 0) instanceof CachedDocument).length
  t.ok(held > 40 && held < 100, `${held} are held`)
})

t.test('a document keeps no more memory than it needs: what a driver gives is a part of something larger', (t) => {
  const large = Buffer.alloc(100_000, 'x')
  const { identity } = new CachedDocument({ ...documentOf(1), bytes: large.subarray(10, 20) })
  t.equal(identity.body.bytes.toString(), 'x'.repeat(10))
  t.equal(identity.body.bytes.buffer.byteLength, identity.body.size)
  t.ok(identity.body.size < 2000)
  t.end()
})

t.test("what is loaded from Redis lives as long as Redis' copy, not anew; what is loaded from PostgreSQL is there for others", async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const shared = new SharedDocuments(app.shared!, 'landfall-test')
  let reads = 0
  const read = async () => { reads++; return documentOf(1) }
  const [first, second] = [cacheOf({ shared, read }), cacheOf({ shared, read })]
  t.equal((await first.load(ID))?.version, 1)
  const { commands } = app.shared!
  while (await commands.exists(`landfall:document:${ID}`) === 0) await new Promise((resolve) => setImmediate(resolve))
  await commands.pexpire(`landfall:document:${ID}`, 20_000)
  const now = clock.now()
  t.equal((await second.load(ID))?.version, 1)
  t.equal(reads, 1)
  for (const [later, isServed] of [[10_000, true], [21_000, false]] as const) t.equal(second.get(ID, now + later) instanceof CachedDocument, isServed, `${later} ms later`)
  t.ok(first.get(ID, now + 21_000) instanceof CachedDocument)
})

t.test("Redis' copy: a newer version stays, a deleted document stays deleted, everything ends", async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const documents = new SharedDocuments(app.shared!, 'landfall-test')
  const held = async () => {
    const copy = await documents.get(ID)
    return copy === undefined || copy.deleted ? copy : copy.document.version
  }
  t.equal(await held(), undefined)
  await documents.publish(ID, documentOf(2))
  await documents.fill(documentOf(1))
  t.equal(await held(), 2, 'a late fill')
  await documents.publish(ID, documentOf(1))
  t.equal(await held(), 2, 'a late publication')
  await documents.fill(documentOf(3))
  t.equal(await held(), 3)
  t.equal(await documents.announce(ID, 2), 3, 'a late announcement learns of the newer one')
  t.equal(await held(), 3)
  await documents.announce(ID, 4)
  t.equal(await held(), undefined, 'a version of which only the number is known')
  await documents.fill(documentOf(3))
  t.equal(await held(), undefined, 'what is older is no substitute for it')
  await documents.fill(documentOf(4))
  t.equal(await held(), 4)
  const lives = async () => await app.shared!.commands.pttl(`landfall:document:${ID}`)
  t.ok(await lives() > 0 && await lives() <= 60_000)
  await documents.publish(ID, undefined)
  t.same(await held(), { deleted: true })
  await documents.fill(documentOf(4))
  await documents.publish(ID, documentOf(5))
  t.same(await held(), { deleted: true })
  t.ok(await lives() > 0 && await lives() <= 60_000)
})

t.test('a document that is too large for Redis is known there by its version', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const documents = new SharedDocuments(app.shared!, 'landfall-test')
  const large = (version: number) => documentOf(version, JSON.stringify('x'.repeat(3_000_000)))
  await documents.fill(large(1))
  t.equal(await app.shared!.commands.exists(`landfall:document:${ID}`), 0)
  await documents.publish(ID, documentOf(1))
  t.equal(await documents.publish(ID, large(2)), 2)
  t.equal(await documents.get(ID), undefined, 'neither it nor the one before')
  await documents.fill(documentOf(1))
  t.equal(await documents.get(ID), undefined)
  t.ok(await app.shared!.commands.memory('USAGE', `landfall:document:${ID}`) as number < 1000)
})

t.test('a write that Redis has not heard of is not undone by what Redis holds, and is told later', async (t) => {
  const redis = await startRedisServer(t)
  const proxy = await createProxy(t, redis.url)
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: redis.url } })
  const behind = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: proxy.url } })
  const shared = new SharedDocuments(behind.shared!, 'landfall-test')
  const direct = new SharedDocuments(app.shared!, 'landfall-test')
  const cache = cacheOf({ maxBytes: 0, shared, read: async () => documentOf(2) })
  await cache.publish(ID, documentOf(1))
  await proxy.refuse()
  await cache.publish(ID, documentOf(2))
  await proxy.restore()
  await until(() => behind.shared!.reachable)
  t.match(await direct.get(ID), { document: { version: 1 } }, 'Redis holds the old one')
  t.equal((await cache.load(ID))?.version, 2)
  await cache.publishOutstanding()
  t.match(await direct.get(ID), { document: { version: 2 } })
})

t.test('the channel lost or found again, or commands lost: nothing that was cached before is trusted', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), REDIS_URL: await claimRedis(t) } })
  const page = await createPage(app, await signUp(app))
  const fresh = () => app.documents.get(page.public_id, clock.now()) instanceof CachedDocument
  for (const event of ['unsubscribed', 'subscribed', 'unreachable'] as const) {
    await app.documents.load(page.public_id)
    t.ok(fresh())
    app.shared!.emit(event)
    t.notOk(fresh(), event)
  }
})
