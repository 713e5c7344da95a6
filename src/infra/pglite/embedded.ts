import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { closeToOthers, DataDirError, PRIVATE, prepareDataDir, type DataDirLog } from './data-dir.ts'
import { lockDataDir } from './data-dir-lock.ts'
import { makeFolder } from '../system/fs-utils.ts'
import type { FromWorker, ToWorker, WorkerInput } from './embedded-worker.ts'

export { DataDirError, embeddedSecret } from './data-dir.ts'

// PostgreSQL in this process (docs/adr/0004-embedded-postgresql-by-default.md). If the process is killed, no
// write is lost. A power failure can lose the last writes, because they are not synced to the disk.

export interface EmbeddedDatabase {
  /** The folder of the socket, which only this user can enter, and the port in the socket's name. */
  readonly connection: { readonly host: string, readonly port: number }
  /**
   * Lets commands, which are other processes, use the database, too (beside-service.ts).
   *
   * @param onChange called when a command may have changed something
   */
  serveCommands(onChange: () => void): Promise<void>
  /** Writes everything to the folder and releases its lock. */
  close(): Promise<void>
}

/** The folder in DATA_DIR in which a backup is being restored. */
export const RESTORING = 'restoring'
/** Sockets are named by a port: one for the service, one for commands. */
const PORT = 5432
export const COMMAND_PORT = 5433
const CLOSE_TIMEOUT_MS = 5_000
/** The longest path of a Unix socket that every system allows, in bytes (macOS). */
const MAX_SOCKET_PATH = 103
const SOCKET_FOLDER = /^\/[^\0\n]*\/landfall-\w{6}$/

/** The error for a folder that contains `RESTORING`. */
export const createInterruptedError = (dataDir: string): DataDirError =>
  new DataDirError(`DATA_DIR ${dataDir} contains an interrupted restore: empty it and UPLOADS_DIR, and ` +
    'restore again')

/**
 * Starts the embedded PostgreSQL in `<dataDir>/postgres`, and creates the database if there is none.
 *
 * @param onLost called once if the database fails or another process takes its folder, when it has stopped
 * @throws {DataDirError} if the folder can't be used, or another process uses it
 */
export async function startEmbedded (
  dataDir: string,
  log: DataDirLog,
  onLost: (error: Error) => void
): Promise<EmbeddedDatabase> {
  await prepareDataDir(dataDir)
  let worker: Worker | undefined
  let ended = false
  const lose = (error: Error) => {
    if (ended) return
    ended = true
    // Two processes that write to one database would corrupt it.
    worker?.terminate().finally(() => onLost(error))
    if (worker === undefined) onLost(error)
  }

  const lock = await lockDataDir(dataDir, log, lose)
  let socketFolder: string | undefined
  try {
    socketFolder = await createSocketFolder(dataDir)
    const host = socketFolder
    const folder = join(dataDir, 'postgres')
    // An empty database in place of the restored one would look like a loss of all data.
    if (!existsSync(folder) && existsSync(join(dataDir, RESTORING))) throw createInterruptedError(dataDir)
    if (!existsSync(folder)) await create(folder, log)
    await closeToOthers(folder, log)
    const database = startWorker({
      folder,
      sockets: { service: socketPath(host), commands: socketPath(host, COMMAND_PORT) }
    })
    worker = database
    await message(database, 'ready')
    if (ended) throw new Error('another process took over its folder')
    database.on(
      'error',
      (error) => lose(new Error(`The embedded PostgreSQL failed: ${error.message}`, { cause: error }))
    )
    database.on('exit', () => lose(new Error('The embedded PostgreSQL exited unexpectedly')))

    return {
      connection: { host, port: PORT },
      async serveCommands (onChange) {
        database.on('message', (text: FromWorker) => {
          if (text !== 'changed') return
          onChange()
          tell(database, 'noticed')
        })
        tell(database, 'serveCommands')
        await message(database, 'servesCommands')
      },
      async close () {
        try {
          if (!ended) {
            ended = true
            tell(database, 'close')
            // A long statement must not delay the shutdown. Committed data is safe without closing.
            const timer = setTimeout(() => {
              database.terminate().catch(() => {})
            }, CLOSE_TIMEOUT_MS)
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
    throw error instanceof DataDirError ? error
      : new DataDirError(
        `The embedded PostgreSQL in DATA_DIR ${dataDir} could not start: ${(error as Error).message}`,
        { cause: error }
      )
  }
}

/** Creates the database under a temporary name, so that a killed process leaves no incomplete database. */
async function create (folder: string, log: DataDirLog): Promise<void> {
  log.info(`Creating a database in ${folder}`)
  const unfinished = `${folder}.new`
  await rm(unfinished, { recursive: true, force: true })
  await makeFolder(unfinished, PRIVATE)
  // A separate thread, because its end releases the several hundred MB that the creation needs.
  const worker = startWorker({ folder: unfinished })
  await message(worker, 'created').finally(async () => await worker.terminate())
  await rename(unfinished, folder)
}

function startWorker (workerData: WorkerInput): Worker {
  const extension = extname(import.meta.url)
  const url = new URL(`./embedded-worker${extension}`, import.meta.url)
  if (extension === '.js') return new Worker(url, { workerData })
  // The service runs from its sources: a worker doesn't inherit the TypeScript loader.
  const [tsx, program] = [import.meta.resolve('tsx/esm/api'), url.href].map((name) => JSON.stringify(name))
  const bootstrap = `import(${tsx}).then((tsx) => { tsx.register(); return import(${program}) })`
  return new Worker(bootstrap, { eval: true, workerData, execArgv: [] })
}

const tell = (worker: Worker, message: ToWorker): void => worker.postMessage(message)

/** Waits for a message of a worker. */
async function message (worker: Worker, expected: FromWorker): Promise<void> {
  const exited = once(worker, 'exit').then(() => {
    throw new Error('its thread exited unexpectedly')
  })
  const told = new Promise<void>((resolve) => {
    worker.on('message', (text: FromWorker) => {
      if (text === expected) resolve()
    })
  })
  await Promise.race([told, exited])
}

/** Creates a folder that only its owner can enter, and removes the folder of a killed process. */
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

/** The path at which clients of PostgreSQL look for a socket. */
export const socketPath = (folder: string, port = PORT): string => join(folder, `.s.PGSQL.${port}`)
