import pg from 'pg'
import { positional, type Statement, type StatementRunner,
  type Values } from '../../src/infra/postgres/statement.ts'
import { query, type Teardown } from './servers.ts'
import { until } from './until.ts'

/** A transaction of its own, which `client` has to commit. The end of the test rolls it back. */
export interface OpenTransaction extends StatementRunner {
  readonly client: pg.Client
}

/** Opens a transaction, for tests of what happens while a statement of another process is under way. */
export async function openTransaction (t: Teardown, url: string): Promise<OpenTransaction> {
  const client = new pg.Client(url)
  await client.connect()
  t.teardown(async () => await client.end())
  await client.query('BEGIN')
  return {
    client,
    run: async <Row>(statement: Statement<Row>, values?: Values): Promise<Row[]> =>
      (await client.query(statement.text, positional(statement, values))).rows
  }
}

/** Waits until at least `count` statements of a database wait for a lock. Returns how many do. */
export async function untilBlocked (url: string, count: number): Promise<number> {
  const blocked =
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
  return await until(async () => {
    const { length } = await query(url, blocked)
    return length >= count && length
  }, `${count} statements wait for locks`)
}
