import pg from 'pg'
import { positional, type Statement, type StatementRunner,
  type Values } from '../../src/infra/postgres/statement.ts'
import type { Teardown } from './servers.ts'

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
