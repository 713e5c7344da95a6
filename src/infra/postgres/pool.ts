import { performance } from 'node:perf_hooks'
import pg from 'pg'
import type { QueryHook } from '../telemetry/query-hooks.ts'
import { connectionOptions, messageOf, type Connection } from './connection.ts'
import { isPreparationFault, positional, TYPES, type Statement, type StatementRunner,
  type Values } from './statement.ts'
import { DatabaseUnavailableError, isServerFault } from './unavailable.ts'

export interface PoolSettings {
  /** Where to connect, and how. */
  connection: Connection
  /** The most connections. */
  max: number
  /** Time limit of a statement, including the wait for a connection, in milliseconds. */
  timeoutMs: number
  /** Called for each statement, and for each wait for a connection. */
  queryHook?: QueryHook | undefined
  /** Whether `run` prepares statements. Default: true. */
  prepares?: boolean
}

/** The text that query hooks receive when the pool waits for a connection. */
export const CONNECT = 'CONNECT'

/** Time limit of a statement of the command line. It is long, because no request waits for it. */
const COMMAND_TIMEOUT_MS = 30_000

/**
 * Opens one connection for `action`, and closes it afterwards. It prepares no statements: beside a service on
 * an embedded database, it would take their names.
 */
export async function withConnection<T> (
  connection: Connection,
  action: (database: BoundedPool) => Promise<T>
): Promise<T> {
  const pool = new BoundedPool({ connection, max: 1, timeoutMs: COMMAND_TIMEOUT_MS, prepares: false })
  pool.on('error', () => {}) // the next statement reports the error
  return await action(pool).finally(async () => await pool.end())
}

type SendQuery = (query: pg.QueryConfig) => Promise<pg.QueryResult>

/**
 * A pool with one time limit for the wait for a connection and the statement together; pg only limits each of
 * them. Throws `DatabaseUnavailableError` if PostgreSQL is at fault and not the statement.
 */
export class BoundedPool extends pg.Pool implements StatementRunner {
  readonly #timeoutMs: number
  readonly #queryHook: QueryHook | undefined
  readonly #prepares: boolean
  /** The names of statements that failed because they were prepared. */
  readonly #unprepared = new Set<string>()

  /** @throws {Error} if the connection URL is invalid; the message doesn't contain the URL */
  constructor ({ connection, max, timeoutMs, queryHook, prepares = true }: PoolSettings) {
    super({
      ...connectionOptions(connection),
      max,
      application_name: 'landfall',
      connectionTimeoutMillis: timeoutMs,
      // Shorter than our own limit: after PostgreSQL's own timeout error, the connection remains usable.
      statement_timeout: Math.ceil(timeoutMs * 0.9),
      // A process that hangs in a transaction must not keep its locks.
      idle_in_transaction_session_timeout: timeoutMs,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000
    })
    this.#timeoutMs = timeoutMs
    this.#queryHook = queryHook
    this.#prepares = prepares
    // Without a listener, an error of a connection that the server closes would end the process.
    this.on('connect', (client) => client.on('error', () => {}))
    // Prisma's adapter passes a configuration. Of pg's other signatures, only a plain text is supported.
    this.query =
      (async (query: string | pg.QueryConfig) =>
        await this.#withConnection(async (send) =>
          await send(typeof query === 'string' ? { text: query } : query)
        )) as pg.Pool['query']
  }

  /** Prisma calls this for a transaction, which has the time limit of one statement. */
  override async connect (): Promise<pg.PoolClient> {
    const { send: query, release } = await this.#borrow()
    const ignoreListener = () => {} // of errors, which the pool handles
    const client = { query, release, on: ignoreListener, removeListener: ignoreListener }
    return client as unknown as pg.PoolClient
  }

  /**
   * Runs a prepared statement and returns its rows.
   *
   * A pooler in transaction mode should track prepared statements (PgBouncer 1.21,
   * `max_prepared_statements`). A statement that fails because its name is lost, or because the schema has
   * changed, is not prepared any more. Behind a pooler, a new connection wouldn't help.
   */
  async run<Row> (statement: Statement<Row>, values?: Values): Promise<Row[]> {
    const { text, name } = statement
    const query = { text, values: positional(statement, values), types: TYPES }
    return await this.#withConnection(async (send) => {
      if (!this.#prepares || this.#unprepared.has(name)) return (await send(query)).rows
      try {
        return (await send({ ...query, name })).rows
      } catch (error) {
        if (!isPreparationFault(error)) throw error
        this.#unprepared.add(name)
        return (await send(query)).rows
      }
    })
  }

  async #withConnection<T> (action: (send: SendQuery) => Promise<T>): Promise<T> {
    const { send, release } = await this.#borrow()
    return await action(send).finally(release)
  }

  async #borrow (): Promise<{ readonly send: SendQuery, readonly release: () => void }> {
    const deadline = performance.now() + this.#timeoutMs
    const client = await this.#connect()
    let isUsable = true
    const onError = () => {
      isUsable = false
    }
    client.on('error', onError)

    const send: SendQuery = async (query) => {
      const remainingMs = Math.max(1, Math.ceil(deadline - performance.now()))
      const endQuery = this.#queryHook?.(query.text)
      try {
        const result = await client.query({ ...query, query_timeout: remainingMs } as pg.QueryConfig)
        endQuery?.()
        return result
      } catch (error) {
        endQuery?.(error)
        if (!isServerFault(error)) throw error
        // After our own timeout, the response may still arrive. After a FATAL error, the server disconnects.
        isUsable &&= (error as { severity?: unknown }).severity === 'ERROR'
        throw new DatabaseUnavailableError(messageOf(error), { cause: error })
      }
    }
    return {
      send,
      release () {
        client.removeListener('error', onError)
        client.release(!isUsable)
      }
    }
  }

  async #connect (): Promise<pg.PoolClient> {
    const endQuery = this.#queryHook?.(CONNECT)
    try {
      const client = await super.connect()
      endQuery?.()
      return client
    } catch (error) {
      endQuery?.(error)
      // This includes a wrong password: it was valid at start, so the request is not at fault.
      throw new DatabaseUnavailableError(messageOf(error), { cause: error })
    }
  }
}
