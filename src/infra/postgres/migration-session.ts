import pg from 'pg'
import { connectionOptions, messageOf, printableAddress, type Connection } from './connection.ts'

// The connection on which migrations are applied and listed.

/** For all statements except the migrations, which may take long, for example to build an index. */
const STATEMENT_TIMEOUT_MS = 30_000

/** The database can't be migrated. `message` is one line for the operator. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError'
}

/** One connection, because an advisory lock and a transaction belong to the connection. */
export class MigrationSession {
  readonly #client: pg.Client

  constructor (client: pg.Client) {
    this.#client = client
  }

  /** The id of PostgreSQL's process for this connection, as the connection's greeting has it. */
  get processId (): number | undefined {
    return (this.#client as { processID?: number }).processID
  }

  async query<Row = Record<string, unknown>> (
    text: string,
    values: readonly unknown[] = []
  ): Promise<Row[]> {
    const config = { text, values: [...values], query_timeout: STATEMENT_TIMEOUT_MS }
    return (await this.#client.query(config)).rows
  }

  /** Runs several statements as one message, without a time limit. */
  async runScript (sql: string): Promise<void> {
    await this.#client.query(sql)
  }
}

/**
 * Runs `action` on one connection. Works on a database of any release, also on an empty one.
 *
 * @throws {MigrationError} if the database can't be reached, or the action fails
 */
export async function withMigrationSession<T> (
  connection: Connection,
  { connectTimeoutMs = 10_000 }: { readonly connectTimeoutMs?: number },
  action: (session: MigrationSession) => Promise<T>
): Promise<T> {
  let client: pg.Client | undefined
  try {
    client = new pg.Client({
      ...connectionOptions(connection),
      application_name: 'landfall-migrate',
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true
    })
    client.on('error', () => {}) // the next statement fails with the reason
    await client.connect()
    return await action(new MigrationSession(client))
  } catch (error) {
    if (error instanceof MigrationError) throw error
    throw new MigrationError(`${printableAddress(connection)} can't be used: ${messageOf(error)}`, {
      cause: error
    })
  } finally {
    await client?.end().catch(() => {})
  }
}
