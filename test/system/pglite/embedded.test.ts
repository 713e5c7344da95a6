import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { lockDataDir } from '../../../src/infra/pglite/data-dir-lock.ts'
import { COMMAND_PORT, embeddedSecret, socketPath,
  startEmbedded } from '../../../src/infra/pglite/embedded.ts'
import { connectionOptions } from '../../../src/infra/postgres/connection.ts'
import { BoundedPool, withConnection } from '../../../src/infra/postgres/pool.ts'
import { statement } from '../../../src/infra/postgres/statement.ts'
import type { Teardown } from '../../helpers/servers.ts'
import { QUICK, temporaryFolder } from '../../helpers/service.ts'
import { compiledPath } from '../../runner/compile.ts'

const silent = { info () {}, warn () {} }
const unexpected = (error: Error) => {
  throw error
}
const OWNER = compiledPath('test/system/pglite/embedded-owner.ts')

const dataFolder = (t: Teardown): string => join(temporaryFolder(t), 'data')

/** Copies a data folder with an empty database, because creating one takes seconds. */
async function dataFolderWithDatabase (t: Teardown): Promise<string> {
  template ??= createTemplate()
  const dataDir = dataFolder(t)
  await cp(await template, dataDir, { recursive: true })
  return dataDir
}

let template: Promise<string> | undefined

async function createTemplate (): Promise<string> {
  const dataDir = dataFolder(t)
  await (await startEmbedded(dataDir, silent, unexpected)).close()
  return dataDir
}

/** Starts a process that owns `dataDir` and writes rows; `lines` is its output. */
function startOwner (
  t: Teardown,
  dataDir: string,
  startAt = 0
): { child: ChildProcess, lines: AsyncIterator<string> } {
  const child = spawn(process.execPath, [OWNER, dataDir, String(startAt)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    // The test removes this folder with everything that the killed process leaves.
    env: { ...process.env, NODE_OPTIONS: QUICK, TMPDIR: dirname(dataDir) }
  })
  t.teardown(async () => await kill(child))
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
}

async function kill (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

/** Reads `count` printed numbers and returns the last one. */
async function numbers (lines: AsyncIterator<string>, count: number): Promise<number> {
  let last = -1
  while (count > 0) {
    const { value, done } = await lines.next()
    if (done) throw new Error('the owner ended by itself')
    if (/^\d+$/.test(value)) {
      last = Number(value)
      count--
    }
  }
  return last
}

/** Keeps a lock from becoming stale for an hour, so it can be taken only because its owner is dead. */
async function keepFresh (dataDir: string): Promise<void> {
  const later = new Date(Date.now() + 3_600_000)
  await utimes(join(dataDir, 'lock'), later, later)
}

t.test('committed rows survive SIGKILL at any time', async (t) => {
  const dataDir = await dataFolderWithDatabase(t)
  let next = 0
  for (const count of [1, 200]) {
    const { child, lines } = startOwner(t, dataDir, next)
    let last = await numbers(lines, count)
    await kill(child)
    // Rows that were printed later are committed, too.
    for (let line = await lines.next(); !line.done; line = await lines.next()) {
      if (/^\d+$/.test(line.value)) last = Number(line.value)
    }

    await keepFresh(dataDir)
    const database = await startEmbedded(dataDir, silent, unexpected)
    const pool = new BoundedPool({ connection: database.connection, max: 1, timeoutMs: 10_000 })
    const { rows } = await pool
      .query('SELECT count(*)::int AS count, max(number) AS last, sum(length(filling))::int AS filling ' +
        'FROM written')
    // The last row may be committed although its number was not printed.
    t.ok(rows[0].last === last || rows[0].last === last + 1)
    t.equal(rows[0].count, rows[0].last + 1, 'no row is missing')
    next = rows[0].last + 1
    t.same(
      (await readdir(dirname(dataDir))).filter((name) => name.startsWith('landfall-')),
      [],
      'the folder of the old socket is gone'
    )
    await pool.end()
    await database.close()
  }
})

t.test("SIGKILL during the creation of the database doesn't prevent the next start", async (t) => {
  const dataDir = dataFolder(t)
  for (const moment of ['', 'base']) {
    const { child } = startOwner(t, dataDir)
    while (!existsSync(join(dataDir, 'postgres.new', moment))) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await kill(child)
    t.notOk(existsSync(join(dataDir, 'postgres')))
  }
  const { lines } = startOwner(t, dataDir)
  t.equal(await numbers(lines, 3), 2)
})

t.test('with one database', async (t) => {
  const dataDir = await dataFolderWithDatabase(t)
  const database = await startEmbedded(dataDir, silent, unexpected)
  const open = (timeoutMs = 30_000) => new BoundedPool({ connection: database.connection, max: 1, timeoutMs })

  t.test('an abandoned transaction is rolled back with its connection', async (t) => {
    const client = new pg.Client(connectionOptions(database.connection))
    await client.connect()
    await client.query('CREATE TABLE counted (number int)')
    await client.query('BEGIN')
    await client.query('INSERT INTO counted VALUES (1)')
    await client.end()

    const other = open()
    t.same((await other.query('SELECT number FROM counted')).rows, [])
    await other.end()
  })

  t.test('a broken connection leaves a usable session', async (t) => {
    for (let round = 0; round < 10; round++) {
      const pool = open(5)
      await Promise
        .all(['BEGIN', 'SELECT pg_sleep(0.02)', 'SELECT generate_series(1, 20000)'].map(async (text) =>
          await pool.query({ text, values: [] }).catch(() => {})
        ))
      await pool.end()
    }
    const pool = open()
    t.same((await pool.query({ text: 'SELECT $1::int AS one', values: [1] })).rows, [{ one: 1 }])
    await pool.end()
  })

  t.test('commands share the database with the service, one transaction after the other', async (t) => {
    let changes = 0
    await database.serveCommands(() => changes++)
    const { host } = database.connection
    const commands = { host, port: COMMAND_PORT }
    const service = open()
    const one = statement<{ one: number }>('SELECT :one::int AS one')
    for (let round = 0; round < 3; round++) {
      t.same(await withConnection(commands, async (pool) => await pool.run(one, { one: 2 })), [{ one: 2 }])
      t.same(await service.run(one, { one: 1 }), [{ one: 1 }])
    }
    const prepared = 'SELECT name FROM pg_prepared_statements'
    t.same((await service.query(prepared)).rows, [{ name: one.name }], 'the service has its statements')

    const write = async (on: typeof commands, sql: string) =>
      await withConnection(on, async (pool) => await pool.query(sql))
    await write(database.connection, 'CREATE TABLE changed (number int)')
    await write(database.connection, 'INSERT INTO changed VALUES (1)')
    t.equal(changes, 0, 'the service is told of changes by commands only')
    const removed = 'WITH removed AS (DELETE FROM changed RETURNING number) SELECT number FROM removed'
    t.same((await write(commands, removed)).rows, [{ number: 1 }])
    t.equal(changes, 1)

    const client = new pg.Client(connectionOptions(commands))
    await client.connect()
    await client.query('BEGIN')
    await client.query('CREATE TABLE abandoned ()')
    let isAnswered = false
    const answered = service.query("SELECT to_regclass('abandoned') AS found").then(({ rows }) => {
      isAnswered = true
      return rows
    })
    await client.query('SELECT 1')
    t.notOk(isAnswered)
    await client.end()
    t.same(await answered, [{ found: null }])

    for (let n = 0; n < 20; n++) { // commands that are killed before they have read their response
      const killed = connect(socketPath(host, COMMAND_PORT)).on('error', () => {})
      await once(killed, 'connect')
      killed.pause()
      killed.write(Buffer.from('\0\0\0\x17\0\x03\0\0user\0postgres\0\0'))
      await setImmediate()
      killed.destroy()
    }
    t.same(await service.run(one, { one: 3 }), [{ one: 3 }])
    await service.end()
  })

  t.test('statements are prepared, also after errors and changes of the schema', async (t) => {
    const setup = open()
    await setup.query('CREATE TABLE items (id int PRIMARY KEY, text text)')
    await setup.query("INSERT INTO items VALUES (1, 'one')")
    await setup.end()
    const find = statement<{ text: string }>('SELECT text FROM items WHERE id = :id')
    const insert = statement('INSERT INTO items VALUES (:id, :text)')
    const list = statement('SELECT statement FROM pg_prepared_statements ORDER BY prepare_time')
    for (const type of ['varchar', 'text']) {
      const pool = open()
      for (let n = 0; n < 3; n++) {
        t.same(await pool.run(find, { id: 1 }), [{ text: 'one' }])
        await t.rejects(pool.run(insert, { id: 1, text: 'again' }), { code: '23505' })
        t.same(await pool.run(find, { id: 2 }), [])
        await t.rejects(pool.run(statement('SELECT nothing FROM items')), { code: '42703' })
        const { rows } = await pool.query({ text: "SELECT repeat('x', $1::int) AS text", values: [300_000] })
        t.equal(rows[0].text.length, 300_000, 'a response in several chunks')
      }
      t.same(await pool.run(list), [find, insert, list].map(({ text }) => ({ statement: text })))
      await pool.query(`ALTER TABLE items ALTER COLUMN text TYPE ${type}`)
      for (let n = 0; n < 3; n++) t.same(await pool.run(find, { id: 1 }), [{ text: 'one' }])
      await pool.end()
    }
  })

  t.test('a new connection of the service can prepare what an open one has prepared', async (t) => {
    const one = statement<{ one: number }>('SELECT :one::int AS one')
    const left = open()
    await left.run(one, { one: 1 })
    const errors: unknown[] = []
    const next = new BoundedPool({
      connection: database.connection,
      max: 1,
      timeoutMs: 30_000,
      queryHook: () => (error) => {
        if (error !== undefined) errors.push(error)
      }
    })
    t.same(await next.run(one, { one: 2 }), [{ one: 2 }])
    t.same(errors, [])
    for (const pool of [left, next]) await pool.end()
  })

  t.test('only the user of the process can read its files', async (t) => {
    t.equal((await stat(dataDir)).mode & 0o777, 0o700)
    t.equal((await stat(database.connection.host)).mode & 0o777, 0o700)
    await database.close()
    t.notOk(existsSync(database.connection.host), 'the folder of the socket is gone')
    t.same(await readdir(dataDir), ['postgres'], 'the lock is gone')
  })
})

t.test('in an existing DATA_DIR only its user can read secret and database', async (t) => {
  const dataDir = dataFolder(t)
  await mkdir(dataDir, { mode: 0o755 })
  const folder = join(dataDir, 'postgres')
  const modeAfterStart = async () => {
    await (await startEmbedded(dataDir, silent, unexpected)).close()
    return (await stat(folder)).mode & 0o777
  }
  t.equal(await modeAfterStart(), 0o700, 'a new database')
  await chmod(folder, 0o755)
  t.equal(await modeAfterStart(), 0o700, 'a database that other users could read')
  await embeddedSecret(dataDir)
  t.equal((await stat(join(dataDir, 'jwt-secret'))).mode & 0o777, 0o600, 'a new secret')
})

/** Returns the owner that a lock of this process names. */
async function ourselves (t: Teardown): Promise<{ hostname: string, pid: number }> {
  const dataDir = dataFolder(t)
  await mkdir(dataDir)
  const lock = await lockDataDir(dataDir, silent, unexpected)
  const owner = JSON.parse(await readFile(join(dataDir, 'lock-owner.json'), 'utf8'))
  await lock.release()
  return owner
}

t.test('the lock of another machine or container is respected while it has a heartbeat', async (t) => {
  const dataDir = dataFolder(t)
  const lock = join(dataDir, 'lock')
  await mkdir(lock, { recursive: true })
  // The second owner is a process in a container that shares the host name and the folder, but not the pids.
  const owners = [{ hostname: `not-${hostname()}`, pid: 1 }, {
    ...await ourselves(t),
    pid: 2 ** 22 + 1,
    started: '1',
    pidNamespace: 'pid:[1] of another container'
  }]
  const lines: string[] = []
  const heartbeat = setInterval(() => {
    utimes(lock, new Date(), new Date()).catch(() => {})
  }, 200)
  t.teardown(() => clearInterval(heartbeat))
  for (const owner of owners) {
    await writeFile(join(dataDir, 'lock-owner.json'), JSON.stringify(owner))
    await t.rejects(
      lockDataDir(dataDir, {
        ...silent,
        info: (line) => {
          lines.push(line)
        }
      }, unexpected),
      { message: new RegExp(`is in use by another process \\(${owner.pid} on ${owner.hostname}\\)`) }
    )
  }
  t.match(lines, [/is locked, waiting/, /is locked, waiting/])

  clearInterval(heartbeat)
  const old = new Date(Date.now() - 60_000)
  await utimes(lock, old, old)
  await (await lockDataDir(dataDir, silent, unexpected)).release()
})

t.test('the lock of a dead process is taken over at once by exactly one process', async (t) => {
  const dataDir = dataFolder(t)
  const us = await ourselves(t)
  for (const owner of [{ ...us, pid: 2 ** 22 + 1 }, { ...us, started: '1' }]) {
    await mkdir(join(dataDir, 'lock'), { recursive: true })
    await writeFile(join(dataDir, 'lock-owner.json'), JSON.stringify(owner))
    await keepFresh(dataDir)
    const attempts = await Promise.allSettled(Array.from({ length: 5 }, async () =>
      await lockDataDir(dataDir, silent, unexpected)))
    const won = attempts.filter((attempt) => attempt.status === 'fulfilled')
    t.equal(won.length, 1)
    for (const attempt of attempts) {
      if (attempt.status === 'rejected') t.match(attempt.reason.message, /is in use/)
    }
    await won[0]?.value.release()
  }
})

t.test('losing the lock stops the database', async (t) => {
  const dataDir = await dataFolderWithDatabase(t)
  const lost = new Promise<Error>((resolve) => {
    startEmbedded(dataDir, silent, resolve).then(async (database) => {
      t.teardown(async () => await database.close())
      await rm(join(dataDir, 'lock'), { recursive: true })
    }, unexpected)
  })
  t.match((await lost).message, new RegExp(`DATA_DIR ${dataDir} was taken over`))
})

t.test('the secret is generated once', async (t) => {
  const dataDir = dataFolder(t)
  const secrets = await Promise.all(Array.from({ length: 5 }, async () => await embeddedSecret(dataDir)))
  t.match(secrets[0], /^[0-9a-f]{64}$/)
  t.equal(new Set(secrets).size, 1)
  t.equal(await embeddedSecret(dataDir), secrets[0])
  t.equal((await stat(join(dataDir, 'jwt-secret'))).mode & 0o777, 0o600)
  t.equal((await stat(dataDir)).mode & 0o777, 0o700)
  t.same(await readdir(dataDir), ['jwt-secret'])
  t.equal((await readFile(join(dataDir, 'jwt-secret'), 'utf8')).trim(), secrets[0])

  await writeFile(join(dataDir, 'jwt-secret'), 'short')
  await t.rejects(embeddedSecret(dataDir), { message: /jwt-secret is damaged/ })
})
