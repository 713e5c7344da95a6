import { randomBytes } from 'node:crypto'
import pg from 'pg'
import t from 'tap'
import { applyMigrations, requireMigrated } from '../../../src/infra/postgres/migrate.ts'
import { readMigrations, type Migration } from '../../../src/infra/postgres/migration-repository.ts'
import { MigrationError } from '../../../src/infra/postgres/migration-session.ts'
import { createDatabase, type Teardown } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

const silent = { info () {} }
const LOCK = 72707369

async function connect (test: Teardown, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  test.teardown(async () => await client.end())
  return client
}

/** Returns the first column of what a statement finds. */
const found = async (client: pg.Client, sql: string): Promise<unknown[]> =>
  (await client.query<unknown[]>({ text: sql, rowMode: 'array' })).rows.map(([first]) => first)

const isValid = async (client: pg.Client, index: string): Promise<unknown[]> =>
  await found(client, `SELECT indisvalid FROM pg_index WHERE indexrelid = '${index}'::regclass`)

t.test('a time limit of the role or the database does not end a migration', async (t) => {
  const url = await createDatabase(t)
  const client = await connect(t, url)
  await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET statement_timeout = '250ms'`)
  const slow: Migration = { name: '20260101000000_slow', sql: 'SELECT pg_sleep(0.5)' }
  t.same(await applyMigrations(url, silent, { migrations: [slow] }), [slow.name])
})

t.test('eight processes that start at once on an empty database migrate it exactly once', async (t) => {
  const url = await createDatabase(t)
  const names = (await readMigrations()).map(({ name }) => name)
  const applied = await Promise.all(Array.from({ length: 8 }, async () => await applyMigrations(url, silent)))
  t.same(applied.filter((list) => list.length > 0), [names])
})

t.test('a process waits until another process releases the lock, up to a limit', async (t) => {
  const url = await createDatabase(t)
  const other = await connect(t, url)
  await other.query(`SELECT pg_advisory_lock(${LOCK})`)

  const gaveUp = { name: 'MigrationError', message: /gave up waiting/ }
  await t.rejects(applyMigrations(url, silent, { lockTimeoutMs: 50 }), gaveUp)
  const lines: string[] = []
  let released: Promise<unknown> | undefined
  const info = (line: string) => {
    lines.push(line)
    if (line.includes('waiting')) released = other.query(`SELECT pg_advisory_unlock(${LOCK})`)
  }
  const applied = await applyMigrations(url, { info })
  await released
  t.equal(applied.length, (await readMigrations()).length)
  t.ok(lines.some((line) => /waiting for it/.test(line)))
})

t.test('an up-to-date database is not locked', async (t) => {
  const url = await createDatabase(t)
  await applyMigrations(url, silent)
  await (await connect(t, url)).query(`SELECT pg_advisory_lock(${LOCK})`)
  t.same(await applyMigrations(url, silent, { lockTimeoutMs: 0 }), [])
})

t.test('a migration that builds an index CONCURRENTLY can be applied again after a failure', async (t) => {
  const url = await createDatabase(t)
  const migrations = [
    { name: '20200101000000_table', sql: 'CREATE TABLE notes (id int);' },
    { name: '20200101000001_unique', sql: 'CREATE UNIQUE INDEX CONCURRENTLY notes_unique ON notes (id);' }
  ]
  await applyMigrations(url, silent, { migrations: migrations.slice(0, 1) })
  const client = await connect(t, url)
  await client.query('INSERT INTO notes VALUES (1), (1)')
  const message = 'Migration 20200101000001_unique failed: could not create unique index "notes_unique"'
  await t.rejects(applyMigrations(url, silent, { migrations }), { name: 'MigrationError', message })
  await client.query('DELETE FROM notes')
  t.same(await applyMigrations(url, silent, { migrations }), ['20200101000001_unique'])
  t.same(await isValid(client, 'notes_unique'), [true])
})

t.test('an index whose building was interrupted is built again', async (t) => {
  const url = await createDatabase(t)
  const name = '20200101000001_index'
  const migrations = [
    { name: '20200101000000_table', sql: 'CREATE TABLE notes (id int);' },
    { name, sql: '-- Finds notes.\nCREATE INDEX CONCURRENTLY "notes_id" ON notes (id);' }
  ]
  await applyMigrations(url, silent, { migrations: migrations.slice(0, 1) })
  const reader = await connect(t, url)
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await reader.query('SELECT FROM notes')
  const killer = await connect(t, url)
  const building = applyMigrations(url, silent, { migrations })
  building.catch(() => {})
  const begun = "SELECT true FROM pg_index WHERE indrelid = 'notes'::regclass"
  await until(async () => (await found(killer, begun)).length > 0, 'the index is being built')
  await killer.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'landfall-migrate'`)
  await t.rejects(building, { name: 'MigrationError' })
  await reader.query('COMMIT')
  t.same(await applyMigrations(url, silent, { migrations }), [name])
  t.same(await isValid(killer, 'notes_id'), [true])
})

t.test('a migration that waits for a table lets statements pass', async (t) => {
  const url = await createDatabase(t)
  const name = '20200101000001_column'
  const migrations = [
    { name: '20200101000000_table', sql: 'CREATE TABLE notes (id int);' },
    { name, sql: 'ALTER TABLE notes ADD COLUMN text text;' }
  ]
  await applyMigrations(url, silent, { migrations: migrations.slice(0, 1) })
  const [backup, request] = [await connect(t, url), await connect(t, url)]
  await backup.query("SET application_name = 'pg_dump'")
  await backup.query('BEGIN')
  await backup.query('SELECT FROM notes')
  const message =
    new RegExp(`^Migration ${name} failed and was rolled back: a table stayed locked. The oldest ` +
      'open transaction is that of process \\d+ \\(pg_dump\\), open for \\d+ s$')
  await t.rejects(applyMigrations(url, silent, { migrations, lockTimeoutMs: 0 }), { message })
  const lines: string[] = []
  const applying = applyMigrations(url, { info: (line) => lines.push(line) }, { migrations })
  await until(() => lines.some((line) => line.includes('trying again')))
  await request.query('INSERT INTO notes VALUES (1)')
  t.match(lines, [/needs a table that is locked, trying again\. The oldest .*\(pg_dump\)/])
  await backup.query('COMMIT')
  t.same(await applying, [name])
})

const ends = {
  'a migration that fails': ['1 / 0', /^Migration \w+ failed and was rolled back: division by zero$/],
  'a process that dies in a migration': ['pg_terminate_backend(pg_backend_pid())', /./]
} as const
for (const [what, [end, message]] of Object.entries(ends)) {
  t.test(`${what} leaves nothing behind, and the migration can be applied after that`, async (t) => {
    const url = await createDatabase(t)
    const name = '20200101000000_broken'
    const sql = 'CREATE TABLE notes (id int);'
    const apply = async (sql: string) => await applyMigrations(url, silent, { migrations: [{ name, sql }] })
    await t.rejects(apply(`${sql}\nSELECT ${end};`), { name: 'MigrationError', message })
    const client = await connect(t, url)
    t.same(await found(client, "SELECT to_regclass('notes')"), [null])
    t.same(await found(client, 'SELECT count(*)::int FROM _prisma_migrations'), [0])
    t.same(await apply(sql), [name])
  })
}

t.test("a database that can't be migrated is reported in one line", async (t) => {
  const url = await createDatabase(t)
  const [first] = await readMigrations()
  await applyMigrations(url, silent)
  const client = await connect(t, url)
  const fails = async (expected: RegExp, migrations: readonly Migration[]) => {
    const attempts = [applyMigrations(url, silent, { migrations }), requireMigrated(url, { migrations })]
    for (const { reason } of await Promise.allSettled(attempts) as PromiseRejectedResult[]) {
      t.ok(reason instanceof MigrationError)
      t.match(reason?.message, expected)
      t.notMatch(reason?.message, /\n/)
    }
  }

  await client.query(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
    VALUES ('f', 'x', '20990101000000_future', now())`)
  await requireMigrated(url) // an older build works on a newer database
  await client.query("DELETE FROM _prisma_migrations WHERE id = 'f'")

  const edited = { name: first?.name ?? '', sql: `${first?.sql} -- changed` }
  await fails(/edited after it had been applied/, [edited])

  await client.query(`UPDATE _prisma_migrations SET finished_at = NULL, logs = 'ERROR: no room'
    WHERE migration_name = '${first?.name}'`)
  await fails(/was started and did not finish \(ERROR: no room\)/, await readMigrations())

  await client.query('CREATE TABLE landfall_restoring ()')
  await fails(/A restore into this database was interrupted/, await readMigrations())
  await client.query('DROP TABLE landfall_restoring')

  await client.query('UPDATE _prisma_migrations SET rolled_back_at = now()')
  await t.rejects(requireMigrated(url), { message: new RegExp(`lacks migrations ${first?.name}, `) })
})

t.test("a role that can't create schemas can migrate an existing schema", async (t) => {
  const url = new URL(await createDatabase(t))
  const client = await connect(t, url.href)
  const role = `landfall_role_${randomBytes(6).toString('hex')}`
  await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'of the test'`)
  t.teardown(async () => {
    await client.query(`DROP OWNED BY ${role} CASCADE`)
    await client.query(`DROP ROLE ${role}`)
  })
  await client.query(`CREATE SCHEMA pages AUTHORIZATION ${role}`)
  url.username = role
  url.password = 'of the test'
  url.searchParams.set('schema', 'pages')
  t.same(await applyMigrations(url.href, silent), (await readMigrations()).map(({ name }) => name))
})

t.test('changed line endings do not count as an edit', async (t) => {
  const url = await createDatabase(t)
  const name = '20200101000000_lines'
  const apply = async (sql: string) => await applyMigrations(url, silent, { migrations: [{ name, sql }] })
  const sql = 'CREATE TABLE a (id int);\nCREATE TABLE b (id int);\n'
  t.same(await apply(sql), [name])
  t.same(await apply(sql.replaceAll('\n', '\r\n')), [])
})

t.test("a database that can't be used is reported in one line without the password", async (t) => {
  const server = new URL(await createDatabase(t))
  const refused = 'postgresql://someone:s3cret@127.0.0.1:1/nowhere'
  const missing = Object.assign(new URL(server), { pathname: '/landfall_missing' }).href
  const cases = [
    [refused, /^PostgreSQL at 127\.0\.0\.1:1\/nowhere can't be used: .*ECONNREFUSED/],
    [missing, /"landfall_missing" does not exist/],
    ['postgresql://someone:s3c#r/et@localhost/x', /not a valid address/],
    ['postgresql://someone:s3cret@localhost/x?schema=a%22b', /schema/]
  ] as const
  for (const [url, expected] of cases) {
    const error = await applyMigrations(url, silent).then(() => undefined, (error: Error) => error)
    t.match(error?.message, expected)
    t.notMatch(JSON.stringify([error, error?.message, error?.stack, String(error?.cause)]), /s3c/)
  }
})

t.test('the schema named in the URL is created and used', async (t) => {
  const url = `${await createDatabase(t)}?schema=landfall`
  t.not((await applyMigrations(url, silent)).length, 0)
  t.same(await applyMigrations(url, silent), [])
  const client = await connect(t, url.replace('?schema=landfall', ''))
  const sql = "SELECT schemaname FROM pg_tables WHERE tablename IN ('users', '_prisma_migrations')"
  t.same(await found(client, sql), ['landfall', 'landfall'])
})
