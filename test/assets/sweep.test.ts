import { mkdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { DiskStore } from '../../src/assets/disk-store.ts'
import { removeUnlessReferenced, startAssetSweep, sweep } from '../../src/assets/sweep.ts'
import { newStorageKey } from '../../src/assets/storage-key.ts'
import { randomPublicId } from '../../src/identifiers.ts'
import { buildTestApp, listen, signUp } from '../helpers/app.ts'
import { file, noise, partHead, pathOf, PNG, RawClient, stored, upload } from './helpers.ts'

const NOW = { unfinishedAgeMs: 0, unreferencedAgeMs: 0 }

t.test('what a crash leaves goes, and nothing else', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const folder = app.config.UPLOADS_DIR
  const store = new DiskStore(folder, app.log)
  const asset = (await upload(app, account, PNG)).json()
  const key = pathOf(asset).slice('/uploads/'.length)

  const unfinished = randomPublicId()
  const unreferenced = [newStorageKey('image/png'), newStorageKey('text/html')]
  await writeFile(join(folder, '.tmp', unfinished), 'x')
  for (const name of unreferenced) await writeFile(join(folder, name), 'x')
  const foreign = ['.gitkeep', 'README.md', 'lost+found', `${randomPublicId()}.html`, `${randomPublicId()}.bak`, randomPublicId().slice(1)]
  for (const name of foreign) await writeFile(join(folder, name), 'x')
  await writeFile(join(folder, '.tmp', 'notes.txt'), 'x')
  const directory = randomPublicId()
  await mkdir(join(folder, directory))
  const link = newStorageKey('image/png')
  await symlink(join(folder, key), join(folder, link))

  t.strictSame(await sweep(app.database, store), { unfinished: 0, unreferenced: 0 }, 'what is young may be at work in another replica')
  t.strictSame(await sweep(app.database, store, NOW), { unfinished: 1, unreferenced: 2 })
  t.strictSame(await sweep(app.database, store, NOW), { unfinished: 0, unreferenced: 0 })
  const left = await stored(app)
  t.strictSame(left.published.sort(), [key, directory, link, ...foreign].sort())
  t.strictSame(left.temporary, ['notes.txt'])
  t.ok((await readFile(join(folder, key))).equals(PNG))
})

t.test('old times on a file that has just come do not count', async (t) => {
  const app = await buildTestApp(t)
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  const key = newStorageKey('image/png')
  await writeFile(join(store.folder, key), 'x')
  await utimes(join(store.folder, key), 0, 0)
  t.strictSame(await sweep(app.database, store), { unfinished: 0, unreferenced: 0 })
})

t.test('the row is asked for again right before a file goes', async (t) => {
  const app = await buildTestApp(t)
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  const key = pathOf((await upload(app, await signUp(app), PNG)).json()).slice('/uploads/'.length)
  t.notOk(await removeUnlessReferenced(app.database, store, key), 'its row may have come since the batch was looked up')
  await app.database.asset.deleteMany()
  t.ok(await removeUnlessReferenced(app.database, store, key))
  t.notOk(await removeUnlessReferenced(app.database, store, key))
  t.strictSame(await stored(app), { published: [], temporary: [] })
})

t.test('the files of a deleted user go', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  await upload(app, account, PNG)
  await app.database.user.delete({ where: { id: account.user.id } })
  t.strictSame(await sweep(app.database, new DiskStore(app.config.UPLOADS_DIR, app.log), NOW), { unfinished: 0, unreferenced: 1 })
})

t.test('uploads under way in another replica are spared while their bytes come', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const raw = new RawClient(await listen(app))
  t.teardown(() => raw.socket.destroy())
  const content = noise(200_000)
  const head = partHead(file(''))
  const tail = Buffer.from('\r\n--landfall-test-boundary--\r\n')
  raw.head(account, { 'content-length': `${head.length + content.length + tail.length}` })
  raw.write(head)
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  for (let at = 0; at < content.length; at += 20_000) {
    raw.write(content.subarray(at, at + 20_000))
    await new Promise((resolve) => setTimeout(resolve, 150))
    t.strictSame(await sweep(app.database, store, { unfinishedAgeMs: 1000, unreferencedAgeMs: 1000 }), { unfinished: 0, unreferenced: 0 })
  }
  raw.write(tail)
  t.equal((await raw.answer()).status, 201, 'though it took longer than the limit')
})

t.test('a folder of thousands', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const { UPLOADS_DIR } = app.config
  const kept = Array.from({ length: 1100 }, () => newStorageKey('image/png'))
  await app.database.asset.createMany({
    data: kept.map((storageKey) => ({ userId: account.user.id, storageKey, filename: 'x', contentType: 'image/png', byteSize: 1n, checksum: 'x' }))
  })
  for (const key of [...kept, ...Array.from({ length: 1100 }, () => newStorageKey('image/gif'))]) await writeFile(join(UPLOADS_DIR, key), 'x')
  t.strictSame(await sweep(app.database, new DiskStore(UPLOADS_DIR, app.log), NOW), { unfinished: 0, unreferenced: 1100 })
  t.strictSame((await stored(app)).published.sort(), kept.sort())
})

t.test('two replicas sweep at once, and uploads go on', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  for (let index = 0; index < 300; index++) await writeFile(join(store.folder, newStorageKey('')), 'x')
  const ages = { unfinishedAgeMs: 5000, unreferencedAgeMs: 0 }
  await new Promise((resolve) => setTimeout(resolve, 20))
  const [first, second, ...uploads] = await Promise.all([
    sweep(app.database, store, ages), sweep(app.database, store, ages),
    ...Array.from({ length: 5 }, async () => await upload(app, account, PNG))
  ])
  t.ok(first.unreferenced + second.unreferenced >= 300)
  t.ok(uploads.every((response) => response.statusCode === 201))
})

t.test('a folder that is gone is no error, and neither is a database that is', async (t) => {
  const app = await buildTestApp(t)
  t.strictSame(await sweep(app.database, new DiskStore(join(app.config.UPLOADS_DIR, 'nothing'), app.log), NOW), { unfinished: 0, unreferenced: 0 })
  const key = newStorageKey('')
  await writeFile(join(app.config.UPLOADS_DIR, key), 'x')
  await app.database.$executeRaw`ALTER TABLE assets RENAME TO assets_away`
  await sweepOnceLike(app)
  t.ok((await stored(app)).published.includes(key), 'nothing is removed without the word of the database')
})

t.test('it comes at start, spares what is young, and ends with the app', async (t) => {
  const first = await buildTestApp(t)
  const key = newStorageKey('')
  await writeFile(join(first.config.UPLOADS_DIR, key), 'x')
  const second = await buildTestApp(t, { settings: { UPLOADS_DIR: first.config.UPLOADS_DIR, DATABASE_URL: first.config.DATABASE_URL } })
  t.ok((await stored(second)).published.includes(key))
  await sweepOnceLike(first)
  t.notOk((await stored(first)).published.includes(key))
})

/** Runs the background job in a small app of its own until its first sweep is done. */
async function sweepOnceLike (app: FastifyInstance): Promise<void> {
  const small = Fastify()
  small.decorate('config', app.config).decorate('database', app.database)
  await startAssetSweep(small, { ...NOW, intervalMs: 50 })
  await small.close()
}
