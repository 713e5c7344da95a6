import { createHash } from 'node:crypto'
import pg from 'pg'

// Statements that PostgreSQL reads and plans once per connection. Against Prisma's typed queries under the same pool, one
// and ten at once (`npm run bench:queries`): the public read 2.6 and 1.6 times as often, the session check 4.7 and 6.7,
// create 2.0 and 2.8, replace 2.0 and 2.7, a list 1.6, with 0.12 to 0.65 of the CPU time. SQL through Prisma's $queryRaw
// lies between; at ten reads at once it even falls to 0.67, as only findUnique makes one query of several. Names for
// Prisma's own statements (statementNameGenerator) gain 1.0 to 1.2: most of the time goes into making the query. So what
// is on everybody's way is sent like this, and Prisma does the rest.

/** SQL with `$1` … for its values, and what a row of its answer holds. */
export interface Statement<Row> {
  readonly text: string
  /** Made of the text, so that releases that share a pooler's connections never run each other's. */
  readonly name: string
  /** Never there: it ties the type of the rows to the statement. */
  readonly row?: Row
}

/** Runs statements by themselves: a pool, the client, or a service that is visited. */
export interface StatementRunner {
  run<Row> (statement: Statement<Row>, values: readonly unknown[]): Promise<Row[]>
}

/**
 * Makes a statement, once, at the top of a module.
 *
 * @param text names its columns as the row does (`user_id AS "userId"`); never `*`, whose meaning changes with the table
 */
export const statement = <Row>(text: string): Statement<Row> =>
  ({ text, name: `landfall_${createHash('sha256').update(text).digest('base64url').slice(0, 22)}` })

/** The same under another name and text, which neither a connection nor a pooler knows yet. */
export const renewed = <Row>(old: Statement<Row>): Statement<Row> => statement(`${old.text} --`)

/** SQLSTATE of a plan whose columns have changed since it was made: by a migration that ran beside this process. */
const CHANGED_RESULT = '0A000'
/** SQLSTATEs of a name that the server has lost, or has from somebody else: a pooler that doesn't keep them apart. */
const LOST_NAME = '26000'
const TAKEN_NAME = '42P05'

/** What a failure says about the prepared statement, apart from what it does. */
export function preparationTrouble (error: unknown): 'outdated' | 'not kept' | undefined {
  const { code } = error as { code?: unknown }
  if (code === CHANGED_RESULT) return 'outdated'
  return code === LOST_NAME || code === TAKEN_NAME ? 'not kept' : undefined
}

/** As pg has it, but that `bigint` comes as BigInt, as it does from Prisma. */
export const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format as 'text')
}
