import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { PrismaPg } from '@prisma/adapter-pg'
import { contenders, type Contender, type Fixture } from './query-contenders.ts'
import { revisionContenders } from './revision-contenders.ts'
import { referenceContenders } from './reference-contenders.ts'
import { webhookContenders } from './webhook-contenders.ts'
import { median } from './statistics.ts'
import { BoundedPool } from '../src/infra/postgres/pool.ts'
import { applyMigrations } from '../src/infra/postgres/migrate.ts'
import { PrismaClient } from '../src/infra/postgres/generated/prisma/client.ts'
import { startGuardian } from '../test/shared/guardian.ts'
import { createCluster, startPostgres } from '../test/shared/instances.ts'
import { MissingProgramError, providePrograms } from '../test/shared/programs.ts'

// `npm run bench:queries`: the cost of the service's SQL statements, sent in different ways, on a private
// PostgreSQL. Prisma's TypedSQL needs a downloaded engine; it runs like $queryRaw, which is measured.

const USAGE = `npm run bench:queries -- [options]
  --rounds=N    rounds; each way has one turn in each round (5)
  --window=MS   length of one turn, in milliseconds (100)
  --only=TEXT   only statements whose name contains the text
  --json=FILE   writes all measured numbers to a file`

const PAGES = 50_000
const USERS = 500
const CONCURRENCIES = [1, 10]
const TIMEOUT_MS = 10_000

/** Wrong usage of the command line. `message` is one line. */
class UsageError extends Error {}

interface Turn {
  readonly queriesPerSecond: number
  /** Processor time of this process, user and system, in microseconds. */
  readonly cpuPerQuery: number
  /** Latencies, in milliseconds. */
  readonly p50: number
  readonly p99: number
}

export interface Row extends Turn {
  readonly statement: string
  readonly way: string
  readonly concurrency: number
  /** Queries per second relative to the statement's first way; the median over the rounds. */
  readonly ratio: number
  /** Processor time relative to the statement's first way; the median over the rounds. */
  readonly cpuRatio: number
}

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}

async function main (): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string' },
      window: { type: 'string' },
      only: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean' }
    }
  })
  if (values.help) return print(USAGE)
  const rounds = wholeNumber('rounds', values.rounds ?? '5')
  const windowMs = wholeNumber('window', values.window ?? '100')
  const bin = providePrograms(['postgres'], print).postgres
  // On a disk, and durable, because that is a large part of what a write costs.
  process.env.TMPDIR ??= tmpdir()
  const guardian = startGuardian()
  try {
    const server = await startPostgres(bin, await createCluster(bin, guardian.folder), guardian, 'on')
    print(`started PostgreSQL (${bin}) in ${guardian.folder}, with fsync`)
    await applyMigrations(server.url, { info: print })

    const pool = new BoundedPool({
      connection: server.url,
      max: Math.max(...CONCURRENCIES),
      timeoutMs: TIMEOUT_MS
    })
    pool.on('error', () => {}) // idle connections fail when the server stops
    const all = await prepareContenders(pool)
    const chosen = all.filter(({ statement }) => statement.includes(values.only ?? ''))
    const rows = await measure(chosen, rounds, windowMs)
    print(`\n${table(rows)}`)
    if (values.json !== undefined) {
      writeFileSync(
        resolve(process.env.INIT_CWD ?? process.cwd(), values.json),
        `${JSON.stringify({ node: process.version, pages: PAGES, rounds, windowMs, rows }, null, 2)}\n`
      )
    }
    await pool.end()
    await server.stop()
  } finally {
    await guardian.end()
  }
}

/** Fills the database; returns all statements in all ways. */
async function prepareContenders (pool: BoundedPool): Promise<Contender[]> {
  const fixture = await fill(pool)
  const typed = new PrismaClient({ adapter: new PrismaPg(pool) })
  // The benchmark has few statements. A service would have to limit the number of names, because an `IN` list
  // makes a new statement for each length.
  const named = new PrismaClient({
    adapter: new PrismaPg(pool, { statementNameGenerator: ({ sql }) => nameOf(sql) })
  })
  return [
    ...contenders({ pool, typed, named, ...fixture }),
    ...await revisionContenders(pool, fixture),
    ...await referenceContenders(pool, fixture),
    ...await webhookContenders(pool, fixture)
  ]
}

function wholeNumber (name: string, value: string): number {
  if (!/^[1-9]\d{0,5}$/.test(value)) throw new UsageError(`--${name} takes a whole number from 1`)
  return Number(value)
}

const names = new Map<string, string>()
function nameOf (sql: string): string {
  const name = names.get(sql) ?? `bench_${names.size}`
  names.set(sql, name)
  return name
}

async function fill (pool: BoundedPool): Promise<Fixture> {
  print(`inserting ${PAGES} pages of 2 KB …`)
  await pool.query({
    text: "INSERT INTO users (email, password_hash) SELECT 'user' || n || '@example.com', '' FROM " +
      'generate_series(1, $1::int) n',
    values: [USERS]
  })
  await pool
    .query('INSERT INTO sessions (id, user_id, expires_at) SELECT gen_random_uuid(), id, now() + interval ' +
      "'1 day' FROM users, generate_series(1, 4)")
  // Hexadecimal text compresses about as well as JSON. Several statements, because the pool limits the time
  // of each.
  for (let from = 0; from < PAGES; from += 5000) {
    await pool.query({
      text: `INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
        SELECT (lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid, lpad(n::text, 22, 'p'), 1 +
          n % $2, d, md5(d)
        FROM (SELECT n, '{"text":"' || (SELECT string_agg(md5(n || '-' || i), '') FROM generate_series(1, 63)
          i) || '"}' AS d
              FROM generate_series($1::int, $1::int + 4999) n) pages`,
      values: [from, USERS]
    })
  }
  await pool.query('VACUUM ANALYZE')
  const pages = await pool
    .query('SELECT id, public_id AS "publicId", user_id AS "userId", content_hash AS hash, current_data AS ' +
      'document FROM landing_pages ORDER BY md5(id::text) LIMIT 5000')
  const sessions = await pool.query('SELECT id, user_id AS "userId" FROM sessions')
  return { pages: pages.rows, sessions: sessions.rows, userId: 1 }
}

async function measure (chosen: readonly Contender[], rounds: number, windowMs: number): Promise<Row[]> {
  print(`warming up ${chosen.length} ways …`)
  // Long enough for the JIT compiler.
  for (const { run } of chosen) await takeTurn(run, 10, 150)
  const turns = new Map<string, Turn[]>()
  for (let round = 1; round <= rounds; round++) {
    print(`round ${round} of ${rounds} …`)
    for (const concurrency of CONCURRENCIES) {
      for (const { statement, way, run } of chosen) {
        const key = JSON.stringify([statement, concurrency, way])
        turns.set(key, [...turns.get(key) ?? [], await takeTurn(run, concurrency, windowMs)])
      }
    }
  }
  return [...turns].map(([key, own]) => {
    const [statement, concurrency, way] = JSON.parse(key) as [string, number, string]
    const { way: first } = chosen.find((each) => each.statement === statement) as Contender
    const base = turns.get(JSON.stringify([statement, concurrency, first])) as Turn[]
    const middle = (name: keyof Turn) => median(own.map((turn) => turn[name])) as number
    const against = (name: keyof Turn) =>
      median(own.map((turn, round) => turn[name] / (base[round] as Turn)[name])) as number
    return {
      statement,
      way,
      concurrency,
      queriesPerSecond: middle('queriesPerSecond'),
      cpuPerQuery: middle('cpuPerQuery'),
      p50: middle('p50'),
      p99: middle('p99'),
      ratio: against('queriesPerSecond'),
      cpuRatio: against('cpuPerQuery')
    }
  })
}

async function takeTurn (run: () => Promise<unknown>, concurrency: number, windowMs: number): Promise<Turn> {
  const times: number[] = []
  const started = performance.now()
  const cpu = process.cpuUsage()
  await Promise.all(Array.from({ length: concurrency }, async () => {
    for (let before = performance.now(), now; before - started < windowMs; before = now) {
      await run()
      now = performance.now()
      times.push(now - before)
    }
  }))
  const seconds = (performance.now() - started) / 1000
  const { user, system } = process.cpuUsage(cpu)
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] as number
  return {
    queriesPerSecond: times.length / seconds,
    cpuPerQuery: (user + system) / times.length,
    p50: at(0.5),
    p99: at(0.99)
  }
}

function table (rows: readonly Row[]): string {
  const lines = [
    '| statement | at once | way | queries/s | ratio | CPU µs/query | ratio | p50 ms | p99 ms |',
    '|---|--:|---|--:|--:|--:|--:|--:|--:|'
  ]
  const order = [...new Set(rows.map(({ statement }) => statement))]
  for (
    const row of rows.toSorted((a, b) =>
      order.indexOf(a.statement) - order.indexOf(b.statement) || a.concurrency - b.concurrency
    )
  ) {
    lines.push(`| ${
      [
        row.statement,
        row.concurrency,
        row.way,
        Math.round(row.queriesPerSecond),
        row.ratio.toFixed(2),
        Math.round(row.cpuPerQuery),
        row.cpuRatio.toFixed(2),
        row.p50.toFixed(2),
        row.p99.toFixed(2)
      ].join(' | ')
    } |`)
  }
  return lines.join('\n')
}

try {
  await main()
} catch (error) {
  console.error(error instanceof UsageError || error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
