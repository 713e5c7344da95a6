import { chmod, open, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import Fastify from 'fastify'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import t from 'tap'
import { startAssetSweep } from '../../../src/modules/assets/cleanup.ts'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { until } from '../../helpers/until.ts'
import { stored } from '../../helpers/stores.ts'

t.test('an upload syncs the file before it is published, and the folder before the row is inserted', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const probe = await open(join(app.config.UPLOADS_DIR, '.tmp', 'probe'), 'wx')
  const FileHandle = Object.getPrototypeOf(probe) as { sync: (this: typeof probe) => Promise<void> }
  await probe.close()
  await rename(join(app.config.UPLOADS_DIR, '.tmp', 'probe'), join(app.config.UPLOADS_DIR, 'probe'))
  const { sync } = FileHandle
  const steps: unknown[] = []
  t.teardown(() => {
    FileHandle.sync = sync
  })
  FileHandle.sync = async function () {
    const stats = await this.stat()
    const { published, temporary } = await stored(app)
    steps.push({
      what: stats.isDirectory() ? 'folder' : 'file',
      bytes: stats.isDirectory() ? undefined : stats.size,
      temporary: temporary.length,
      published: published.length - 1,
      rows: await app.database.asset.count()
    })
    await sync.call(this)
  }
  t.equal((await upload(app, account, PNG)).statusCode, 201)
  t.same(steps, [
    { what: 'file', bytes: PNG.length, temporary: 1, published: 0, rows: 0 },
    { what: 'folder', bytes: undefined, temporary: 0, published: 1, rows: 0 }
  ])
  t.equal(await app.database.asset.count(), 1)
})

t.test('only the user of the service can list a folder for uploads that it creates; others keep their mode', async (t) => {
  const first = await buildTestApp(t)
  const { UPLOADS_DIR, DATABASE_URL } = first.config
  const folder = join(UPLOADS_DIR, 'missing/too')
  const umask = process.umask(0o022)
  t.teardown(() => process.umask(umask))
  const lines: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const modeAfterStart = async () => {
    await buildTestApp(t, { settings: { UPLOADS_DIR: folder, DATABASE_URL }, logger })
    return (await stat(folder)).mode & 0o777
  }
  t.equal(await modeAfterStart(), 0o700)
  t.equal((await stat(dirname(folder))).mode & 0o777, 0o755, 'its parent folder is like any other')
  await chmod(folder, 0o711)
  t.equal(await modeAfterStart(), 0o711)
  t.same(lines, [])
  await chmod(folder, 0o755)
  t.equal(await modeAfterStart(), 0o755)
  t.equal(lines.length, 1)
  t.match(lines[0], /Other users can list UPLOADS_DIR \S+missing\/too\. Set its mode to 0700/)
  await rm(UPLOADS_DIR, { recursive: true })
  t.equal((await upload(first, await signUp(first), PNG)).statusCode, 201)
  t.equal((await stat(UPLOADS_DIR)).mode & 0o777, 0o700, 'removed while the service runs')
  t.equal((await stat(join(UPLOADS_DIR, '.tmp'))).mode & 0o777, 0o700)
})

t.test('the service sweeps at its start and keeps files younger than an hour', async (t) => {
  const first = await buildTestApp(t)
  const folder = first.config.UPLOADS_DIR
  const [key, unfinished] = [newStorageKey('image/png'), randomPublicId()]
  await writeFile(join(folder, key), 'x')
  await writeFile(join(folder, '.tmp', unfinished), 'x')
  const settings = { UPLOADS_DIR: folder, DATABASE_URL: first.config.DATABASE_URL }
  const clock = Date.now
  const later = { by: 59 * 60_000 }
  t.intercept(Date, 'now', { value: () => clock() + later.by })
  const small = Fastify()
  small.decorate('config', first.config).decorate('database', first.database).decorate('files', first.files)
    .decorate('metrics', new Registry())
  await startAssetSweep(small)
  await small.close()
  t.same(await stored(first), { published: [key], temporary: [unfinished] })
  later.by = 61 * 60_000
  await buildTestApp(t, { settings })
  await until(async () => {
    const { published, temporary } = await stored(first)
    return published.length + temporary.length === 0
  }, 'both files are removed')
})

t.test('the service repeats the sweep, by default every hour', async (t) => {
  const app = await buildTestApp(t)
  const timers = t.capture(globalThis, 'setInterval', setInterval)
  const small = Fastify()
  t.teardown(async () => await small.close())
  small.decorate('config', app.config).decorate('database', app.database).decorate('files', app.files)
    .decorate('metrics', new Registry())
  await startAssetSweep(small, { minAgeMs: 0 })
  const [timer] = timers()
  t.equal(timer?.args[1], 3_600_000)
  for (let round = 0; round < 2; round++) {
    const key = newStorageKey('')
    await writeFile(join(app.config.UPLOADS_DIR, key), 'x')
    await utimes(join(app.config.UPLOADS_DIR, key), 0, 0)
    ;(timer?.args[0] as () => void)()
    await until(async () => (await stored(app)).published.length === 0, 'the file is removed')
  }
})
