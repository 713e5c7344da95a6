import { performance } from 'node:perf_hooks'
import pg from 'pg'
import type { Observer } from '../observer.ts'
import { preparationTrouble, renewed, TYPES, type Statement } from './statement.ts'
import { DatabaseUnavailableError, isServerTrouble } from './unavailable.ts'

// The connections to PostgreSQL, with one limit of time for everything that a caller waits for: a free place in the
// pool, the connection and the answer together. pg bounds each of them alone, which adds up to several times as much.

export interface PoolSettings {
  /** Where PostgreSQL is: a URL, or the folder of a Unix socket. */
  connection: string | { host: string, port: number }
  max: number
  /** Longest wait of one statement, and of one interactive transaction as a whole, in milliseconds. */
  timeoutMs: number
  /** Told of each statement, and of each wait for a connection. */
  observer?: Observer | undefined
}

/** The part of pg's client that the adapter uses in a transaction. */
interface TransactionClient extends Pick<pg.PoolClient, 'release' | 'on' | 'removeListener'> {
  query (statement: pg.QueryConfig | string, values?: unknown[]): Promise<pg.QueryResult>
}

/**
 * A pool that answers within `timeoutMs`, and whose errors are `DatabaseUnavailableError` where the server is to blame.
 *
 * @throws {Error} when the connection URL can't be read; the message doesn't repeat it
 */
export class BoundedPool extends pg.Pool {
  readonly #timeoutMs: number
  readonly #observer: Observer | undefined
  /** Statements whose plans a change of the schema has outdated, and what they became. */
  readonly #renewed = new Map<Statement<unknown>, Statement<unknown>>()
  #keepsNames = true

  constructor ({ connection, max, timeoutMs, observer }: PoolSettings) {
    super({
      ...connectionOptions(connection),
      max,
      application_name: 'landfall',
      connectionTimeoutMillis: timeoutMs,
      // A little earlier than our own limit: an answer, even this one, leaves the connection usable.
      statement_timeout: Math.ceil(timeoutMs * 0.9),
      // The server forgets a transaction whose process was frozen, and with it the locks.
      idle_in_transaction_session_timeout: 2 * timeoutMs,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000
    })
    this.#timeoutMs = timeoutMs
    this.#observer = observer
    // Between the pool's own listener and the one of `bound` there is none. An end that the server sends together with its
    // first readiness falls in there and would end the process; so it is the next statement that fails.
    this.on('connect', (client) => client.on('error', () => {}))
  }

  /** Hands out a connection for a transaction that must end within the limit. The adapter never uses the callback form. */
  override connect (): Promise<pg.PoolClient>
  override connect (): any {
    return this.#lease()
  }

  /** Runs one statement; the adapter never uses the callback form. */
  override query (...args: any[]): any {
    return this.#query(args as Parameters<TransactionClient['query']>)
  }

  /**
   * Runs a prepared statement by itself; gives its rows. Never for a part of a transaction.
   *
   * Behind a pooler in transaction mode it is prepared where the pooler keeps track of that (PgBouncer from 1.21 on,
   * `max_prepared_statements`); from the first sign that it doesn't, all statements are sent whole.
   */
  async run<Row> (statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]> {
    const lease = await this.#lease()
    try {
      for (let retries = 0; ; retries++) {
        const { text, name } = this.#renewed.get(statement) ?? statement
        try {
          return (await lease.query({ text, name: this.#keepsNames ? name : undefined, values: values as unknown[], types: TYPES })).rows
        } catch (error) {
          // It failed before it did anything, so that even a write may be repeated.
          const trouble = preparationTrouble(error)
          if (trouble === undefined || retries === 2) throw error
          if (trouble === 'not kept') this.#keepsNames = false
          // Unless another one has done so meanwhile. A fresh connection would not do: a pooler's own are old.
          else if ((this.#renewed.get(statement) ?? statement).text === text) this.#renewed.set(statement, renewed({ text, name }))
        }
      }
    } finally {
      lease.release()
    }
  }

  async #query (args: Parameters<TransactionClient['query']>): Promise<pg.QueryResult> {
    const lease = await this.#lease()
    try {
      return await lease.query(...args)
    } finally {
      lease.release()
    }
  }

  async #lease (): Promise<TransactionClient> {
    const deadline = performance.now() + this.#timeoutMs
    const observed = this.#observer?.(CONNECT)
    try {
      const client = await super.connect()
      observed?.()
      return bound(client, deadline, this.#observer)
    } catch (error) {
      observed?.(error)
      // Even a wrong password: it was right when the service started, and no request can do anything about it.
      throw new DatabaseUnavailableError(messageOf(error), { cause: error })
    }
  }
}

/** What observers are told of the wait for a connection, as if it were a statement. */
export const CONNECT = 'CONNECT'

/** A connection whose statements share one deadline, and that isn't used again after a failure that could linger. */
function bound (client: pg.PoolClient, deadline: number, observer: Observer | undefined): TransactionClient {
  let broken = false
  const onError = () => { broken = true }
  client.on('error', onError)

  const query: TransactionClient['query'] = async (config, values) => {
    const remaining = Math.max(1, Math.ceil(deadline - performance.now()))
    const statement = typeof config === 'string' ? { text: config, values } : config
    const observed = observer?.(statement.text)
    try {
      const result = await client.query({ ...statement, query_timeout: remaining } as pg.QueryConfig)
      observed?.()
      return result
    } catch (error) {
      observed?.(error)
      if (!isServerTrouble(error)) throw error
      // After a timeout of ours its answer is still to come: nobody else must get it. After anything worse than an error
      // the server closes the connection, which may be noticed only when the next one has it.
      broken ||= (error as { severity?: unknown }).severity !== 'ERROR'
      throw new DatabaseUnavailableError(messageOf(error), { cause: error })
    }
  }
  return {
    query,
    release () {
      client.removeListener('error', onError)
      client.release(broken)
    },
    on: client.on.bind(client),
    removeListener: client.removeListener.bind(client)
  }
}

/** What pg needs to connect to a database, without ever repeating its URL in an error. */
export function connectionOptions (connection: PoolSettings['connection']): pg.PoolConfig {
  if (typeof connection !== 'string') return { ...connection, user: 'postgres', database: 'postgres' }
  const schema = schemaOf(connection)
  const url = new URL(connection)
  // The adapter drops the offset of what it reads: in a session with another time zone every date would be wrong.
  const options = [url.searchParams.get('options'), '-c TimeZone=UTC', schema === undefined ? undefined : `-c search_path=${schema}`]
  url.searchParams.set('options', options.filter(Boolean).join(' '))
  return { connectionString: url.href }
}

/** The schema that a URL names in the way of Prisma (`?schema=`), unless it is the usual one. */
export function schemaOf (url: string): string | undefined {
  if (!URL.canParse(url)) throw new Error('DATABASE_URL is not a valid address (special characters in a password must be percent-encoded)')
  const schema = new URL(url).searchParams.get('schema') ?? 'public'
  if (!/^[a-z_][a-z0-9_$]{0,62}$/.test(schema)) throw new Error('DATABASE_URL names a schema that is not a plain lower-case name')
  return schema === 'public' ? undefined : schema
}

/** The address of a database as it may be printed: without user, password and parameters. */
export function printableAddress (connection: PoolSettings['connection']): string {
  if (typeof connection !== 'string') return 'embedded PostgreSQL'
  if (!URL.canParse(connection)) return 'PostgreSQL'
  const { host, pathname, searchParams } = new URL(connection)
  return `PostgreSQL at ${host || searchParams.get('host') || 'localhost'}${pathname === '/' ? '' : pathname}`
}

/** The one line of an error; Node's errors for several addresses at once have none of their own. */
export function messageOf (error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join(', ')
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n', 1)[0] as string
}
