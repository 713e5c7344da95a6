import { once } from 'node:events'
import { lstat, readFile, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'
import { DataDirBusyError, DataDirError, lockDataDir, type DataDirLog } from './data-dir.ts'
import { servePrivately, type PrivateSocketServer } from './private-socket.ts'

// Lets another process of the same user copy the files of the embedded database: for so long no statement runs. What is
// in the folder then is what a killed process leaves, and every commit is in it. Nothing is asked of the database itself:
// the service may be in the middle of a transaction, and there is only one session.

/** Its socket, in the folder that <dataDir>/socket-folder names. */
export const HOLD_SOCKET = 'hold'
/** A copier that is frozen can't hold up the service for longer. */
const HOLD_LIMIT_MS = 30_000
/** How long a service that has the folder may take until it can be asked for something. */
const START_LIMIT_MS = 15_000
const RETRY_MS = 100

/** Serves holds on a Unix socket: "held" when the database stands still, which anything from the client or its end ends. */
export async function serveHold (db: PGlite, path: string): Promise<PrivateSocketServer> {
  return await servePrivately(path, (socket) => {
    const ended = new Promise<void>((resolve) => socket.on('data', () => resolve()).on('close', () => resolve()))
    db.runExclusive(async () => {
      if (socket.destroyed) return
      socket.write('held\n')
      const limit = setTimeout(() => socket.destroy(), HOLD_LIMIT_MS)
      await ended
      clearTimeout(limit)
      socket.end('released\n')
    }).catch(() => socket.destroy())
  })
}

/**
 * Runs `action` while nobody writes the embedded database in `dataDir`: a service that runs there is made to stand still,
 * and where none runs, none can start.
 *
 * @throws {DataDirError} the service there can't be reached, or went on before `action` was done: what it read is void
 */
export async function holdEmbedded (dataDir: string, log: DataDirLog, action: () => Promise<void>): Promise<void> {
  await besideService(dataDir, HOLD_SOCKET, async (socket) => await withHold(socket, dataDir, action), async () => await withLock(dataDir, log, action))
}

/**
 * Works on an embedded database, whether or not a service runs on it.
 *
 * @param name of the socket of the service, in the folder that <dataDir>/socket-folder names
 * @param through is given a connection to the service that runs
 * @param alone is called where none runs; a `DataDirBusyError` of it means that one does, or is about to start or to end
 * @throws {DataDirError} there is one, which can't be reached
 */
export async function besideService<T> (dataDir: string, name: string, through: (socket: Socket) => Promise<T>, alone: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + START_LIMIT_MS
  for (;;) {
    const socket = await reach(dataDir, name)
    if (socket !== undefined) return await through(socket)
    try {
      return await alone()
    } catch (error) {
      if (!(error instanceof DataDirBusyError)) throw error
      if (performance.now() > deadline) {
        throw new DataDirError(`${error.message.split(':', 1)[0]}, which can't be reached from here: run this as the same user on the same machine (in the same container), or stop it`, { cause: error })
      }
    }
    await sleep(RETRY_MS)
  }
}

async function withLock (dataDir: string, log: DataDirLog, action: () => Promise<void>): Promise<void> {
  let lost: Error | undefined
  const lock = await lockDataDir(dataDir, log, (error) => { lost = error })
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

/** Whether nobody but the owner of the data can have made the folder: one that is gone could have been made anew by others. */
async function isOwn (folder: string, dataDir: string): Promise<boolean> {
  if (process.getuid === undefined) return true
  const [found, data] = await Promise.all([lstat(folder), stat(dataDir)]).catch(() => [])
  return found !== undefined && data !== undefined && found.isDirectory() && found.uid === data.uid && (found.mode & 0o077) === 0
}

async function withHold (socket: Socket, dataDir: string, action: () => Promise<void>): Promise<void> {
  let answers = ''
  socket.setEncoding('utf8').on('error', () => {}) // its close says enough
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  const held = new Promise<void>((resolve) => socket.on('data', (text: string) => { answers += text; resolve() }))
  const lost = (reason: string) => new DataDirError(`The service in DATA_DIR ${dataDir} ${reason} while its database was copied: try again`)
  try {
    await Promise.race([held, closed])
    if (!answers.startsWith('held')) throw lost('ended')
    await action()
    socket.write('done\n')
    await closed
    if (!answers.endsWith('released\n')) throw lost(`ended, or went on after ${HOLD_LIMIT_MS / 1000} s,`)
  } finally {
    socket.destroy()
  }
}
