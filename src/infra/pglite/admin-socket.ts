import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { DataDirError } from './data-dir.ts'
import { servePrivately, type PrivateSocketServer } from './private-socket.ts'
import { positional, type Statement, type StatementRunner, type Values } from '../postgres/statement.ts'

// Lets the command line run statements on the embedded database while a service uses its only session. The
// service runs them between its own statements. Requests and responses are lines of JSON.

/** The name of the socket, in the folder that <dataDir>/socket-folder names. */
export const ADMIN_SOCKET = 'admin'

/** A statement with `$1`, not `:name`, as a service or command line of another release understands it. */
interface Request {
  readonly text: string
  readonly name: string
  readonly values: readonly unknown[]
}

/** Escapes the line separators that readline recognizes and JSON doesn't escape. */
const lineOf = (value: Request | Response): string =>
  `${JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`

type Response = { readonly rows: unknown[] } | {
  readonly error: { readonly message: string, readonly code: unknown }
}

/**
 * Runs the statements that arrive on a Unix socket. Only the user of this process can connect to it.
 *
 * @param onWrite called after each statement that may have changed something
 */
export async function serveAdminSocket (
  database: StatementRunner,
  path: string,
  onWrite = (): void => {}
): Promise<PrivateSocketServer> {
  return await servePrivately(path, (socket) => {
    const lines = createInterface({ input: socket }).on('line', (line) => {
      respond(database, line, onWrite).then((text) => socket.write(text), () => socket.destroy())
    })
    // readline re-emits errors of the socket. Without a listener, a killed client would end the service.
    lines.on('error', () => {})
  })
}

async function respond (database: StatementRunner, line: string, onWrite: () => void): Promise<string> {
  const { text, name, values } = JSON.parse(line) as Request
  const result: Response = await database.run({ text, name, parameters: [] }, values).then(
    (rows) => ({ rows }),
    (error: Error & { code?: unknown }) => ({ error: { message: error.message, code: error.code } })
  )
  if (!/^\s*SELECT\b/.test(text)) onWrite()
  return lineOf(result)
}

/** The client of an admin socket. Values and rows are sent as JSON, so statements return times as text. */
export class AdminConnection implements StatementRunner {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  constructor (socket: Socket) {
    this.#socket = socket.on('error', () => {}) // run() notices the end of the lines
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  }

  /**
   * Runs a statement. Only one may run at a time.
   *
   * @throws {DataDirError} if the service ends before it responds
   */
  async run<Row> (statement: Statement<Row>, values?: Values): Promise<Row[]> {
    const { text, name } = statement
    this.#socket.write(lineOf({ text, name, values: positional(statement, values) }))
    const line = await this.#lines.next().catch(() => undefined)
    if (line === undefined || line.done === true) {
      throw new DataDirError('The service ended before it responded: check whether the change was made, ' +
        'and try again')
    }
    const result = JSON.parse(line.value) as Response
    if ('error' in result) throw Object.assign(new Error(result.error.message), { code: result.error.code })
    return result.rows as Row[]
  }

  close (): void {
    this.#socket.destroy()
  }
}
