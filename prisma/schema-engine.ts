import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum,
  type SqlMigrationAwareDriverAdapterFactory } from '@prisma/driver-adapter-utils'
import * as engineBindings from '@prisma/schema-engine-wasm/schema_engine_bg'
import pg from 'pg'
import { connectionOptions, schemaOf, type Connection } from '../src/infra/postgres/connection.ts'
import type { Migration } from '../src/infra/postgres/migration-repository.ts'

// Prisma's schema engine, compiled to WebAssembly: the engine of `prisma migrate`, but without a binary to
// download. `npm run db:migration` and the tests use it, but the service doesn't.

export type SchemaEngine = engineBindings.SchemaEngine
export type MigrationList = engineBindings.MigrationList

/** No table is managed by another program. */
export const NO_FILTERS = { externalTables: [], externalEnums: [] }

/** @types/node leaves this type to the DOM library, which is not loaded. */
declare const WebAssembly: {
  instantiate(
    bytes: Uint8Array,
    imports: object
  ): Promise<{ instance: { exports: { __wbindgen_start(): void } } }>
}

/** To apply migrations, the engine needs to know only the provider. */
const ANY_DATAMODEL = 'datasource db {\n  provider = "postgresql"\n}\n'

let loading: Promise<void> | undefined

/** Runs `action` with an engine on a database, then closes the connection. */
export async function withSchemaEngine<T> (
  connection: Connection,
  action: (engine: SchemaEngine) => Promise<T>,
  datamodel = ANY_DATAMODEL
): Promise<T> {
  loading ??= loadEngine()
  await loading
  const pool = new pg.Pool({ ...connectionOptions(connection), max: 1, idleTimeoutMillis: 0 })
  pool.on('error', () => {}) // the next statement reports the error
  try {
    const engine = await engineBindings.SchemaEngine.new(
      { datamodels: [['schema.prisma', datamodel]] },
      () => {},
      bindMigrationAwareSqlAdapterFactory(createAdapterFactory(pool, schemaOf(connection)))
    )
    try {
      return await action(engine)
    } finally {
      engine.free()
    }
  } finally {
    await pool.end()
  }
}

/** Converts migrations to the form that the engine takes. */
export function migrationList (migrations: readonly Migration[]): MigrationList {
  return {
    baseDir: 'prisma/migrations',
    lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
    shadowDbInitScript: '',
    migrationDirectories: migrations.map(({ name, sql }) => ({
      path: name,
      migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: sql } }
    }))
  }
}

async function loadEngine (): Promise<void> {
  const path = fileURLToPath(import.meta.resolve('@prisma/schema-engine-wasm/schema_engine_bg')).replace(
    /\.js$/,
    '.wasm'
  )
  const { instance } = await WebAssembly.instantiate(await readFile(path), {
    './schema_engine_bg.js': { ...engineBindings, ...unrefTimers() }
  })
  // The engine reports the reason for a panic to this object. If it is missing, the engine panics about that.
  const scope = globalThis as { PRISMA_WASM_PANIC_REGISTRY?: { set_message(message: string): void } }
  scope.PRISMA_WASM_PANIC_REGISTRY ??= {
    set_message (message) {
      throw new Error(message)
    }
  }
  engineBindings.__wbg_set_wasm(instance.exports)
  instance.exports.__wbindgen_start()
}

/** The engine never clears the timer of its lock, which would keep the process alive for 10 s. */
function unrefTimers (): Record<string, (action: () => void, ms: number) => NodeJS.Timeout> {
  const names = Object.keys(engineBindings).filter((name) => name.startsWith('__wbg_setTimeout_'))
  return Object.fromEntries(names.map((name) => [name, (action, ms) => setTimeout(action, ms >>> 0).unref()]))
}

function createAdapterFactory (
  pool: pg.Pool,
  schema: string | undefined
): SqlMigrationAwareDriverAdapterFactory {
  const charColumnsOf = readCharColumns(pool)
  const connect = async () => {
    const adapter = await new PrismaPg(pool, schema === undefined ? {} : { schema }).connect()
    // The adapter's own method splits scripts at every semicolon, even in functions, strings and comments.
    adapter.executeScript = async (script) => {
      await pool.query(script)
    }
    // The engine panics if such a column isn't declared as a character, for example with CHECK constraints.
    const queryRaw = adapter.queryRaw.bind(adapter)
    adapter.queryRaw = async (query) => {
      const result = await queryRaw(query)
      for (const column of charColumnsOf(result.rows)) result.columnTypes[column] = ColumnTypeEnum.Character
      return result
    }
    return adapter
  }
  return { provider: 'postgres', adapterName: '@prisma/adapter-pg', connect, connectToShadowDb: connect }
}

/**
 * Makes a pool return PostgreSQL's internal type "char" as text, because the adapter refuses this type, which
 * the system catalogue uses.
 *
 * @returns a function that returns the indexes of the columns of this type, given the rows of a result
 */
function readCharColumns (pool: pg.Pool): (rows: unknown[]) => readonly number[] {
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
