import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { DataDirError } from './data-dir.ts'
import { servePrivately, type PrivateSocketServer } from './private-socket.ts'
import type { Statement, StatementRunner } from './statement.ts'

// Lets another process of the same user run statements on the embedded database while a service has it, which holds its
// only session: the service runs them between its own. Each is a line of JSON and so is its answer. Whoever can reach the
// socket can read and write the files of the database just as well.

/** The socket, in the folder that <dataDir>/socket-folder names. */
export const VISIT_SOCKET = 'visit'

interface Question {
  readonly text: string
  readonly name: string
  readonly values: readonly unknown[]
}

/** One line, also for readline, which knows more ends of lines than JSON escapes. */
const lineOf = (value: Question | Answer): string => `${JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`

type Answer = { readonly rows: unknown[] } | { readonly error: { readonly message: string, readonly code: unknown } }

/** Runs on `database` what visitors ask for on a Unix socket. */
export async function serveVisits (database: StatementRunner, path: string): Promise<PrivateSocketServer> {
  return await servePrivately(path, (socket) => {
    const lines = createInterface({ input: socket }).on('line', (line) => {
      answer(database, line).then((text) => socket.write(text), () => socket.destroy())
    })
    // It passes the errors of the socket on: a visitor that is killed must not take the service along.
    lines.on('error', () => {})
  })
}

async function answer (database: StatementRunner, line: string): Promise<string> {
  const { text, name, values } = JSON.parse(line) as Question
  const result: Answer = await database.run<unknown>({ text, name }, values).then(
    (rows) => ({ rows }),
    (error: Error & { code?: unknown }) => ({ error: { message: error.message, code: error.code } })
  )
  return lineOf(result)
}

/**
 * Runs statements through the service at the other end of the socket. Values and rows are what JSON can hold: a
 * statement gives times as text.
 */
export class Visit implements StatementRunner {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  constructor (socket: Socket) {
    this.#socket = socket.on('error', () => {}) // the end of the lines says enough
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  }

  /** One at a time. */
  async run<Row> ({ text, name }: Statement<Row>, values: readonly unknown[]): Promise<Row[]> {
    this.#socket.write(lineOf({ text, name, values }))
    const line = await this.#lines.next().catch(() => undefined)
    if (line === undefined || line.done === true) throw new DataDirError('The service ended before it answered: see what it has done, and try again')
    const result = JSON.parse(line.value) as Answer
    if ('error' in result) throw Object.assign(new Error(result.error.message), { code: result.error.code })
    return result.rows as Row[]
  }

  close (): void {
    this.#socket.destroy()
  }
}
