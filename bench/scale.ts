import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { measureDeletions, measureRoutes, measureTasks, type Place } from './scale-operations.ts'
import { amountsOf, seed, type Amounts } from './scale-seed.ts'
import { Database } from '../src/infra/postgres/database.ts'
import { applyMigrations } from '../src/infra/postgres/migrate.ts'
import { BoundedPool } from '../src/infra/postgres/pool.ts'
import { startGuardian } from '../test/shared/guardian.ts'
import { createCluster, startPostgres } from '../test/shared/instances.ts'
import { MissingProgramError, providePrograms } from '../test/shared/programs.ts'

// `npm run bench:scale`: how many blocks of PostgreSQL routes and background tasks use in a small and in a
// large database. The process exits with 1 if the number grows more than it may.

const USAGE = `npm run bench:scale -- [options]
  --pages=N  pages of the large database, a multiple of 1000 (1000000)`

const SMALL_PAGES = 1000

/** Wrong usage of the command line. `message` is one line. */
class UsageError extends Error {}

/** What PostgreSQL did, and for how many rows of the response or of the work. */
interface Cost {
  readonly buffers: number
  readonly rows: number
  /** The statement with the most buffers. */
  readonly largest: string
}

interface Measured {
  readonly promise: Parameters<Place['measure']>[1]
  readonly cost: Cost
}

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}

async function main (): Promise<void> {
  const { values } = parseArgs({ options: { pages: { type: 'string' }, help: { type: 'boolean' } } })
  if (values.help) return print(USAGE)
  const pages = values.pages ?? '1000000'
  if (!/^[1-9]\d*000$/.test(pages)) throw new UsageError('--pages takes thousands of pages')
  const bin = providePrograms(['postgres'], print).postgres
  process.env.TMPDIR ??= tmpdir() // the large database may not fit into memory
  const guardian = startGuardian()
  try {
    const server = await startPostgres(bin, await createCluster(bin, guardian.folder), guardian, 'off', {
      shared_preload_libraries: 'pg_stat_statements',
      autovacuum: 'off', // it would run at a time of its own
      shared_buffers: '512MB',
      max_wal_size: '16GB',
      checkpoint_timeout: '1h'
    })
    const statistics = await connect(server.url)
    await statistics.query('CREATE EXTENSION pg_stat_statements')
    const notes: string[] = []
    const results: Map<string, Measured>[] = []
    for (const count of [SMALL_PAGES, Number(pages)]) {
      notes.push(`${count} pages:`)
      await statistics.query(`CREATE DATABASE pages_${count}`)
      const url = Object.assign(new URL(server.url), { pathname: `/pages_${count}` }).href
      const uploads = join(guardian.folder, `uploads-${count}`)
      results.push(await measureDatabase(url, uploads, amountsOf(count), statistics, (line) => {
        print(`  ${line}`)
        notes.push(`- ${line}`)
      }))
    }
    await statistics.end()
    await server.stop()
    const [small, large] = results as [Map<string, Measured>, Map<string, Measured>]
    report(small, large)
    print(`\n${notes.join('\n')}`)
  } finally {
    await guardian.end()
  }
}

async function connect (connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString })
  client.on('error', () => {}) // the server stops
  await client.connect()
  return client
}

async function measureDatabase (
  url: string,
  uploads: string,
  amounts: Amounts,
  statistics: pg.Client,
  note: (line: string) => void
): Promise<Map<string, Measured>> {
  print(`filling a database with ${amounts.pages} pages …`)
  await applyMigrations(url, { info: () => {} })
  const admin = await connect(url)
  await seed(admin, amounts, print)
  // One connection, so that each statement is prepared once.
  const pool = new BoundedPool({ connection: url, max: 1, timeoutMs: 10 * 60 * 1000 })
  pool.on('error', () => {}) // an idle connection fails when the server stops
  const database = new Database(pool)
  const measured = new Map<string, Measured>()
  const place: Place = {
    url,
    uploads,
    admin,
    database,
    amounts,
    note,
    async measure (name, promise, run, runs = 1) {
      let cost: Cost | undefined
      for (let number = 1; number <= runs; number++) {
        await statistics.query('SELECT pg_stat_statements_reset()')
        const rows = await run()
        const found = await costSoFar(statistics, typeof rows === 'number' ? rows : undefined)
        // The first of several runs also reads the catalogue.
        if (number <= 2 || found.buffers > (cost?.buffers ?? 0)) cost = found
      }
      measured.set(name, { promise, cost: cost as Cost })
      print(`  ${name}: ${cost?.buffers} buffers, ${cost?.rows} rows`)
    }
  }
  await noteSizes(place)
  await measureRoutes(place)
  await measureTasks(place)
  await measureDeletions(place)
  await admin.end()
  await database.$disconnect()
  return measured
}

/** @param rows the rows of the work; the rows of all statements if undefined */
async function costSoFar (statistics: pg.Client, rows: number | undefined): Promise<Cost> {
  const { rows: statements } = await statistics.query<{ query: string, buffers: number, rows: number }>(`
    SELECT query, (shared_blks_hit + shared_blks_read)::float8 AS buffers, rows::float8 AS rows
    FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%' ORDER BY buffers DESC`)
  const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)
  return {
    buffers: sum(statements.map(({ buffers }) => buffers)),
    rows: rows ?? sum(statements.map((statement) => statement.rows)),
    largest: (statements[0]?.query ?? '').replace(/\s+/g, ' ').slice(0, 300)
  }
}

async function noteSizes ({ admin, amounts, note }: Place): Promise<void> {
  const tables = {
    page: ['landing_pages', amounts.pages],
    'summary of a page': ['landing_page_summaries', amounts.pages],
    version: ['landing_page_revisions', amounts.revisions],
    'hourly count': ['landing_page_reads_hourly', amounts.hours],
    'daily count': ['landing_page_reads_daily', amounts.days],
    asset: ['assets', amounts.assets]
  } as const
  const sizes: string[] = []
  for (const [what, [table, rows]] of Object.entries(tables)) {
    const { rows: [size] } = await admin.query(`SELECT pg_total_relation_size('${table}')::float8 AS bytes`)
    sizes.push(`${what} ${Math.round(size.bytes / rows)}`)
  }
  note(`bytes on disk, with indexes: ${sizes.join(', ')}`)
}

/** Prints the table, and sets the exit code if a promise isn't met. */
function report (small: ReadonlyMap<string, Measured>, large: ReadonlyMap<string, Measured>): void {
  const missed: string[] = []
  print('\n| operation | small, buffers | large, buffers | rows | promise | met |\n|---|--:|--:|--:|---|---|')
  for (const [name, { promise, cost }] of large) {
    const { cost: before } = small.get(name) as Measured
    const isMet = promise === 'flat' ? cost.buffers <= 3 * before.buffers + 20
      : cost.buffers / cost.rows <= 3 * before.buffers / before.rows + 2
    const shown = ({ buffers, rows }: Cost) =>
      promise === 'flat' ? buffers : `${(buffers / rows).toFixed(1)} per row`
    print(`| ${
      [name, shown(before), shown(cost), cost.rows, promise, isMet ? 'yes' : '**no**'].join(' | ')
    } |`)
    if (!isMet) missed.push(`${name}: ${cost.buffers} buffers, most of them by ${cost.largest}`)
  }
  if (missed.length === 0) return
  print(`\nGrows more than promised:\n${missed.join('\n')}`)
  process.exitCode = 1
}

try {
  await main()
} catch (error) {
  console.error(error instanceof UsageError || error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
