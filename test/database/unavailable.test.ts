import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import pg from 'pg'
import t from 'tap'
import { loadConfig } from '../../src/config.ts'
import { Database } from '../../src/database/client.ts'
import { BoundedPool } from '../../src/database/pool.ts'
import { statement } from '../../src/database/statement.ts'
import { isDatabaseUnavailable } from '../../src/database/unavailable.ts'
import { createDatabase, createProxy, query, startPostgresServer, type Teardown } from '../helpers/servers.ts'
import { databaseApp } from './app.ts'

/** Short, so that the tests are; the promise is kept at every length. */
const TIMEOUT_MS = 700
/** "Not hung": the limit and what a busy machine adds. */
const PATIENCE_MS = TIMEOUT_MS + 3000

async function open (t: Teardown, url: string, settings: Record<string, string> = {}): Promise<Database> {
  const config = loadConfig({ DATABASE_URL: url, JWT_SECRET: 'x'.repeat(32), DATABASE_TIMEOUT_MS: String(TIMEOUT_MS), DATABASE_POOL_SIZE: '2', ...settings })
  const app = databaseApp(config)
  t.teardown(async () => await app.close())
  await app.ready()
  return app.database
}

const user = (email: string) => ({ data: { email, passwordHash: '' } })

const COUNT = statement('SELECT count(*) FROM users')

/** Every way in which the service asks: prepared, a model, a raw query, a raw statement, both kinds of transactions. */
const WAYS: Record<string, (database: Database) => Promise<unknown>> = {
  prepared: async (database) => await database.run(COUNT, []),
  model: async (database) => await database.user.findFirst(),
  write: async (database) => await database.user.create(user(`${Math.random()}@example.com`)),
  query: async (database) => await database.$queryRaw`SELECT 1`,
  statement: async (database) => await database.$executeRaw`SELECT 1`,
  batch: async (database) => await database.$transaction([database.user.count(), database.user.count()]),
  transaction: async (database) => await database.$transaction(async (transaction) => await transaction.user.count())
}

async function failsAsUnavailable (t: Tap, database: Database, what: string, ways = Object.entries(WAYS)): Promise<void> {
  for (const [name, ask] of ways) {
    const started = performance.now()
    const error = await ask(database).then(() => undefined, (error: Error) => error)
    t.ok(error !== undefined && isDatabaseUnavailable(error), `${what}, ${name}: ${error?.message.replaceAll('\n', ' ')}`)
    t.ok(performance.now() - started < PATIENCE_MS, `${what}, ${name}: in time`)
  }
}

/** Works again by itself: what is left of the failure costs a few tries at most. */
async function recovers (t: Tap, database: Database, what: string): Promise<void> {
  for (let tries = 0; tries < 20; tries++) {
    if (await database.user.count().then(() => true, () => false)) break
  }
  for (const [name, ask] of Object.entries(WAYS)) await t.resolves(ask(database), `${what}, ${name}: works again`)
}

type Tap = Pick<typeof t, 'ok' | 'equal' | 'resolves'>

t.test('a server that is stopped, that crashes, that starts again', async (t) => {
  const server = await startPostgresServer(t)
  const database = await open(t, server.url)
  await recovers(t, database, 'at first')
  await server.stop()
  await failsAsUnavailable(t, database, 'stopped')
  await server.start()
  await recovers(t, database, 'started')
  await server.kill()
  await failsAsUnavailable(t, database, 'crashed')
  await server.start()
  await recovers(t, database, 'started again')
})

t.test('a server that hangs', async (t) => {
  const server = await startPostgresServer(t)
  const database = await open(t, server.url)
  await recovers(t, database, 'at first')
  server.pause()
  await failsAsUnavailable(t, database, 'frozen')
  const started = performance.now()
  const many = await Promise.allSettled(Array.from({ length: 20 }, async () => await database.user.count()))
  t.ok(many.every((result) => result.status === 'rejected' && isDatabaseUnavailable(result.reason)), 'frozen, many at once')
  t.ok(performance.now() - started < PATIENCE_MS, 'waiting for a connection and for the answer count together')
  server.resume()
  await recovers(t, database, 'thawed')
})

t.test('a network that swallows, refuses, resets', async (t) => {
  const proxy = await createProxy(t, await createDatabase(t))
  const database = await open(t, proxy.url)
  await recovers(t, database, 'at first')
  proxy.blackhole()
  await failsAsUnavailable(t, database, 'swallowed')
  await proxy.restore()
  await recovers(t, database, 'restored')
  await proxy.refuse()
  await failsAsUnavailable(t, database, 'refused')
  await proxy.restore()
  await recovers(t, database, 'restored')

  const asleep = database.$queryRaw`SELECT pg_sleep(5)::text`.then(() => undefined, (error: unknown) => error)
  await database.user.count()
  proxy.disconnect()
  t.ok(isDatabaseUnavailable(await asleep), 'reset while a statement runs')
  await recovers(t, database, 'reset')
})

t.test('connections that the server ends', async (t) => {
  const database = await open(t, await createDatabase(t))
  const ownEnd = async () => await database.$queryRaw`SELECT pg_terminate_backend(pg_backend_pid())`
  const inTransaction = async () => await database.$transaction(async (transaction) => await transaction.$queryRaw`SELECT pg_terminate_backend(pg_backend_pid())`)
  await failsAsUnavailable(t, database, 'terminated', Object.entries({ query: ownEnd, transaction: inTransaction }))
  await recovers(t, database, 'after that')
})

t.test('connections that end while nobody uses them', async (t) => {
  for (const [name, first] of Object.entries(WAYS)) {
    const url = await createDatabase(t)
    const database = await open(t, url)
    await first(database)
    await query(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'landfall'")
    await recovers(t, database, `idle after ${name}`)
  }
})

t.test('statements and locks that take too long', async (t) => {
  const url = await createDatabase(t)
  const database = await open(t, url)
  const slow = {
    prepared: async () => await database.run(statement('SELECT pg_sleep(30)::text'), []),
    query: async () => await database.$queryRaw`SELECT pg_sleep(30)::text`,
    batch: async () => await database.$transaction([database.$executeRaw`SELECT pg_sleep(30)`]),
    transaction: async () => await database.$transaction(async (transaction) => await transaction.$executeRaw`SELECT pg_sleep(30)`),
    'idle transaction': async () => await database.$transaction(async (transaction) => {
      await new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS + 700))
      await transaction.user.count()
    })
  }
  await failsAsUnavailable(t, database, 'slow', Object.entries(slow))
  await recovers(t, database, 'after that')

  const other = new pg.Client({ connectionString: url })
  await other.connect()
  t.teardown(async () => await other.end())
  await other.query('BEGIN; LOCK TABLE users')
  await failsAsUnavailable(t, database, 'locked', Object.entries(WAYS).filter(([name]) => ['prepared', 'model', 'write', 'batch', 'transaction'].includes(name)))
  await other.query('ROLLBACK')
  await recovers(t, database, 'unlocked')
  t.equal((await other.query("SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'landfall' AND state <> 'idle'")).rows[0].count, 0, 'nothing goes on behind its back')
})

t.test('a pool without a free connection', async (t) => {
  const database = await open(t, await createDatabase(t))
  const hold = database.$transaction(async (transaction) => await transaction.$executeRaw`SELECT pg_sleep(0.5)`)
  const also = database.$transaction(async (transaction) => await transaction.$executeRaw`SELECT pg_sleep(0.5)`)
  t.equal(await database.user.count(), 0, 'is waited for')
  await Promise.all([hold, also])

  const started = performance.now()
  const many = await Promise.allSettled(Array.from({ length: 10 }, async () => await database.$executeRaw`SELECT pg_sleep(0.5)`))
  t.ok(performance.now() - started < PATIENCE_MS, 'in time')
  const failures = many.filter((result) => result.status === 'rejected')
  t.ok(failures.length >= 6, 'but not for ever')
  for (const { reason } of failures) t.ok(isDatabaseUnavailable(reason), reason.message)
  await recovers(t, database, 'after that')
})

t.test('a server without a free connection', async (t) => {
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
  await others[0]?.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'landfall'")
  await fill()
  await failsAsUnavailable(t, database, 'full')
  await Promise.all(others.splice(0).map(async (client) => await client.end()))
  await recovers(t, database, 'with room')
})

t.test('a server that is starting up', async (t) => {
  // What PostgreSQL answers then is too short-lived to be met by chance.
  const answer = (code: string, message: string) => {
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
    const head = Buffer.alloc(5)
    head.write('E')
    head.writeInt32BE(fields.length + 4, 1)
    return Buffer.concat([head, fields])
  }
  for (const [code, message] of [['57P03', 'the database system is starting up'], ['57P02', 'terminating connection because of crash of another server process']] as const) {
    const server = createServer((socket) => { socket.on('error', () => {}).once('data', () => socket.end(answer(code, message))) }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const pool = new BoundedPool({ connection: `postgresql://x@127.0.0.1:${(server.address() as AddressInfo).port}/x`, max: 1, timeoutMs: TIMEOUT_MS })
    const client = new Database(pool, { schema: undefined, transactionTimeoutMs: TIMEOUT_MS + 500, onLost () {} })
    await failsAsUnavailable(t, client, code)
    await client.$disconnect()
    server.close()
  }
})

t.test('a server that ends a session with the very bytes that begin it', async (t) => {
  const message = (type: string, content: string) => {
    const head = Buffer.alloc(5)
    head.write(type)
    head.writeInt32BE(Buffer.byteLength(content) + 4, 1)
    return Buffer.concat([head, Buffer.from(content)])
  }
  const bytes = Buffer.concat([message('R', '\0\0\0\0'), message('Z', 'I'), message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')])
  const server = createServer((socket) => { socket.on('error', () => {}).once('data', () => socket.end(bytes)) }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pool = new BoundedPool({ connection: `postgresql://x@127.0.0.1:${(server.address() as AddressInfo).port}/x`, max: 1, timeoutMs: TIMEOUT_MS })
  const client = new Database(pool, { schema: undefined, transactionTimeoutMs: TIMEOUT_MS + 500, onLost () {} })
  await failsAsUnavailable(t, client, 'ended at once')
  await client.$disconnect()
  server.close()
})

t.test('mistakes and broken rules are not mistaken for it', async (t) => {
  const database = await open(t, await createDatabase(t))
  await database.user.create(user('taken@example.com'))
  const mistakes: Record<string, () => Promise<unknown>> = {
    unique: async () => await database.user.create(user('taken@example.com')),
    foreignKey: async () => await database.session.create({ data: { userId: 4711, expiresAt: new Date() } }),
    missing: async () => await database.user.findUniqueOrThrow({ where: { id: 4711 } }),
    invalid: async () => await database.user.findMany({ where: { nothing: 1 } as never }),
    'bad UUID': async () => await database.session.findUnique({ where: { id: 'x' } }),
    NUL: async () => await database.user.create(user('\0@example.com')),
    overflow: async () => await database.user.findUnique({ where: { id: 2 ** 40 } }),
    'unique, prepared': async () => await database.run(statement("INSERT INTO users (email, password_hash) VALUES ($1, '')"), ['taken@example.com']),
    'NUL, prepared': async () => await database.run(statement('SELECT $1::text'), ['\0']),
    syntax: async () => await database.$queryRaw`SELEKT`,
    division: async () => await database.$queryRaw`SELECT 1 / 0`,
    'unique in a transaction': async () => await database.$transaction(async (transaction) => await transaction.user.create(user('taken@example.com'))),
    'own error in a transaction': async () => await database.$transaction(async () => { throw new TypeError('a bug') }),
    'transaction used after its end': async () => {
      let kept: Parameters<Parameters<Database['$transaction']>[0]>[0] | undefined
      await database.$transaction(async (transaction) => { kept = transaction })
      await kept?.user.count()
    }
  }
  for (const [name, mistake] of Object.entries(mistakes)) {
    const error = await mistake().then(() => undefined, (error: Error) => error)
    t.ok(error instanceof Error && !isDatabaseUnavailable(error), `${name}: ${error?.message.replaceAll('\n', ' ')}`)
  }
  for (const value of [undefined, null, 'x', new Error('x'), { code: 'P1001' }]) t.notOk(isDatabaseUnavailable(value))
})

t.test('dates are right whatever the time zone of the server is', async (t) => {
  const url = await createDatabase(t)
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  await admin.query(`ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET timezone = 'Asia/Kathmandu'`)
  await admin.end()
  const database = await open(t, url)
  const { createdAt } = await database.user.create(user('a@example.com'))
  t.ok(Math.abs(Date.now() - createdAt.getTime()) < 60_000, createdAt.toISOString())
})
