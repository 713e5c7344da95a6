import pg from 'pg'
import t from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { statement } from '../../../src/infra/postgres/statement.ts'
import { isDatabaseUnavailable } from '../../../src/infra/postgres/unavailable.ts'
import { createMigratedDatabase, query, startPostgresServer, type Teardown } from '../../helpers/servers.ts'
import { databaseApp } from '../../helpers/database-app.ts'
import { slackMs } from '../../helpers/slack.ts'
import { openTransaction } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

/** DATABASE_TIMEOUT_MS, which is short to keep the tests short. */
const TIMEOUT_MS = 700

async function open (t: Teardown, url: string, settings: Record<string, string> = {}): Promise<Database> {
  const config = loadConfig({
    DATABASE_URL: url,
    JWT_SECRET: 'x'.repeat(32),
    DATABASE_TIMEOUT_MS: String(TIMEOUT_MS),
    DATABASE_POOL_SIZE: '5',
    ...settings
  })
  const app = databaseApp(config)
  t.teardown(async () => await app.close())
  await app.ready()
  return app.database
}

const user = (email: string) => ({ data: { email, passwordHash: '' } })

const COUNT = statement('SELECT count(*) FROM users')
const INSERT = statement("INSERT INTO users (email, password_hash) VALUES (:email, '')")

/** The sessions of the service. */
const OWN = "WHERE datname = current_database() AND application_name = 'landfall'"

/** The kinds of queries: prepared statements, and Prisma's models, transactions and raw SQL. */
const WAYS: Record<string, (database: Database) => Promise<unknown>> = {
  prepared: async (database) => await database.run(COUNT),
  model: async (database) => await database.user.findFirst(),
  write: async (database) => await database.user.create(user(`${Math.random()}@example.com`)),
  transaction: async (database) => await database.$transaction(async ({ user }) => await user.findFirst()),
  query: async (database) => await database.$queryRaw`SELECT 1`,
  execute: async (database) => await database.$executeRaw`SELECT 1`
}

async function failsAsUnavailable (
  t: Tap,
  database: Database,
  what: string,
  ways = Object.entries(WAYS)
): Promise<void> {
  // All at once, which takes the time limit only once.
  const started = performance.now()
  await Promise.all(ways.map(async ([name, ask]) => {
    const error = await ask(database).then(() => undefined, (error: Error) => error)
    t.ok(
      error !== undefined && isDatabaseUnavailable(error),
      `${what}, ${name}: ${error?.message.replaceAll('\n', ' ')}`
    )
    t.ok(performance.now() - started < TIMEOUT_MS + slackMs(), `${what}, ${name}: in time`)
  }))
}

/** Waits until every kind of query works again. The first attempts may fail on broken connections. */
async function recovers (t: Tap, database: Database, what: string): Promise<void> {
  await Promise.all(Object.entries(WAYS).map(async ([name, ask]) => {
    const works = async () => await ask(database).then(() => true, () => false)
    t.ok(await until(works, `${what}, ${name}: works again`))
  }))
}

type Tap = Pick<typeof t, 'ok'>

t.test('a server that is stopped, has crashed or hangs is unavailable until it works again', async (t) => {
  const server = await startPostgresServer(t)
  const database = await open(t, server.url)
  await recovers(t, database, 'before the failure')
  await server.stop()
  await failsAsUnavailable(t, database, 'stopped')
  await server.start()
  await recovers(t, database, 'started')
  await server.kill()
  // The server's session processes take a moment to notice that it was killed.
  const isDown = async () => await database.$queryRaw`SELECT 1`.then(() => false, () => true)
  await until(isDown, 'the sessions end')
  await failsAsUnavailable(t, database, 'crashed')
  await server.start()
  await recovers(t, database, 'started again')

  server.pause()
  await failsAsUnavailable(t, database, 'paused')
  const started = performance.now()
  const many = await Promise.allSettled(Array.from({ length: 20 }, async () => await database.user.count()))
  const late = many.filter(({ status, ...result }) =>
    status === 'rejected' && isDatabaseUnavailable((result as PromiseRejectedResult).reason)
  )
  t.equal(late.length, 20, 'paused, 20 at once')
  const took = performance.now() - started
  t.ok(took < TIMEOUT_MS + slackMs(), 'the waits for a connection and for the response count together')
  server.resume()
  await recovers(t, database, 'resumed')
})

t.test('the pool replaces connections that end while they are idle', async (t) => {
  const url = await createMigratedDatabase(t)
  for (const [name, first] of Object.entries(WAYS)) {
    const database = await open(t, url, { DATABASE_TIMEOUT_MS: '60000' })
    await first(database)
    await query(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity ${OWN}`)
    await recovers(t, database, `idle after ${name}`)
  }
})

t.test('statements and locks that take too long are cancelled and count as unavailable', async (t) => {
  const url = await createMigratedDatabase(t)
  const database = await open(t, url)
  const slow = {
    prepared: async () => await database.run(statement('SELECT pg_sleep(30)::text')),
    query: async () => await database.$queryRaw`SELECT pg_sleep(30)::text`,
    execute: async () => await database.$executeRaw`SELECT pg_sleep(30)`
  }
  await failsAsUnavailable(t, database, 'slow', Object.entries(slow))
  await recovers(t, database, 'after that')

  const { client: other } = await openTransaction(t, url)
  await other.query('LOCK TABLE users')
  const locked = Object.entries(WAYS).filter(([name]) => ['prepared', 'model', 'write'].includes(name))
  await failsAsUnavailable(t, database, 'locked', locked)
  await other.query('ROLLBACK')
  await recovers(t, database, 'unlocked')
  const { rows } = await other.query(`SELECT FROM pg_stat_activity ${OWN} AND state <> 'idle'`)
  t.same(rows, [], 'no statement is left running')
})

t.test('a transaction that stands still ends, and its locks with it', async (t) => {
  const url = await createMigratedDatabase(t)
  const database = await open(t, url)
  const { id } = await database.user.create(user('before@example.com'))
  const transaction = database.$transaction(async (transaction) => {
    await transaction.user.update({ where: { id }, data: { email: 'after@example.com' } })
    const idle = `SELECT FROM pg_stat_activity ${OWN} AND state = 'idle in transaction'`
    await until(async () => (await query(url, idle)).length === 0)
  })
  const error = await transaction.then(() => undefined, (error: unknown) => error)
  t.ok(isDatabaseUnavailable(error), String(error))
  t.match(await database.user.update({ where: { id }, data: { passwordHash: 'x' } }), {
    email: 'before@example.com'
  })
  await recovers(t, database, 'after that')
})

t.test('a statement waits for a free connection of the pool, up to the time limit', async (t) => {
  const url = await createMigratedDatabase(t)
  const patient = await open(t, url, { DATABASE_POOL_SIZE: '2', DATABASE_TIMEOUT_MS: '60000' })
  const busy = [patient.$executeRaw`SELECT pg_sleep(0.5)`, patient.$executeRaw`SELECT pg_sleep(0.5)`]
    .map(async (statement) => await statement)
  t.equal(await patient.user.count(), 0, 'statements wait for a free connection')
  await Promise.all(busy)

  const database = await open(t, url, { DATABASE_POOL_SIZE: '2' })
  const started = performance.now()
  const many = await Promise
    .allSettled(Array.from({ length: 10 }, async () => await database.$executeRaw`SELECT pg_sleep(0.5)`))
  t.ok(performance.now() - started < TIMEOUT_MS + slackMs(), 'in time')
  const failures = many.filter((result) => result.status === 'rejected')
  t.ok(failures.length >= 6, 'some waited too long')
  for (const { reason } of failures) t.ok(isDatabaseUnavailable(reason), reason.message)
  await recovers(t, database, 'after that')
})

t.test('a server without a free connection counts as unavailable', async (t) => {
  const server = await startPostgresServer(t)
  const database = await open(t, server.url)
  const others: pg.Client[] = []
  t.teardown(async () => await Promise.all(others.map(async (client) => await client.end())))
  const fill = async () => {
    for (;;) {
      const client = new pg.Client({ connectionString: server.url })
      client.on('error', () => {})
      const error = await client.connect().then(() => undefined, (error: { code?: string }) => error)
      if (error?.code === '53300') return
      if (error === undefined) others.push(client)
    }
  }
  await fill()
  const [first] = others as [pg.Client]
  const { rows: [{ max_connections: max }] } = await first.query('SHOW max_connections')
  // A session ends a moment after it was told to, and the check of the service may begin another one.
  await until(async () => {
    await first
      .query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'landfall'")
    await fill()
    return others.length === Number(max)
  })
  await failsAsUnavailable(t, database, 'full')
  await Promise.all(others.splice(0).map(async (client) => await client.end()))
  await recovers(t, database, 'with free connections')
})

t.test('bad statements and constraint violations do not count as unavailable', async (t) => {
  const database = await open(t, await createMigratedDatabase(t))
  await database.user.create(user('taken@example.com'))
  const failures: Record<string, () => Promise<unknown>> = {
    unique: async () => await database.user.create(user('taken@example.com')),
    foreignKey: async () => await database.session.create({ data: { userId: 4711, expiresAt: new Date() } }),
    missing: async () => await database.user.findUniqueOrThrow({ where: { id: 4711 } }),
    invalid: async () => await database.user.findMany({ where: { nothing: 1 } as never }),
    'bad UUID': async () => await database.session.findUnique({ where: { id: 'x' } }),
    NUL: async () => await database.user.create(user('\0@example.com')),
    overflow: async () => await database.user.findUnique({ where: { id: 2 ** 40 } }),
    'unique, prepared': async () => await database.run(INSERT, { email: 'taken@example.com' }),
    'NUL, prepared': async () => await database.run(statement('SELECT :text::text'), { text: '\0' }),
    syntax: async () => await database.$queryRaw`SELEKT`,
    division: async () => await database.$queryRaw`SELECT 1 / 0`,
    transaction: async () =>
      await database.$transaction(async (transaction) =>
        await transaction.user.create(user('taken@example.com'))
      )
  }
  for (const [name, fail] of Object.entries(failures)) {
    const error = await fail().then(() => undefined, (error: Error) => error)
    const isOwn = error instanceof Error && !isDatabaseUnavailable(error)
    t.ok(isOwn, `${name}: ${error?.message.replaceAll('\n', ' ')}`)
  }
  for (const value of [undefined, null, 'x', new Error('x'), { code: 'P1001' }]) {
    t.notOk(isDatabaseUnavailable(value))
  }
})

t.test('dates are correct in every time zone of the server', async (t) => {
  const url = await createMigratedDatabase(t)
  await query(url, `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET timezone = 'Asia/Kathmandu'`)
  const database = await open(t, url)
  const { createdAt } = await database.user.create(user('a@example.com'))
  t.ok(Math.abs(Date.now() - createdAt.getTime()) < 60_000, createdAt.toISOString())
})
