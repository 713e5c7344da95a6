import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createDatabase, query } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { landfall } from '../../helpers/cli.ts'

const STATUS = ['migrate', '--status']
const DRY_RUN = ['migrate', '--dry-run']

t.test('migrate --status lists the state of each migration and exits with 1 unless all are applied', async (t) => {
  const env = { DATABASE_URL: await createDatabase(t) }
  t.match(await landfall(env, STATUS), {
    code: 1,
    stdout: /^MIGRATION +STATE\n\d+_init +pending\n/,
    stderr: ''
  })
  t.match(await landfall(env, DRY_RUN), {
    code: 0,
    stdout: /^-- Migration \d+_init\n[^]*CREATE TABLE/,
    stderr: ''
  })
  t.same(
    await query(env.DATABASE_URL, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'"),
    [],
    'both changed nothing'
  )

  const audit: object[] = []
  t.match(await landfall(env, ['migrate'], { audit }), { code: 0 })
  t.match(audit, [{ command: 'migrate', applied: [/_init$/] }])
  t.match(await landfall(env, DRY_RUN), { code: 0, stdout: 'The database is up to date\n' })
  t.match(await landfall(env, STATUS), { code: 0, stdout: /^MIGRATION +STATE\n(\d+_\w+ +applied\n)+$/ })

  const history = async (set: string) =>
    await query(env.DATABASE_URL, `UPDATE _prisma_migrations SET ${set} WHERE migration_name LIKE '%\\_init'`)
  await history("finished_at = NULL, logs = 'ERROR: disk full'")
  t.match(await landfall(env, STATUS), { code: 1, stdout: /^\d+_init +failed \(ERROR: disk full\)$/m })
  t.match(await landfall(env, DRY_RUN), {
    code: 1,
    stdout: '',
    stderr: /_init was started and did not finish/
  })
  await history("finished_at = now(), checksum = 'x'")
  t.match(await landfall(env, STATUS), { code: 1, stdout: /^\d+_init +edited after it was applied$/m })
  await history('rolled_back_at = now()')
  t.match(await landfall(env, STATUS), { code: 1, stdout: /^\d+_init +pending$/m })
  t.match(await landfall(env, [...STATUS, '--dry-run']), {
    code: 2,
    stdout: '',
    stderr: /cannot be used with option/
  })
})

t.test('migrate --status and --dry-run do not create an embedded database', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
  t.match(await landfall(env, STATUS), { code: 1, stdout: /_init +pending$/m })
  t.match(await landfall(env, DRY_RUN), { code: 0, stdout: /CREATE TABLE/ })
  t.notOk(existsSync(env.DATA_DIR))
})
