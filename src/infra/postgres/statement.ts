import { createHash } from 'node:crypto'
import pg from 'pg'

/** A statement with placeholders (`$1`, `$2`, …) for its values, and the type of its rows. */
export interface Statement<Row> {
  readonly text: string
  /** Contains a hash of the text, so that releases behind one pooler never run each other's statements. */
  readonly name: string
  /** Never set. It only carries the type of the rows. */
  readonly row?: Row
}

/** Runs statements, for example on a pool or through the admin socket of a running service. */
export interface StatementRunner {
  run<Row>(statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>
}

/**
 * Defines a prepared statement, which PostgreSQL parses once per connection. It is two to seven times as fast
 * as a query of Prisma (`npm run bench:queries`). Define statements at the top of a module.
 *
 * @param text must name the columns like the fields of the row (`user_id AS "userId"`); `*` isn't allowed,
 *   because its columns change with the table
 */
export const statement = <Row>(text: string): Statement<Row> => ({
  text,
  name: `landfall_${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`
})

/** Returns the same statement under a new name, which no connection and no pooler knows yet. */
export const renewed = <Row>(old: Statement<Row>): Statement<Row> => statement(`${old.text} --`)

/** SQLSTATE of a cached plan whose result columns were changed by a migration. */
const CHANGED_RESULT = '0A000'
/** SQLSTATEs of a name that the connection doesn't know, or that another client of the pooler has used. */
const UNKNOWN_NAME = '26000'
const DUPLICATE_NAME = '42P05'

/** Classifies errors of prepared statements: the plan is outdated, or the name is lost. Else undefined. */
export function preparationFault (error: unknown): 'outdated' | 'lost' | undefined {
  const { code } = error as { code?: unknown }
  if (code === CHANGED_RESULT) return 'outdated'
  return code === UNKNOWN_NAME || code === DUPLICATE_NAME ? 'lost' : undefined
}

/** pg's types, except that `bigint` is a BigInt, as with Prisma. */
export const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format as 'text')
}
