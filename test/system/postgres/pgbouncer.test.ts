import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { JWT_SECRET } from '../../helpers/app.ts'
import { landfall } from '../../helpers/cli.ts'
import { call, Owner, type Response } from '../../helpers/client.ts'
import { startPgbouncer } from './pgbouncer.ts'
import { provide } from '../../shared/programs.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { query, startPostgresServer } from '../../helpers/servers.ts'
import { PROJECT, runService, startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs the service behind PgBouncer in transaction mode, with the settings of docs/operations.md.

const program = provide('pgbouncer')

/** Connections of PgBouncer to PostgreSQL, and of the service to PgBouncer. */
const SERVER_CONNECTIONS = 5
const CLIENT_CONNECTIONS = 40

const chapter = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8').split('**PgBouncer.**')[1] as string
/** The lines that docs/operations.md has for PgBouncer and for PostgreSQL. */
const [, LINE = ''] = /^ {4}(ignore_startup_parameters = .*)$/m.exec(chapter) ?? []
const [, ROLE = ''] = /^```sql\n([\s\S]*?)^```$/m.exec(chapter) ?? []

const LINES = [LINE, `default_pool_size = ${SERVER_CONNECTIONS}`]

const server = await startPostgresServer(t)
const password = randomBytes(12).toString('hex')
await query(server.url, `CREATE ROLE landfall LOGIN PASSWORD '${password}'; ${ROLE}`)

/** Creates a database whose time zone isn't UTC, and returns the address that leads directly to it. */
async function createDatabase (name: string): Promise<string> {
  await query(server.url, `CREATE DATABASE ${name} OWNER landfall`)
  await query(server.url, `ALTER DATABASE ${name} SET timezone = 'Asia/Tokyo'`)
  return `postgresql://landfall:${password}@127.0.0.1:${server.port}/${name}`
}

const settings = {
  DATABASE_POOL_SIZE: String(CLIENT_CONNECTIONS),
  MIGRATE_ON_START: 'false',
  JWT_SECRET,
  UPLOADS_DIR: temporaryFolder(t),
  LOG_LEVEL: 'warn',
  RATE_LIMIT_PUBLIC: '1000000'
}
/** Runs the migrations on a connection that leads directly to PostgreSQL. */
const migrate = async (url: string) => await landfall({ DATABASE_URL: url, JWT_SECRET }, ['migrate'])

const direct = await createDatabase('landfall')
const pooler = await startPgbouncer(t, program, direct, LINES)
await migrate(direct)
const { url } = await startService(t, { ...settings, DATABASE_URL: pooler.url })

/** Sends requests at once and returns the number of responses by status. */
async function together (count: number, send: (n: number) => Promise<Response>) {
  return statuses(await Promise.all(Array.from({ length: count }, async (_, n) => await send(n))) as never)
}

async function expectRightDate (t: Test, { text }: Response): Promise<void> {
  const age = Date.now() - Date.parse(JSON.parse(text).created_at)
  t.ok(Math.abs(age) < 10 * 60_000, `the date differs from the clock by ${age} ms, which is no time zone`)
}

const list = async (owner: Owner) => await owner.call('GET', `${url}/manage/landing_pages`)

t.test('sign-ups, pages, lists, uploads and refreshes work behind PgBouncer in transaction mode', async (t) => {
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, '{"v":1}')
  t.equal((await owner.update(url, page.id, '{"v":2}')).status, 200)
  t.match(await call('GET', `${url}/landing_pages/${page.public_id}`), { status: 200, text: '{"v":2}' })
  t.match(await list(owner), { status: 200 })
  await expectRightDate(t, await owner.call('GET', `${url}/manage/landing_pages/${page.id}`))
  const { id, url: file, path } = await owner.store(url, Buffer.from('a file'))
  t.match(await call('GET', url + path), { status: 200, text: 'a file' })
  const using = await owner.createPage(url, JSON.stringify([file]))
  const removeUnused = async () => await owner.call('DELETE', `${url}/assets/${id}?if_unused=true`)
  t.match(await removeUnused(), { status: 409, text: new RegExp(using.public_id) })
  t.equal((await owner.update(url, using.id, '[]')).status, 200)
  t.equal((await removeUnused()).status, 204)
  t.equal(await owner.refresh(url), 200)

  // More requests at once than connections to PgBouncer, of which there are more than to PostgreSQL.
  const read = async () => await owner.call('GET', `${url}/manage/landing_pages/${page.id}`)
  t.same(await together(200, read), { 200: 200 })
  t.same(
    await together(
      100,
      async (n) => await owner.call('POST', `${url}/landing_pages`, { text: `{"current_data":{"n":${n}}}` })
    ),
    { 201: 100 }
  )
  const pages = await query(server.url.replace(/postgres$/, 'landfall'), 'SELECT count(*) FROM landing_pages')
  t.same(pages, [{ count: '102' }])
  const [used] = await query(
    server.url,
    "SELECT count(*)::int FROM pg_stat_activity WHERE datname = 'landfall' AND backend_type = 'client " +
      "backend'"
  )
  t.ok(Number(used?.count) <= SERVER_CONNECTIONS, `${used?.count} connections to PostgreSQL`)
})

t.test('the limits of the role end a statement behind PgBouncer, so a slow one keeps no connection', async (t) => {
  for (
    const [name, value] of [['TimeZone', 'UTC'], ['statement_timeout', '3600ms'], [
      'idle_in_transaction_session_timeout',
      '8s'
    ]]
  ) {
    t.same(await query(pooler.url, `SELECT current_setting('${name}') AS value`), [{ value }])
  }
})

t.test('reads go on while PgBouncer restarts, and writes return', async (t) => {
  const owner = await Owner.signUp(url)
  const pages = await Promise
    .all(['{"n":1}', '{"n":2}'].map(async (text) => await owner.createPage(url, text)))
  const publicIds = pages.map((page) => page.public_id)
  for (const publicId of publicIds) {
    t.equal((await call('GET', `${url}/landing_pages/${publicId}`)).status, 200)
  }

  const readers = new Readers(t, { urls: [url], publicIds })
  for (const end of ['stop', 'kill'] as const) {
    const seen = new Set<number>()
    const reads = await readers.during(async () => {
      await pooler[end]()
      await until(async () => {
        const response = await list(owner)
        if (response.status === 503) t.ok(response.headers.has('retry-after'))
        seen.add(response.status)
        return response.status === 503
      }, 'a management request failed')
      await pooler.start()
      await until(async () => {
        const { status } = await list(owner)
        seen.add(status)
        return status === 200
      }, 'a management request succeeded')
      const asked = await together(CLIENT_CONNECTIONS, async () => await owner.call('GET', `${url}/auth/me`))
      t.same(asked, { 200: CLIENT_CONNECTIONS })
    })
    t.same(statuses(reads), { 200: reads.length }, `every read during a ${end} succeeded`)
    t.same([...seen].sort(), [200, 503])
    const responses = await Promise.all(pages.map(async ({ id }) => await owner.update(url, id, '{"n":0}')))
    t.same(responses.map(({ status }) => status), [200, 200])
  }
})

t.test('migrations behind PgBouncer change nothing, and say so', async (t) => {
  const empty = await createDatabase('empty')
  const { url: DATABASE_URL } = await startPgbouncer(t, program, empty, LINES)
  const given = { ...settings, DATABASE_URL }
  const migrating = { ...given, MIGRATE_ON_START: 'true' }
  for (let n = 0; n < 2; n++) {
    const { code, output } = await runService(t, migrating)
    t.equal(code, 1)
    t.match(output, /Migrations can't run through a pooler such as PgBouncer/)
  }
  t.match(await landfall(migrating, ['migrate']), { code: 1, stderr: /can't run through a pooler/ })
  t.match(await runService(t, given), { code: 1, output: /The database lacks migration/ })
  t.same(await query(empty, "SELECT FROM pg_tables WHERE schemaname = 'public'"), [])
  t.same(
    await query(empty, "SELECT FROM pg_locks WHERE locktype = 'advisory'"),
    [],
    'no lock is left behind'
  )

  t.match(await migrate(empty), { code: 0 })
  t.match(await landfall(given, ['migrate', '--status']), { code: 0 })
  // No migration is pending, so even this replica needs no lock.
  await Owner.signUp((await startService(t, migrating)).url)
})

t.test('without the setting, the start fails with the message in docs/operations.md', async (t) => {
  const { url } = await startPgbouncer(t, program, direct, [])
  const { code, output } = await runService(t, { ...settings, DATABASE_URL: url })
  t.equal(code, 1)
  t.match(output, /unsupported startup parameter: options/)
  t.ok(chapter.includes('`unsupported startup parameter: options`'))
})
