import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { testSettings } from './app.ts'
import { query, startPostgresServer } from './servers.ts'

// Counts the statements that reach PostgreSQL.

/** Statements that no request runs: checks, reports of reads, unfinished deletions, messages, schedules. */
const BACKGROUND = new RegExp([
  '^(?:(?:statement|execute [^:]+): )?SELECT 1$',
  'INTO read_reports',
  'SELECT .* FROM "public"\\."account_deletions"',
  'WITH RECURSIVE targets',
  '_schedules schedule '
].join('|'))

/** Tells whether no request runs a statement, given as its text or as a line of the log. */
export function isBackground (statement: string): boolean {
  return BACKGROUND.test(statement)
}

/** Starts a PostgreSQL that logs statements. `settings` turn the log on for the service's connections. */
export async function countStatements (t: Test) {
  const server = await startPostgresServer(t)
  const [row] = await query(server.url, 'SHOW data_directory')
  const log = join(row?.data_directory as string, '../log')
  const statements = async () => {
    const text = (await readFile(log, 'utf8')).replaceAll(/\s*\n\t\s*/g, ' ').replaceAll(/: {2,}/g, ': ')
    // Several statements in one message are one line, because they are one round trip.
    return [...text.matchAll(/LOG: ((?:statement|execute [^:]+): .*)$/gm)]
      .map(([, statement]) => statement as string)
      .filter((statement) => !isBackground(statement))
  }
  const url = new URL(server.url)
  url.searchParams.set('options', '-c log_statement=all')
  return {
    settings: { ...await testSettings(t), DATABASE_URL: url.href },
    /** Returns the statements of an action, including BEGIN and COMMIT, on one line each. */
    async during (action: () => Promise<unknown>) {
      const before = (await statements()).length
      await action()
      return (await statements()).slice(before)
    }
  }
}
