import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { PostgresWireServer } from './postgres-wire-server.ts'

// Runs the embedded PostgreSQL in a worker thread, so that its statements don't block the event loop.

/** The input from embedded.ts. */
export interface WorkerInput {
  /** The folder of the database. It is created if it doesn't exist. */
  readonly folder: string
  /** The sockets for the service and for commands. Without them, the thread only creates the database. */
  readonly sockets?: { readonly service: string, readonly commands: string }
}

/** Opens the socket for commands, answers `changed`, or closes everything. */
export type ToWorker = 'serveCommands' | 'noticed' | 'close'
/** The outcomes, and `changed` each time when a command may have changed something. */
export type FromWorker = 'created' | 'ready' | 'servesCommands' | 'changed' | 'closed'

const port = parentPort
if (port === null) throw new Error('This file must run in a worker thread')
const tell = (message: FromWorker) => port.postMessage(message)
/** An uncaught error ends the thread. */
const fail = (error: unknown) =>
  setImmediate(() => {
    throw error
  })

const { folder, sockets } = workerData as WorkerInput
const db = await PGlite.create({ dataDir: folder })
if (sockets === undefined) {
  await db.close()
  tell('created')
} else {
  const server = new PostgresWireServer(db, fail)
  await server.listen(sockets.service)
  let onNoticed = (): void => {}
  /** Tells the service of a change by a command. The command gets its response after that. */
  const tellOfChange = async (): Promise<void> =>
    await new Promise((resolve) => {
      onNoticed = resolve
      tell('changed')
    })
  port.on('message', (message: ToWorker) => {
    if (message === 'noticed') onNoticed()
    else if (message === 'serveCommands') {
      server.listen(sockets.commands, tellOfChange).then(() => tell('servesCommands'), fail)
    } else server.close().then(async () => await db.close()).then(() => tell('closed'), fail)
  })
  tell('ready')
}
