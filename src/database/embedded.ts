import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { DataDirError, lockDataDir, prepareDataDir, type DataDirLog } from './data-dir.ts'
import { HOLD_SOCKET } from './hold.ts'
import type { WorkerInput } from './embedded-worker.ts'

export { DataDirError, embeddedSecret } from './data-dir.ts'

// PostgreSQL inside of this process, for a first look and for small installations. It survives the death of the
// process at any time; the end of the power can cost the last writes, as it doesn't wait for the disk.

export interface EmbeddedDatabase {
  /** The folder of its socket, which only this user can reach, and the port that pg makes the socket's name of. */
  readonly connection: { readonly host: string, readonly port: number }
  /** Writes everything to the folder and gives it back. */
  close (): Promise<void>
}

/** Where in DATA_DIR a database is put together that comes from a backup. */
export const RESTORING = 'restoring'
const PORT = 5432
const CLOSE_TIMEOUT_MS = 5_000
/** The longest path of a Unix socket on every system. */
const MAX_SOCKET_PATH = 103
const SOCKET_FOLDER = /^\/[^\0\n]*\/landfall-\w{6}$/

/** What everybody says of a folder in which there is `RESTORING`. */
export const interrupted = (dataDir: string): DataDirError =>
  new DataDirError(`DATA_DIR ${dataDir} holds a restore that was interrupted: empty it and UPLOADS_DIR, and restore again`)

/**
 * Starts the embedded PostgreSQL on `<dataDir>/postgres`, which it creates when there is none.
 *
 * @param onLost called once when it fails while it runs, or another process took its folder: it has stopped then
 * @throws {DataDirError} the folder can't be used, or another process uses it
 */
export async function startEmbedded (dataDir: string, log: DataDirLog, onLost: (error: Error) => void): Promise<EmbeddedDatabase> {
  await prepareDataDir(dataDir)
  let worker: Worker | undefined
  let ended = false
  const lose = (error: Error) => {
    if (ended) return
    ended = true
    // At once: two processes that write one database destroy it.
    worker?.terminate().finally(() => onLost(error))
    if (worker === undefined) onLost(error)
  }

  const lock = await lockDataDir(dataDir, log, lose)
  let socketFolder: string | undefined
  try {
    socketFolder = await createSocketFolder(dataDir)
    const host = socketFolder
    const folder = join(dataDir, 'postgres')
    // An empty database in place of the one that was to come back would look like a loss of everything.
    if (!existsSync(folder) && existsSync(join(dataDir, RESTORING))) throw interrupted(dataDir)
    if (!existsSync(folder)) await create(folder, log)
    const database = startWorker({ folder, sockets: { wire: socketPath(host), hold: join(host, HOLD_SOCKET) } })
    worker = database
    await message(database, 'ready')
    if (ended) throw new Error('its folder was taken over')
    database.on('error', (error) => lose(new Error(`The embedded PostgreSQL broke down: ${error.message}`, { cause: error })))
    database.on('exit', () => lose(new Error('The embedded PostgreSQL ended by itself')))

    return {
      connection: { host, port: PORT },
      async close () {
        try {
          if (!ended) {
            ended = true
            database.postMessage('close')
            // A statement that doesn't end can't hold up the process; what was committed is safe without a close, too.
            const timer = setTimeout(() => { database.terminate().catch(() => {}) }, CLOSE_TIMEOUT_MS)
            await message(database, 'closed').finally(() => clearTimeout(timer))
            await database.terminate()
          }
        } finally {
          await removeSocketFolder(dataDir, host)
          await lock.release()
        }
      }
    }
  } catch (error) {
    ended = true
    await worker?.terminate()
    if (socketFolder !== undefined) await removeSocketFolder(dataDir, socketFolder)
    await lock.release()
    throw error instanceof DataDirError ? error : new DataDirError(`The embedded PostgreSQL in DATA_DIR ${dataDir} could not start: ${(error as Error).message}`, { cause: error })
  }
}

/** A database that was half created when the process was killed must not be mistaken for one. */
async function create (folder: string, log: DataDirLog): Promise<void> {
  log.info(`Creating a database in ${folder}`)
  const unfinished = `${folder}.new`
  await rm(unfinished, { recursive: true, force: true })
  // In a thread of its own, with whose end the several hundred MB that it takes are given back.
  const worker = startWorker({ folder: unfinished })
  await message(worker, 'created').finally(async () => await worker.terminate())
  await rename(unfinished, folder)
}

function startWorker (workerData: WorkerInput): Worker {
  const extension = extname(import.meta.url)
  const url = new URL(`./embedded-worker${extension}`, import.meta.url)
  if (extension === '.js') return new Worker(url, { workerData })
  // From the sources: the TypeScript loader of this thread is not one of its threads', it has to be registered there.
  const bootstrap = `import(${JSON.stringify(import.meta.resolve('tsx/esm/api'))}).then((tsx) => { tsx.register(); return import(${JSON.stringify(url.href)}) })`
  return new Worker(bootstrap, { eval: true, workerData, execArgv: [] })
}

async function message (worker: Worker, expected: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const settle = (finish: () => void) => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      finish()
    }
    const onMessage = (text: unknown) => { if (text === expected) settle(resolve) }
    const onError = (error: Error) => settle(() => reject(error))
    const onExit = () => settle(() => reject(new Error('its thread ended by itself')))
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
  })
}

/** A new folder that only its owner can enter; what a killed process left of its own goes. */
async function createSocketFolder (dataDir: string): Promise<string> {
  const note = join(dataDir, 'socket-folder')
  const left = await readFile(note, 'utf8').catch(() => '')
  if (SOCKET_FOLDER.test(left)) await rm(left, { recursive: true, force: true }).catch(() => {})

  const fits = Buffer.byteLength(socketPath(join(tmpdir(), 'landfall-XXXXXX'))) <= MAX_SOCKET_PATH
  const folder = await mkdtemp(join(fits ? tmpdir() : '/tmp', 'landfall-'))
  await writeFile(note, folder, { mode: 0o600 })
  return folder
}

async function removeSocketFolder (dataDir: string, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await rm(join(dataDir, 'socket-folder'), { force: true })
}

function socketPath (folder: string): string {
  return join(folder, `.s.PGSQL.${PORT}`)
}
