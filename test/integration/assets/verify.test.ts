import t from 'tap'
import { verifyService } from '../../../src/cli/backup/verify.ts'
import { sweep } from '../../../src/modules/assets/cleanup.ts'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { query } from '../../helpers/servers.ts'
import { backstage, onEachStore } from '../../helpers/stores.ts'

// What `landfall verify` says about files without a row is what the service does with them.

const ANY_AGE = -2000

onEachStore('files without a row count as leftovers where the service removes them', async (t, build) => {
  const app = await build(t)
  const look = backstage(app)
  await upload(app, await signUp(app), PNG)
  await look.put(newStorageKey('.png'), 'x')
  const { database: elsewhere, config: { DATABASE_URL } } = await buildTestApp(t)

  for (const isMarked of [true, false]) {
    if (!isMarked) await look.forgetOwner()
    const wrong = await verifyService({ ...app.config, DATABASE_URL })
    t.match(wrong.foreignReason, /belongs to another database/)
    t.equal(wrong.problems.length, 2, 'all files are listed')
    await t.rejects(sweep(elsewhere, app.files, ANY_AGE), new Error(wrong.foreignReason))
    t.match(await verifyService(app.config), { foreignReason: undefined, unfinished: 1, problems: [] })
  }
  t.match(await sweep(app.database, app.files, ANY_AGE), { unreferenced: 1 })
  t.match(await verifyService(app.config), { unfinished: 0, problems: [] })
})

t.test('a standby has the files of its primary', async (t) => {
  const app = await buildTestApp(t)
  const look = backstage(app)
  await upload(app, await signUp(app), PNG)
  const stray = newStorageKey('.png')
  await look.put(stray, 'x')
  await app.close()

  // The database says that it is a standby; a real one would need a second server with another wal_level.
  await query(
    app.config.DATABASE_URL as string,
    `CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true';
    DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
    END $$`
  )
  t.match(await verifyService(app.config), { foreignReason: undefined, unfinished: 1, problems: [] })
  await look.put('.database', 'another database')
  t.match(await verifyService(app.config), {
    foreignReason: /belongs to another database/,
    problems: [{ key: stray, kind: 'no row' }]
  })
})
