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

/** The pool limits the time of a transaction. In milliseconds. */
const NO_LIMIT = 2 ** 31 - 1

/** Prisma's client within a transaction. Use no other client there: it may wait for the connection. */
export type Transaction = Prisma.TransactionClient

/** Prisma's client, which can also run prepared statements. Both use the same pool and time limit. */
export class Database extends PrismaClient implements StatementRunner {
  readonly purges: boolean
  readonly #pool: BoundedPool

  /**
   * @param schema the schema of the tables; undefined for `public`
   * @param purges whether a change of what readers get also queues a purge of the CDN (CDN_PURGE)
   */
  constructor (pool: BoundedPool, schema?: string, purges = false) {
    super({
      adapter: new PrismaPg(pool, { ...schema !== undefined && { schema }, disposeExternalPool: true }),
      errorFormat: 'minimal',
      transactionOptions: { maxWait: NO_LIMIT, timeout: NO_LIMIT }
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

  /** Returns the time of PostgreSQL's clock, which all processes share. That of a process may be wrong. */
  async now (): Promise<Date> {
    const [{ now }] = await this.$queryRaw<[{ now: Date }]>`SELECT now() AS now`
    return now
  }

  /** Checks the connection. @throws {DatabaseUnavailableError} if PostgreSQL is unavailable */
  async ping (): Promise<void> {
    await this.#pool.query('SELECT 1')
  }
}

/** The most rows that one statement deletes. It takes a small part of the statement timeout. */
export const BATCH_SIZE = 1000

/** What Prisma's clients of all tables can do. */
interface Table {
  findFirst(query: object): Promise<object | null>
  deleteMany(query: object): Promise<{ readonly count: number }>
}

/** Deletes rows in batches. @returns how many */
export async function deleteInBatches (table: Table, where: object, signal?: AbortSignal): Promise<number> {
  let sum = 0
  for (let count = BATCH_SIZE; count === BATCH_SIZE && signal?.aborted !== true;) {
    count = (await table.deleteMany({ where, limit: BATCH_SIZE })).count
    sum += count
  }
  return sum
}

/**
 * Deletes rows in batches, if the time in a column is before a given time. Each batch begins at the time of
 * the last row of the one before, so that it doesn't read deleted rows.
 *
 * @param prepare is called with the condition of times before their rows are deleted
 * @returns the number of deleted rows
 */
export async function deleteOlder (
  table: Table,
  column: string,
  before: Date,
  signal?: AbortSignal,
  prepare?: (times: object) => Promise<unknown>
): Promise<number> {
  let sum = 0
  for (let from: Date | undefined = new Date(0); from !== undefined && signal?.aborted !== true;) {
    const last = await table.findFirst({
      where: { [column]: { gte: from, lt: before } },
      orderBy: { [column]: 'asc' },
      skip: BATCH_SIZE - 1,
      select: { [column]: true }
    }) as Record<string, Date> | null
    const times = { gte: from, ...last === null ? { lt: before } : { lte: last[column] } }
    await prepare?.(times)
    sum += await deleteInBatches(table, { [column]: times }, signal)
    from = last?.[column]
  }
  return sum
}
