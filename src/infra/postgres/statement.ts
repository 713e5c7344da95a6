import { createHash } from 'node:crypto'
import pg from 'pg'

/** A prepared statement, and the type of its rows. */
export interface Statement<Row> {
  /** With the placeholders of PostgreSQL: `$1`, `$2`, … */
  readonly text: string
  /** The names of the parameters, in the order of the placeholders. */
  readonly parameters: readonly string[]
  /** Contains a hash of the text, so that releases behind one pooler never run each other's statements. */
  readonly name: string
  /** Never set. It only carries the type of the rows. */
  readonly row?: Row
}

/** Runs statements, for example on a pool. */
export interface StatementRunner {
  /** Whether a change of what readers get also queues a purge of the CDN (CDN_PURGE). */
  readonly purges?: boolean
  /** @param values the values of the parameters, by name */
  run<Row>(statement: Statement<Row>, values?: Values): Promise<Row[]>
}

/** Values of parameters by name. */
export type Values = Readonly<Record<string, unknown>>

/** A colon and a name, but not the cast `::uuid`; or a quoted text, in which nothing is a parameter. */
const PARAMETER = /'[^']*'|(?<!:):([a-z]\w*)/gi

/**
 * Defines a prepared statement, which PostgreSQL parses once per connection. It is two to seven times as fast
 * as a query of Prisma (`npm run bench:queries`). Define statements at the top of a `*-repository.ts` file.
 *
 * @param text has named parameters (`:userId`), and must name the columns like the fields of the row
 *   (`user_id AS "userId"`); `*` isn't allowed, because its columns change with the table
 */
export function statement<Row> (text: string): Statement<Row> {
  const parameters: string[] = []
  const positional = text.replace(PARAMETER, (match, name?: string) => {
    if (name === undefined) return match
    if (!parameters.includes(name)) parameters.push(name)
    return `$${parameters.indexOf(name) + 1}`
  })
  // So that releases behind one pooler never run each other's statements.
  const hash = createHash('sha256').update(positional).digest('base64url').slice(0, 22)
  return { text: positional, parameters, name: `landfall_${hash}` }
}

/** SQLSTATE unique_violation. */
const UNIQUE_VIOLATION = '23505'

/** Whether a statement failed because a row with the same unique columns exists. */
export const isUniqueViolation = (error: unknown): boolean =>
  (error as { code?: unknown }).code === UNIQUE_VIOLATION

/** Returns values in the order of the placeholders. @throws {TypeError} if one is missing */
export function positional ({ parameters }: Statement<unknown>, values: Values = {}): unknown[] {
  return parameters.map((name) => {
    const value = values[name]
    if (value === undefined) throw new TypeError(`The parameter ${name} of a statement has no value`)
    return value
  })
}

/** SQLSTATEs of statements that fail only because they are prepared. */
const PREPARATION_FAULTS: readonly unknown[] = [
  '0A000', // a migration has changed the columns of the result
  '26000', // the connection doesn't know the name
  '42P05' // another client of the pooler has used the name
]

/** Whether a statement failed, without any effect, only because it was prepared. */
export const isPreparationFault = (error: unknown): boolean =>
  PREPARATION_FAULTS.includes((error as { code?: unknown }).code)

/** pg's types, except that `bigint` is a BigInt, as with Prisma. */
export const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format as 'text')
}
