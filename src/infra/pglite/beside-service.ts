import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { lstat, readFile, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { connectionOptions, type Connection } from '../postgres/connection.ts'
import { DataDirError, type DataDirLog } from './data-dir.ts'
import { DataDirBusyError } from './data-dir-lock.ts'
import { COMMAND_PORT, createInterruptedError, RESTORING, socketPath, startEmbedded } from './embedded.ts'

// Work on an embedded database that a service may be using.

/** How long a service that has locked the folder may take to open its sockets. */
const START_LIMIT_MS = 15_000
const RETRY_MS = 100

/** @throws {DataDirError} if the folder has no database */
export function requireEmbedded (dataDir: string): void {
  if (existsSync(join(dataDir, 'postgres'))) return
  if (existsSync(join(dataDir, RESTORING))) throw createInterruptedError(dataDir)
  throw new DataDirError(`DATA_DIR ${dataDir} holds no database: this command is for operators, with the ` +
    'settings of the service. Name another DATA_DIR, set DATABASE_URL, or create one with npm run landfall ' +
    '-- migrate')
}

/**
 * Works on an embedded database through the service that uses it, or directly if no service runs. While a
 * service starts or ends, both ways are tried again and again.
 *
 * @param action `isServed` says whether a service runs
 * @throws {DataDirError} if a service runs, but can't be reached
 */
export async function besideService<T> (
  dataDir: string,
  log: DataDirLog,
  action: (connection: Connection, isServed: boolean) => Promise<T>
): Promise<T> {
  const deadline = performance.now() + START_LIMIT_MS
  for (;;) {
    const connection = await reach(dataDir)
    if (connection !== undefined) return await action(connection, true)
    try {
      return await withEmbedded(dataDir, log, async (connection) => await action(connection, false))
    } catch (error) {
      if (!(error instanceof DataDirBusyError)) throw error
      if (performance.now() > deadline) {
        const [busy] = error.message.split(':', 1)
        const message = `${busy}, which can't be reached from here: run this as the same user on the same ` +
          'machine (in the same container), or stop it'
        throw new DataDirError(message, { cause: error })
      }
    }
    await sleep(RETRY_MS)
  }
}

async function reach (dataDir: string): Promise<Connection | undefined> {
  const folder = await readFile(join(dataDir, 'socket-folder'), 'utf8').catch(() => undefined)
  if (folder === undefined || !await isOwn(folder, dataDir)) return undefined
  const socket = connect(socketPath(folder, COMMAND_PORT))
  try {
    await once(socket, 'connect')
    return { host: folder, port: COMMAND_PORT }
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}

/** Whether the owner of the data owns the folder. Another user could have created one of that name. */
async function isOwn (folder: string, dataDir: string): Promise<boolean> {
  if (process.getuid === undefined) return true
  const [found, data] = await Promise.all([lstat(folder), stat(dataDir)]).catch(() => [])
  return found !== undefined && data !== undefined && found.isDirectory() && found.uid === data.uid &&
    (found.mode & 0o077) === 0
}

/** Starts the embedded database, creates it if there is none, and runs `action` on it. No service may run. */
export async function withEmbedded<T> (
  dataDir: string,
  log: DataDirLog,
  action: (connection: Connection) => Promise<T>
): Promise<T> {
  let lost: Error | undefined
  const database = await startEmbedded(dataDir, log, (error) => {
    lost = error
  })
  try {
    return await action(database.connection)
  } catch (error) {
    throw lost ?? error
  } finally {
    await database.close()
  }
}

/**
 * Runs `action`, which copies the files of the database, while nothing is written to them: statements of
 * other connections wait while a transaction is open (postgres-wire-server.ts). The copy is in the same state
 * as after a crash of the process and contains every committed change.
 *
 * @throws {DataDirError} if `action` took longer than 30 s, or the database ended meanwhile. Then the copy is
 *   invalid
 */
export async function freeze (connection: Connection, action: () => Promise<void>): Promise<void> {
  const client = new pg.Client(connectionOptions(connection)).on('error', () => {}) // COMMIT fails, too
  const query = async (text: 'BEGIN' | 'COMMIT') =>
    await client.query(text).catch((error: unknown) => {
      throw new DataDirError(
        'The embedded database ended, or continued after 30 s, while it was copied: try again',
        { cause: error }
      )
    })
  try {
    await client.connect()
    await query('BEGIN')
    await action()
    await query('COMMIT')
  } finally {
    await client.end().catch(() => {})
  }
}
