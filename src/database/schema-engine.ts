import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum, type SqlMigrationAwareDriverAdapterFactory } from '@prisma/driver-adapter-utils'
import * as engineBindings from '@prisma/schema-engine-wasm/schema_engine_bg'
import pg from 'pg'
import { connectionOptions, schemaOf, type PoolSettings } from './pool.ts'

// Prisma's schema engine, compiled to WebAssembly: what `prisma migrate` runs, without the download of a binary.

export type SchemaEngine = engineBindings.SchemaEngine
export type MigrationList = engineBindings.MigrationList

/** Nothing in the database is managed by somebody else. */
export const NO_FILTERS = { externalTables: [], externalEnums: [] }

/** The types of Node leave it to those of browsers, of which there are none here. */
declare const WebAssembly: {
  instantiate (bytes: Uint8Array, imports: object): Promise<{ instance: { exports: { __wbindgen_start (): void } } }>
}

/** Applying migrations asks for no more of a schema than that there is one. */
const ANY_DATAMODEL = 'datasource db {\n  provider = "postgresql"\n}\n'

const STATEMENT_TIMEOUT_MS = 30_000

let loading: Promise<void> | undefined

/** Starts an engine on one connection; ending the session releases every lock that the engine took. */
export async function startSchemaEngine (session: SchemaSession, datamodel = ANY_DATAMODEL): Promise<SchemaEngine> {
  loading ??= loadEngine()
  await loading
  return await engineBindings.SchemaEngine.new({ datamodels: [['schema.prisma', datamodel]] }, () => {}, bindMigrationAwareSqlAdapterFactory(session.adapterFactory()))
}

async function loadEngine (): Promise<void> {
  const path = fileURLToPath(import.meta.resolve('@prisma/schema-engine-wasm/schema_engine_bg')).replace(/\.js$/, '.wasm')
  const { instance } = await WebAssembly.instantiate(await readFile(path), { './schema_engine_bg.js': { ...engineBindings, ...unrefTimers() } })
  // Where the engine puts the reason of a panic; without it the panic would be about that.
  const scope = globalThis as { PRISMA_WASM_PANIC_REGISTRY?: { set_message (message: string): void } }
  scope.PRISMA_WASM_PANIC_REGISTRY ??= { set_message (message) { throw new Error(message) } }
  engineBindings.__wbg_set_wasm(instance.exports)
  instance.exports.__wbindgen_start()
}

/** The engine's timer of 10 s for its lock isn't cleared with success: a process that has finished would wait for it. */
function unrefTimers (): Record<string, (action: () => void, ms: number) => NodeJS.Timeout> {
  const names = Object.keys(engineBindings).filter((name) => name.startsWith('__wbg_setTimeout_'))
  return Object.fromEntries(names.map((name) => [name, (action, ms) => setTimeout(action, ms >>> 0).unref()]))
}

/**
 * One connection, and never another one in its place: the advisory lock of a migration belongs to it.
 * The scripts of migrations have no limit of time, as building an index may take long.
 */
export class SchemaSession {
  readonly #pool: pg.Pool
  readonly #schema: string | undefined
  readonly #charactersIn: (rows: unknown[]) => readonly number[]
  /** Why the last script failed, in PostgreSQL's words. */
  scriptError: Error | undefined

  constructor (connection: PoolSettings['connection'], connectTimeoutMs: number) {
    this.#schema = typeof connection === 'string' ? schemaOf(connection) : undefined
    let connected = false
    this.#pool = new pg.Pool({
      ...connectionOptions(connection),
      application_name: 'landfall-migrate',
      max: 1,
      idleTimeoutMillis: 0,
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
      onConnect: () => {
        if (connected) throw new Error('The connection to PostgreSQL was lost')
        connected = true
      }
    })
    this.#charactersIn = readInternalCharacters(this.#pool)
    // What a lost idle connection means is said by the next statement.
    this.#pool.on('error', () => {})
  }

  get schema (): string | undefined {
    return this.#schema
  }

  /** Runs a short statement of our own, which may take seconds at most. */
  async query (sql: string): Promise<Record<string, unknown>[]> {
    return (await this.#pool.query({ text: sql, query_timeout: STATEMENT_TIMEOUT_MS } as pg.QueryConfig)).rows
  }

  async end (): Promise<void> {
    await this.#pool.end()
  }

  adapterFactory (): SqlMigrationAwareDriverAdapterFactory {
    const connect = async () => {
      const adapter = await new PrismaPg(this.#pool, this.#schema === undefined ? {} : { schema: this.#schema }).connect()
      // As one message, as the real engine does it: the adapter's own splits at every semicolon, also in functions,
      // strings and comments, and a failure in the middle would leave what came before it.
      adapter.executeScript = async (script) => {
        try {
          await this.#pool.query(script)
        } catch (error) {
          this.scriptError = error as Error
          throw error
        }
      }
      // The engine panics on such a column if it is not said to be a character: of CHECK constraints, for one.
      const queryRaw = adapter.queryRaw.bind(adapter)
      adapter.queryRaw = async (query) => {
        const result = await queryRaw(query)
        for (const column of this.#charactersIn(result.rows)) result.columnTypes[column] = ColumnTypeEnum.Character
        return result
      }
      return adapter
    }
    return { provider: 'postgres', adapterName: '@prisma/adapter-pg', connect, connectToShadowDb: connect }
  }
}

/**
 * The adapter refuses PostgreSQL's internal type "char", of which the engine's view of the catalogue has columns: it gets
 * them as text.
 *
 * @returns which columns of a result of the pool they were; the adapter keeps the array of the rows
 */
function readInternalCharacters (pool: pg.Pool): (rows: unknown[]) => readonly number[] {
  const CHAR = 18
  const TEXT = 25
  const found = new WeakMap<unknown[], number[]>()
  const query = pool.query.bind(pool) as (...args: unknown[]) => Promise<pg.QueryResult>
  pool.query = (async (...args: unknown[]) => {
    const result = await query(...args)
    const columns: number[] = []
    for (const [column, field] of result.fields?.entries() ?? []) {
      if (field.dataTypeID !== CHAR) continue
      field.dataTypeID = TEXT
      columns.push(column)
    }
    if (columns.length > 0) found.set(result.rows, columns)
    return result
  }) as typeof pool.query
  return (rows) => found.get(rows) ?? []
}
