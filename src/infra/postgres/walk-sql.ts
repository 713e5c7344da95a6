// Lists that are searched and sorted. A statement walks along an index in the order of the list, and looks
// at a limited number of rows, whatever the size of the account.

/** Rows that a statement may look at. */
const SCAN_LIMIT = 20_000

export interface WalkedRow {
  readonly id: string
  /** Whether it belongs to the list. If not, it is the last one that was looked at. */
  readonly isMatch: boolean
  /** Whether the walk has ended at this row because of its limit. */
  readonly isScanEnd: boolean
}

interface Walk {
  /** A condition on the parameters. It is true for one of the walks of a statement. */
  readonly when: string
  readonly columns: string
  readonly table: string
  /** The columns of the index after `user_id`. The last one is the id. */
  readonly order: readonly string[]
  /** After which values of these columns the walk begins. */
  readonly after: readonly string[]
  readonly direction: 'ASC' | 'DESC' | typeof NEWEST_FIRST
}

/** The order of an index of `user_id` and ids. The primary key, with rows of other accounts, hasn't it. */
export const NEWEST_FIRST = 'DESC NULLS LAST'

// With a limit that it knows, PostgreSQL would sort all rows of an account whose size it underestimates.
const walkSql = ({ when, columns, table, order, after, direction }: Walk): string =>
  `(
    SELECT ${columns} FROM ${table}
    WHERE ${when} AND user_id = :userId::integer
      AND (${order.join(', ')}) ${direction === 'ASC' ? '>' : '<'} (${after.join(', ')})
    ORDER BY ${order.map((column) => `${column} ${direction}`).join(', ')} LIMIT (SELECT ${SCAN_LIMIT})
  )`

/**
 * A subquery with rows of a list, one more than `:limit` if there are more, and their `number`. Their columns
 * must include `id`.
 *
 * @param maxLimit a constant, without which PostgreSQL would overestimate the number of rows
 */
export const listSql = (walks: readonly Walk[], condition: string, maxLimit: number): string =>
  `(
    SELECT * FROM (
      SELECT *, number = ${SCAN_LIMIT} AS "isScanEnd" FROM (
        SELECT *, ${condition} AS "isMatch", row_number() OVER () AS number
        FROM (${walks.map(walkSql).join(' UNION ALL ')}) walked
      ) numbered
      WHERE "isMatch" OR number = ${SCAN_LIMIT} LIMIT ${maxLimit + 1}
    ) bounded LIMIT :limit::integer + 1
  )`

/** A condition: `:q` is null, or a part of a text in its search form. Case and accents don't count. */
export const containsSql = (text: string): string =>
  `(:q::text IS NULL OR position((SELECT search_form(:q::text)) IN ${text}) > 0)`

/**
 * Splits the rows of `listSql` into those of a page and the cursor of the next one.
 *
 * @param cursorOf returns the cursor after a row
 */
export function splitRows<Row extends WalkedRow> (
  found: readonly Row[],
  limit: number,
  cursorOf: (last: Row) => string
): { rows: Row[], next: string | undefined } {
  const seen = found.slice(0, limit)
  const last = seen.at(-1)
  const hasNext = found.length > limit || last?.isScanEnd === true
  return {
    rows: seen.filter(({ isMatch }) => isMatch),
    next: last !== undefined && hasNext ? cursorOf(last) : undefined
  }
}
