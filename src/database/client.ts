import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../generated/prisma/client.ts'
import type { BoundedPool } from './pool.ts'
import type { Statement } from './statement.ts'

export interface DatabaseClientOptions {
  /** Unless it is the usual one. */
  readonly schema: string | undefined
  /** Longest wait for a transaction, and longest transaction, in milliseconds; a little more than the pool's. */
  readonly transactionTimeoutMs: number
  /** Called when a connection that nobody uses breaks. */
  readonly onLost: (error: Error) => void
}

/** Prisma, and beside it the prepared statements, on one pool: same connections, same limits of time, same errors. */
export class Database extends PrismaClient {
  readonly #pool: BoundedPool

  constructor (pool: BoundedPool, { schema, transactionTimeoutMs, onLost }: DatabaseClientOptions) {
    super({
      adapter: new PrismaPg(pool, { ...schema !== undefined && { schema }, disposeExternalPool: true }),
      transactionOptions: { maxWait: transactionTimeoutMs, timeout: transactionTimeoutMs },
      errorFormat: 'minimal'
    })
    this.#pool = pool
    // Prisma listens too, but only from its first query on, and an error that nobody listens to ends the process.
    pool.on('error', onLost)
  }

  /**
   * Runs a statement by itself, outside of every transaction, in one round trip; gives its rows.
   *
   * @throws {DatabaseUnavailableError} when PostgreSQL is to blame; else the error of pg, with its SQLSTATE as `code`
   */
  async run<Row> (statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]> {
    return await this.#pool.run(statement, values)
  }
}
