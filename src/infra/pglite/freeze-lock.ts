import { once } from 'node:events'
import { lstat, readFile, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'
import { DataDirError, type DataDirLog } from './data-dir.ts'
import { DataDirBusyError, lockDataDir } from './data-dir-lock.ts'
import { servePrivately, type PrivateSocketServer } from './private-socket.ts'

// Lets another process of the same user copy the files of the embedded database while no statement runs. The
// copy is in the same state as after a crash of the process and contains every committed change.

/** The name of the socket, in the folder that <dataDir>/socket-folder names. */
export const FREEZE_SOCKET = 'freeze'
/** Time limit of a copy. Statements of the service wait until the copy ends. */
const FREEZE_LIMIT_MS = 30_000
/** How long a service that has locked the folder may take to open its sockets. */
const START_LIMIT_MS = 15_000
const RETRY_MS = 100

/**
 * Serves the freeze lock on a Unix socket. The server writes "frozen" when no statement is running. The
 * client releases the lock by writing anything or by disconnecting.
 */
export async function serveFreezeLock (db: PGlite, path: string): Promise<PrivateSocketServer> {
  return await servePrivately(path, (socket) => {
    const ended = new Promise<void>((resolve) =>
      socket.on('data', () => resolve()).on('close', () => resolve())
    )
    db.runExclusive(async () => {
      if (socket.destroyed) return
      socket.write('frozen\n')
      const limit = setTimeout(() => socket.destroy(), FREEZE_LIMIT_MS)
      await ended
      clearTimeout(limit)
      socket.end('released\n')
    }).catch(() => socket.destroy())
  })
}

/**
 * Runs `action` while no process writes to the embedded database in `dataDir`. A running service is frozen.
 * If no service runs, none can start.
 *
 * @throws {DataDirError} if the service can't be reached, or continued before `action` had finished, so that
 *   the result is invalid
 */
export async function withFrozenDatabase (
  dataDir: string,
  log: DataDirLog,
  action: () => Promise<void>
): Promise<void> {
  await besideService(
    dataDir,
    FREEZE_SOCKET,
    async (socket) => await withFreeze(socket, dataDir, action),
    async () => await withLock(dataDir, log, action)
  )
}

/**
 * Works on an embedded database through the service that uses it, or directly if no service runs.
 *
 * @param name the name of the service's socket, in the folder that <dataDir>/socket-folder names
 * @param withService called with a connection to the running service
 * @param withoutService called if no service runs. If it throws a `DataDirBusyError`, a service is starting
 *   or ending, and both ways are tried again
 * @throws {DataDirError} if a service runs, but can't be reached
 */
export async function besideService<T> (
  dataDir: string,
  name: string,
  withService: (socket: Socket) => Promise<T>,
  withoutService: () => Promise<T>
): Promise<T> {
  const deadline = performance.now() + START_LIMIT_MS
  for (;;) {
    const socket = await reach(dataDir, name)
    if (socket !== undefined) return await withService(socket)
    try {
      return await withoutService()
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

async function withLock (dataDir: string, log: DataDirLog, action: () => Promise<void>): Promise<void> {
  let lost: Error | undefined
  const lock = await lockDataDir(dataDir, log, (error) => {
    lost = error
  })
  try {
    await action()
    if (lost !== undefined) throw lost
  } finally {
    await lock.release()
  }
}

async function reach (dataDir: string, name: string): Promise<Socket | undefined> {
  const folder = await readFile(join(dataDir, 'socket-folder'), 'utf8').catch(() => undefined)
  if (folder === undefined || !await isOwn(folder, dataDir)) return undefined
  const socket = connect(join(folder, name))
  try {
    await once(socket, 'connect')
    return socket
  } catch {
    return undefined
  }
}

/** Whether the owner of the data owns the folder. Another user could have created one of that name. */
async function isOwn (folder: string, dataDir: string): Promise<boolean> {
  if (process.getuid === undefined) return true
  const [found, data] = await Promise.all([lstat(folder), stat(dataDir)]).catch(() => [])
  return found !== undefined && data !== undefined && found.isDirectory() && found.uid === data.uid &&
    (found.mode & 0o077) === 0
}

async function withFreeze (socket: Socket, dataDir: string, action: () => Promise<void>): Promise<void> {
  socket.on('error', () => {}) // the lines end
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  const nextLine = async () => (await lines.next().catch(() => undefined))?.value
  const lost = (reason: string) =>
    new DataDirError(`The service in DATA_DIR ${dataDir} ${reason} while its database was copied: try again`)
  try {
    if (await nextLine() !== 'frozen') throw lost('ended')
    await action()
    socket.write('done\n')
    if (await nextLine() !== 'released') {
      throw lost(`ended, or continued after ${FREEZE_LIMIT_MS / 1000} s,`)
    }
  } finally {
    socket.destroy()
  }
}
