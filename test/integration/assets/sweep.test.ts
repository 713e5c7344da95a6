import { execFileSync } from 'node:child_process'
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import t from 'tap'
import { DiskStore } from '../../../src/modules/assets/storage/disk-store.ts'
import { openFileStore } from '../../../src/modules/assets/storage/plugin.ts'
import { claimFiles, sweep } from '../../../src/modules/assets/cleanup.ts'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, signUp, testSettings } from '../../helpers/app.ts'
import { provide } from '../../shared/programs.ts'
import { createDatabase } from '../../helpers/servers.ts'
import { pathOf, PNG, upload } from '../../helpers/assets.ts'
import { backstage, onEachStore, stored } from '../../helpers/stores.ts'

/** Sweeps files of any age. Negative, because some storages round times up to seconds. */
const NOW = -2000
const NOTHING = { unfinished: 0, unreferenced: 0, variants: 0 }

onEachStore('the sweep removes only the files that a crash left behind', async (t, build) => {
  const app = await build(t)
  const look = backstage(app)
  const asset = (await upload(app, await signUp(app), PNG)).json()
  const key = pathOf(asset).slice('/uploads/'.length)

  await look.leaveUnfinished(newStorageKey(''))
  for (const name of [newStorageKey('image/png'), newStorageKey('text/html')]) await look.put(name, 'x')
  const foreign = [
    ...['.gitkeep', 'README.md', 'lost+found', `${randomPublicId()}.html`, `${randomPublicId()}.bak`],
    randomPublicId().slice(1)
  ]
  for (const name of foreign) await look.put(name, 'x')

  const young = 'young files are kept, because another replica may be using them'
  t.strictSame(await sweep(app.database, app.files), NOTHING, young)
  t.strictSame(await sweep(app.database, app.files, NOW), { unfinished: 1, unreferenced: 2, variants: 0 })
  t.strictSame(await sweep(app.database, app.files, NOW), NOTHING)
  const left = await stored(app)
  t.strictSame(left.published.sort(), [key, ...foreign].sort())
  t.strictSame(left.temporary, [])
  t.ok((await look.bytes(key)).equals(PNG))
})

t.test('the sweep of a folder keeps subfolders, symbolic links and unknown temporary files', async (t) => {
  const app = await buildTestApp(t)
  const folder = app.config.UPLOADS_DIR
  const [directory, link] = [randomPublicId(), newStorageKey('image/png')]
  await writeFile(join(folder, '.tmp', 'notes.txt'), 'x')
  await mkdir(join(folder, directory))
  await symlink('/etc/passwd', join(folder, link))
  t.strictSame(await sweep(app.database, app.files, NOW), NOTHING)
  const left = await stored(app)
  t.strictSame(left.published.sort(), [directory, link].sort())
  t.strictSame(left.temporary, ['notes.txt'])
})

t.test('the sweep keeps a new file whose modification time is old', async (t) => {
  const app = await buildTestApp(t)
  const key = newStorageKey('image/png')
  await writeFile(join(app.config.UPLOADS_DIR, key), 'x')
  await utimes(join(app.config.UPLOADS_DIR, key), 0, 0)
  t.strictSame(await sweep(app.database, app.files), NOTHING)
})

onEachStore('the sweep does not remove files that belong to another database', async (t, build) => {
  const app = await build(t)
  const look = backstage(app)
  const asset = (await upload(app, await signUp(app), PNG)).json()
  t.strictSame(await sweep(app.database, app.files, NOW), NOTHING)

  const { database: empty } = await buildTestApp(t)
  await look.leaveUnfinished(newStorageKey(''))
  await t.rejects(sweep(empty, app.files, NOW), {
    message:
      `${app.files.place} belongs to another database: files without a row in this one are not removed. ` +
      'Give each database uploads of its own. If this database was moved, remove .database from there'
  })
  t.strictSame((await stored(app)).temporary, [], 'unfinished uploads belong to no database and are removed')
  t.equal((await app.inject(pathOf(asset))).statusCode, 200)

  await look.forgetOwner()
  const unknown = 'files without a recorded owner are not removed either'
  await t.rejects(sweep(empty, app.files, NOW), { message: /belongs to another database/ }, unknown)
  t.equal((await app.inject(pathOf(asset))).statusCode, 200)
  t.strictSame(await sweep(app.database, app.files, NOW), NOTHING)
})

t.test('an empty store that belonged to another database can be claimed', async (t) => {
  const [first, second] = [await buildTestApp(t), await buildTestApp(t)]
  t.equal(await claimFiles(second.database, first.files), true)
  t.equal(await claimFiles(first.database, first.files), true)
  await upload(first, await signUp(first), PNG)
  t.equal(await claimFiles(second.database, first.files), false)
})

t.test('a copied database owns no files until the owner file is removed', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  await upload(app, account, PNG)
  const copy = await createDatabase(t)
  const postgres = provide('postgres') // the same version as the server
  execFileSync('bash', ['-c', 'set -o pipefail; pg_dump "$FROM" | psql -q "$TO"'], {
    env: { PATH: `${postgres}${delimiter}${process.env.PATH}`, FROM: app.config.DATABASE_URL, TO: copy },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  const later = pathOf((await upload(app, account, PNG)).json())
  const lines: string[] = []
  const settings = { ...await testSettings(t), DATABASE_URL: copy, UPLOADS_DIR: app.config.UPLOADS_DIR }
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const second = await buildTestApp(t, settings, logger)
  t.match(lines.join(''), /UPLOADS_DIR \S+ belongs to another database/, 'the start logs a warning')
  await t.rejects(sweep(second.database, second.files, NOW), { message: /belongs to another database/ })
  t.equal((await app.inject(later)).statusCode, 200)

  // The operator confirms that the database has moved.
  await backstage(app).forgetOwner()
  t.match(await sweep(second.database, second.files, NOW), { unfinished: 0, unreferenced: 1 })
  await t.rejects(removeAll(app), { message: /belongs to another database/ })
})

onEachStore('an empty store that is reserved for a restore has no owner', async (t, build) => {
  const app = await build(t)
  const look = backstage(app)
  const key = newStorageKey('')
  await look.put(key, 'x')
  await app.close()
  const store = await openFileStore(app.config, app.log)
  t.teardown(() => store.close())
  const owner = await store.owner()
  t.type(owner, 'string')
  t.equal(await store.prepareRestore(), undefined, 'a store with files cannot be restored into')
  t.equal(await store.owner(), owner)
  await store.remove(key)
  t.ok(await store.prepareRestore())
  t.equal(await store.owner(), undefined)
})

t.test('the sweep ignores a missing folder and removes nothing when the database query fails', async (t) => {
  const app = await buildTestApp(t)
  const missing = new DiskStore(join(app.config.UPLOADS_DIR, 'nothing'), app.log)
  t.strictSame(await sweep(app.database, missing, NOW), NOTHING)
  const key = newStorageKey('')
  await writeFile(join(app.config.UPLOADS_DIR, key), 'x')
  await app.database.$executeRaw`ALTER TABLE assets RENAME TO assets_away`
  await t.rejects(sweep(app.database, app.files, NOW))
  t.ok((await stored(app)).published.includes(key), 'no file is removed when the database query fails')
})

/** Deletes all rows, so that the sweep has files to remove. */
async function removeAll (app: FastifyInstance) {
  await app.database.asset.deleteMany()
  return await sweep(app.database, app.files, NOW)
}
