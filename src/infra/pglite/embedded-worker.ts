import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { serveFreezeLock } from './freeze-lock.ts'
import { servePostgresWire } from './postgres-wire-server.ts'

// Runs the embedded PostgreSQL in a worker thread, so that its statements don't block the event loop.

/** The input from embedded.ts. */
export interface WorkerInput {
  /** The folder of the database. It is created if it doesn't exist. */
  folder: string
  /** The sockets to serve. Without them, the thread only creates the database. */
  sockets?: { readonly wire: string, readonly freeze: string }
}

const port = parentPort
if (port === null) throw new Error('This file must run in a worker thread')

const { folder, sockets } = workerData as WorkerInput
const db = await PGlite.create({ dataDir: folder })
if (sockets === undefined) {
  await db.close()
  port.postMessage('created')
} else {
  const server = await servePostgresWire(db, sockets.wire, (error) =>
    setImmediate(() => {
      throw error
    }))
  const freezeLock = await serveFreezeLock(db, sockets.freeze)
  port.once('message', () => { // always 'close'
    freezeLock.close()
      .then(async () => await server.close())
      .then(async () => await db.close())
      .then(() => {
        port.postMessage('closed')
      }, (error: unknown) =>
        setImmediate(() => {
          throw error
        }))
  })
  port.postMessage('ready')
}
