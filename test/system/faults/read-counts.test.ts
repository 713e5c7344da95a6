import t, { type Test } from 'tap'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { JWT_SECRET, type CreatedPage } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { connection as connectionTo, requestOf } from '../../helpers/raw.ts'
import { createMigratedDatabase, createProxy, query } from '../../helpers/servers.ts'
import { startReplica, type Replica } from '../../helpers/redis-replicas.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Read counts over several processes, and while PostgreSQL fails.

const start = async (t: Test, database: string, settings: Record<string, string> = {}): Promise<Replica> =>
  await startReplica(t, {
    DATABASE_URL: database,
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    LOG_LEVEL: 'warn',
    RATE_LIMIT_PUBLIC: '1000000000',
    ...settings
  }, true)

/** Requests on their way on a connection. */
const PIPELINED = 200

interface Read {
  readonly publicId: string
  readonly method?: 'GET' | 'HEAD'
  readonly etag?: string
}

/**
 * Sends public reads on one connection, many at once.
 *
 * @returns the number of responses by status
 */
async function send (t: Test, url: string, reads: readonly Read[]): Promise<Record<string, number>> {
  const connection = connectionTo(t, url)
  const statuses: Record<string, number> = {}
  for (let sent = 0; sent < reads.length; sent += PIPELINED) {
    const some = reads.slice(sent, sent + PIPELINED)
    connection.send(some.map(({ publicId, method, etag }) =>
      requestOf(`/landing_pages/${publicId}`, etag === undefined ? {} : { 'If-None-Match': etag }, method)
    ).join(''))
    for (const { method } of some) {
      const { status } = await connection.response(method)
      statuses[status] = (statuses[status] ?? 0) + 1
    }
  }
  return statuses
}

/** Starts a process with a page, and a proxy before its PostgreSQL. */
async function startBehindProxy (t: Test, settings: Record<string, string> = {}) {
  const database = await createMigratedDatabase(t)
  const proxy = await createProxy(t, database)
  const replica = await start(t, proxy.url, settings)
  const { public_id: publicId } = await (await Owner.signUp(replica.url)).createPage(replica.url, '{}')
  return {
    ...replica,
    database,
    proxy,
    /** Reads the page a number of times, and checks that all reads succeed. */
    readPage: async (times: number) =>
      t.same(await send(t, replica.url, Array<Read>(times).fill({ publicId })), { 200: times })
  }
}

/** The reads of each page, with 200 and with 304, in the order of their creation. */
async function counted (database: string): Promise<[number, number][]> {
  const rows = await query(
    database,
    `SELECT coalesce(sum(reads), 0) AS reads, coalesce(sum(not_modified), 0) AS not_modified
    FROM landing_pages LEFT JOIN landing_page_reads_hourly ON page_id = id GROUP BY id ORDER BY id`
  )
  return rows.map(({ reads, not_modified: notModified }) => [Number(reads), Number(notModified)])
}

t.test('6,000 reads of processes that stop are counted exactly', async (t) => {
  const database = await createMigratedDatabase(t)
  const settings = { CACHE_MAX_BYTES: '150000' } // too small for all pages
  const startOne = async () => await start(t, database, settings)
  const first = await startOne()
  const replicas = [first, await startOne(), await startOne()]
  const owner = await Owner.signUp(first.url)
  const pages: CreatedPage[] = []
  for (let n = 0; n < 100; n++) pages.push(await owner.createPage(first.url, JSON.stringify({ n })))

  const unknown = Array.from({ length: 5000 }, () => ({ publicId: randomPublicId() }))
  t.same(await send(t, first.url, unknown), { 404: 5000 })
  t.equal(await first.metric('landfall_waiting_read_counts'), 0)

  const expected = pages.map((): [reads: number, notModified: number] => [0, 0])
  const reads = Array.from({ length: 6000 }, (_, n): Read => {
    const index = Math.floor(Math.random() ** 2 * pages.length)
    const { public_id: publicId, etag } = pages[index] as CreatedPage
    const isNotModified = n % 4 === 0
    expected[index]![isNotModified ? 1 : 0]++
    return { publicId, method: n % 10 === 0 ? 'HEAD' : 'GET', ...isNotModified && { etag } }
  })
  const connections = 12
  const share = reads.length / connections
  const answered = await Promise.all(Array.from(
    { length: connections },
    async (_, n) => await send(t, replicas[n % 3]!.url, reads.slice(n * share, (n + 1) * share))
  ))
  const total = (status: string) => answered.reduce((sum, counts) => sum + (counts[status] ?? 0), 0)
  t.same([total('200'), total('304')], [4500, 1500])
  t.same(await Promise.all(replicas.map(async ({ end }) => await end('SIGTERM'))), [0, 0, 0])
  t.same(await counted(database), expected)
})

t.test('reads during an outage of PostgreSQL are counted after it', async (t) => {
  const { database, proxy, metric, end, readPage } = await startBehindProxy(t)
  await readPage(100)
  await proxy.refuse()
  await readPage(1000)
  await until(async () => await metric('landfall_read_reports_total{result="failed"}') >= 1)
  await readPage(1000)
  t.ok(await metric('landfall_waiting_read_counts') >= 1)
  await proxy.restore()
  await until(async () => await metric('landfall_counted_reads_total{result="stored"}') >= 1000)
  await readPage(1)
  t.equal(await end('SIGTERM'), 0)
  t.same(await counted(database), [[2101, 0]])
})

t.test('a report whose response is lost is not counted twice', async (t) => {
  const { database, proxy, metric, end, readPage } = await startBehindProxy(t)
  const other = await openTransaction(t, database)
  await other.client.query('LOCK TABLE landing_page_reads_hourly')
  await readPage(500)
  await untilBlocked(database, 1)
  proxy.delay(3_600_000)
  await other.client.query('COMMIT')
  await until(async () => (await query(database, 'SELECT FROM landing_page_reads_hourly')).length === 1)
  await until(async () => await metric('landfall_read_reports_total{result="failed"}') >= 1)
  t.equal(await metric('landfall_read_reports_total{result="ok"}'), 0)
  await readPage(20)
  await proxy.restore()
  await until(async () => await metric('landfall_read_reports_total{result="ok"}') >= 2)
  t.equal(await end('SIGTERM'), 0)
  t.same(await counted(database), [[520, 0]])
})

t.test('a process that stops without PostgreSQL logs what is lost', async (t) => {
  const { proxy, end, output, readPage } = await startBehindProxy(t, { DATABASE_TIMEOUT_MS: '500' })
  proxy.blackhole()
  await readPage(10)
  t.equal(await end('SIGTERM'), 0)
  t.match(output(), /read counts were lost at shutdown/)
})
