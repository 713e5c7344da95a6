import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { pruneReads, storeReads,
  type ReadReport } from '../../../src/modules/landing-pages/read-count-repository.ts'
import { testSettings } from '../../helpers/app.ts'
import { databaseApp } from '../../helpers/database-app.ts'

// Reports of reads, as they are stored in PostgreSQL.

const NOON = Date.parse('2026-11-23T12:00:00Z')

/** Opens a database with the pages of some owners. */
async function openPages (t: Test, owners: number, pagesEach: number) {
  const settings = await testSettings(t)
  const app = databaseApp(loadConfig({ ...settings, DATABASE_POOL_SIZE: '20' }))
  await app.ready()
  t.teardown(async () => await app.close())
  const direct = new pg.Client(settings.DATABASE_URL)
  await direct.connect()
  t.teardown(async () => await direct.end())
  await direct.query(
    "INSERT INTO users (email, password_hash) SELECT n || '@example.com', '' FROM generate_series(1, $1) n",
    [owners]
  )
  const { rows } = await direct.query<{ user_id: number, public_id: string }>(
    `INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
    SELECT gen_random_uuid(), 'page-' || u.id || '-' || n, u.id, '{}', '' FROM users u, generate_series(1, $1)
      n
    RETURNING user_id, public_id`,
    [pagesEach]
  )
  const sums = async (table: 'hourly' | 'daily') =>
    (await direct.query<{ line: string }>(`
      SELECT concat_ws(' ', public_id, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24'), reads, not_modified)
        AS line
      FROM landing_page_reads_${table} JOIN landing_pages ON page_id = id ORDER BY public_id, at`))
      .rows.map(({ line }) => line)
  const url = settings.DATABASE_URL as string
  return { database: app.database, direct, pages: rows, sums, url }
}

const reportOf = (report: Partial<ReadReport>): ReadReport => {
  const { publicIds = ['page-1-1', 'page-1-2'] } = report
  return {
    processId: randomUUID(),
    number: 1,
    hour: NOON,
    publicIds,
    reads: publicIds.map(() => 2),
    notModified: publicIds.map(() => 1),
    ...report
  }
}

t.test('reports never deadlock with each other, deletions or writes', async (t) => {
  const owners = 40
  const { database, direct, pages, sums, url } = await openPages(t, owners, 20)
  await direct.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET deadlock_timeout = 10`) // of new connections, in ms
  const open = async () => {
    const client = new pg.Client(url)
    await client.connect()
    t.teardown(async () => await client.end())
    return client
  }
  const [writer, deleter] = [await open(), await open()]

  const ids = pages.map(({ public_id: publicId }) => publicId)
  const reports = Array.from({ length: 6 }, async (_, process) => {
    const processId = randomUUID()
    for (let number = 1; number <= 15; number++) {
      // Every process has an order of its own.
      const publicIds = [...ids.slice(process * 100 + number), ...ids.slice(0, process * 100 + number)]
      if (process % 2 === 0) publicIds.reverse()
      await storeReads(database, reportOf({ processId, number, publicIds }))
    }
  })
  const deletions = async () => {
    for (let user = 1; user <= owners / 2; user++) {
      await deleter.query('DELETE FROM users WHERE id = $1', [user])
    }
  }
  const writes = async () => {
    for (let n = 0; n < 60; n++) {
      await writer.query('UPDATE landing_pages SET version = version + 1 WHERE user_id = $1', [owners])
    }
  }
  const results = await Promise.allSettled([...reports, deletions(), writes()])
  t.same(results.filter(({ status }) => status === 'rejected'), [])
  const expected = pages
    .filter(({ user_id: user }) => user > owners / 2)
    .map(({ public_id: publicId }) => publicId)
  for (const table of ['hourly', 'daily'] as const) {
    const at = table === 'hourly' ? 'T12' : 'T00'
    const lines = expected.map((publicId) => `${publicId} 2026-11-23${at} ${6 * 15 * 2} ${6 * 15}`)
    t.same((await sums(table)).sort(), lines.sort())
  }
})

t.test('old counts are deleted in batches, and no others', async (t) => {
  const { database, direct, sums } = await openPages(t, 3, 700)
  // Each page has the hours and days around a limit, and three pages have many.
  await direct.query(`
    INSERT INTO landing_page_reads_hourly SELECT id, '2026-11-23T12:00Z'::timestamptz - n * interval '1 hour',
      n, 0
    FROM landing_pages, generate_series(-1, 1) n`)
  await direct.query(`
    INSERT INTO landing_page_reads_daily SELECT id, '2024-11-23'::timestamptz - n * interval '1 day', n, 0
    FROM landing_pages, generate_series(-1, 1) n`)
  await direct.query(`
    INSERT INTO landing_page_reads_hourly SELECT id, '2026-10-23T00:00Z'::timestamptz - n * interval '1 hour',
      n, 0
    FROM landing_pages, generate_series(1, 800) n WHERE public_id LIKE '%-1'`)
  await direct.query(`
    INSERT INTO read_reports VALUES ('${randomUUID()}', 1, '2026-11-23T11:59Z'), ('${randomUUID()}', 2,
      '2026-11-23T12:00Z')`)
  const limits = { hoursSince: new Date(NOON), daysSince: new Date('2024-11-23T00:00Z') }
  const { signal } = new AbortController()
  t.equal(await pruneReads(database, limits, signal), 2 * 2100 + 3 * 800)
  const times = async (table: 'hourly' | 'daily') => {
    const all = (await sums(table)).map((line) => line.replace(/^\S+ /, ''))
    return [all.length, ...new Set(all)]
  }
  t.same(await times('hourly'), [2 * 2100, '2026-11-23T12 0 0', '2026-11-23T13 -1 0'])
  t.same(await times('daily'), [2 * 2100, '2024-11-23T00 0 0', '2024-11-24T00 -1 0'])
  t.same((await direct.query('SELECT number FROM read_reports')).rows, [{ number: '2' }])
  t.equal(await pruneReads(database, limits, signal), 0)
})
