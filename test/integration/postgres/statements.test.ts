import pg from 'pg'
import t from 'tap'
import { BoundedPool } from '../../../src/infra/postgres/pool.ts'
import { statement } from '../../../src/infra/postgres/statement.ts'
import { createDatabase, query, type Teardown } from '../../helpers/servers.ts'

interface Item {
  id: number
  text: string
  big: bigint
  at: Date
}

const FIND = statement<Item>('SELECT id, text, big, at FROM items WHERE id = :id')
const INSERT = statement<Item>('INSERT INTO items (id, text) VALUES (:id, :text) RETURNING id, text, big, at')
const PREPARED = statement<
  { statement: string }
>('SELECT statement FROM pg_prepared_statements ORDER BY prepare_time')

const TABLE = `
  CREATE TABLE items (id integer PRIMARY KEY, text text NOT NULL, big bigint NOT NULL DEFAULT
    9007199254740993, at timestamptz NOT NULL DEFAULT '2026-01-02T03:04:05.678Z');
  INSERT INTO items VALUES (1, 'one')`

function open (t: Teardown, connection: string, max = 1): BoundedPool {
  const pool = new BoundedPool({ connection, max, timeoutMs: 10_000 })
  // The database may be dropped while an idle connection is being closed.
  pool.on('error', () => {})
  t.teardown(async () => {
    if (!pool.ended) await pool.end()
  })
  return pool
}

async function openWithTable (t: Teardown, max = 1): Promise<{ pool: BoundedPool, url: string }> {
  const url = await createDatabase(t)
  await query(url, TABLE)
  return { pool: open(t, url, max), url }
}

t.test('changing a column type while statements run causes no error and no duplicate write', async (t) => {
  const { pool, url } = await openWithTable(t, 4)
  const state = { changing: true, written: 1 }
  const work = async () => {
    while (state.changing) {
      t.equal((await pool.run(FIND, { id: 1 }))[0]?.text, 'one')
      const id = ++state.written
      t.equal((await pool.run(INSERT, { id, text: `${id}` }))[0]?.text, `${id}`)
    }
  }
  const workers = Array.from({ length: 8 }, work)
  for (const type of ['varchar(100)', 'text', 'varchar', 'text', 'varchar(200)']) {
    await query(url, `ALTER TABLE items ALTER COLUMN text TYPE ${type}`)
    const { written } = state
    while (state.written < written + 40) await new Promise((resolve) => setImmediate(resolve))
  }
  state.changing = false
  await Promise.all(workers)
  const expected = { count: state.written, last: state.written }
  t.same(await query(url, 'SELECT count(*)::int AS count, max(id) AS last FROM items'), [expected])
})

t.test('a statement is no longer prepared after its name was lost or already taken', async (t) => {
  const { url } = await openWithTable(t)
  const taken = `PREPARE ${pg.escapeIdentifier(FIND.name)} (int) AS SELECT 1 AS somebody, $1 AS other`
  const losses = { lost: 'DEALLOCATE ALL', taken: `DEALLOCATE ALL; ${taken}` }
  for (const [what, loss] of Object.entries(losses)) {
    const pool = open(t, url)
    // A name can be lost only after its first use, and taken only before it.
    if (what === 'lost') await pool.run(FIND, { id: 1 })
    await pool.query(loss)
    for (let n = 0; n < 3; n++) {
      t.same((await pool.run(FIND, { id: 1 })).map(({ text }) => text), ['one'], what)
    }
    const prepared = (await pool.run(PREPARED)).map(({ statement }) => statement)
    t.notOk(prepared.includes(FIND.text), `${what}: it is not prepared after that`)
  }
})

t.test('?schema= selects the schema of the tables', async (t) => {
  const { pool, url } = await openWithTable(t)
  const change = `SET search_path = other; ${TABLE}; UPDATE items SET text = 'other one'`
  await query(url, `CREATE SCHEMA other; ${change}`)
  const other = new URL(url)
  other.searchParams.set('schema', 'other')
  t.equal((await open(t, other.href).run(FIND, { id: 1 }))[0]?.text, 'other one')
  t.equal((await pool.run(FIND, { id: 1 }))[0]?.text, 'one')
})
