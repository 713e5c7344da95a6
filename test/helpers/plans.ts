import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import { positional, type Statement } from '../../src/infra/postgres/statement.ts'

// What PostgreSQL does for a prepared statement.

interface Run {
  readonly statement: Statement<unknown>
  readonly values: Readonly<Record<string, unknown>>
}

/** Returns an array to which the prepared statements of an app are added. */
export function watchStatements (app: FastifyInstance): Run[] {
  const runs: Run[] = []
  const { database } = app
  const run = database.run.bind(database)
  database.run = async (statement, values = {}) => {
    runs.push({ statement, values: values as Run['values'] })
    return await run(statement, values)
  }
  return runs
}

interface Node {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Node[]
}

/** Runs a statement. Returns the rows that each node of its plan has read, and the blocks. */
export async function planOf (
  url: string,
  statement: Statement<unknown>,
  values: Run['values'],
  mode: string
): Promise<{ nodes: { type: string, rows: number }[], buffers: number }> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`SET plan_cache_mode = ${mode}; PREPARE list AS ${statement.text}`)
    const literals = positional(statement, values).map((value) =>
      value === null ? 'NULL' : pg.escapeLiteral(value instanceof Date ? value.toISOString() : String(value))
    )
    const { rows: [row] } = await client
      .query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE list (${literals.join(', ')})`)
    const plan: Node = row['QUERY PLAN'][0].Plan
    const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)]
    const nodes = all(plan).map((node) => ({
      type: node['Node Type'],
      rows: node['Actual Loops'] * (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0) +
        (node['Rows Removed by Index Recheck'] ?? 0))
    }))
    return { nodes, buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] }
  } finally {
    await client.end()
  }
}
