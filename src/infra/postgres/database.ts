import { PrismaPg } from '@prisma/adapter-pg'
import { Prisma, PrismaClient } from './generated/prisma/client.ts'
import type { BoundedPool } from './pool.ts'
import type { Statement, StatementRunner, Values } from './statement.ts'

const NOT_FOUND = 'P2025'
const NOT_UNIQUE = 'P2002'

/** Waits for an update or a delete of Prisma. Returns undefined if there is no such row. */
export const unlessMissing = async <Row>(query: Promise<Row>): Promise<Row | undefined> =>
  await unlessFailedWith(NOT_FOUND, query)

/** Waits for a write of Prisma. Returns undefined if a row with the same unique columns exists. */
export const unlessTaken = async <Row>(query: Promise<Row>): Promise<Row | undefined> =>
  await unlessFailedWith(NOT_UNIQUE, query)

async function unlessFailedWith<Row> (code: string, query: Promise<Row>): Promise<Row | undefined> {
  try {
    return await query
  } catch (error) {
    if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === code) return undefined
    throw error
  }
}

/** Prisma's client, which can also run prepared statements. Both use the same pool and time limit. */
export class Database extends PrismaClient implements StatementRunner {
  readonly purges: boolean
  readonly #pool: BoundedPool

  /**
   * @param schema the schema of the tables; undefined for `public`
   * @param purges whether a change of what readers get also queues a purge of the CDN
   */
  constructor (pool: BoundedPool, schema?: string, purges = false) {
    super({
      adapter: new PrismaPg(pool, { ...schema !== undefined && { schema }, disposeExternalPool: true }),
      errorFormat: 'minimal'
    })
    this.purges = purges
    this.#pool = pool
  }

  /**
   * Runs a prepared statement in one round trip and returns its rows.
   *
   * @throws {DatabaseUnavailableError} if PostgreSQL is unavailable
   * @throws {pg.DatabaseError} if PostgreSQL refuses the statement; `code` is the SQLSTATE
   */
  async run<Row> (statement: Statement<Row>, values?: Values): Promise<Row[]> {
    return await this.#pool.run(statement, values)
  }

  /** Checks the connection. @throws {DatabaseUnavailableError} if PostgreSQL is unavailable */
  async ping (): Promise<void> {
    await this.#pool.query('SELECT 1')
  }
}
