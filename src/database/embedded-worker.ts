import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { serveWire } from './wire.ts'

// The thread of the embedded PostgreSQL: its statements run here, not between the requests of the service.

/** What embedded.ts hands over. */
export interface WorkerInput {
  /** The folder of the database; it need not exist. */
  folder: string
  /** The socket to serve it on; without one the database is only created. */
  socketPath?: string
}

const port = parentPort
if (port === null) throw new Error('This is the thread of the embedded PostgreSQL, not a program')

const { folder, socketPath } = workerData as WorkerInput
const db = await PGlite.create({ dataDir: folder })
if (socketPath === undefined) {
  await db.close()
  port.postMessage('created')
} else {
  const server = await serveWire(db, socketPath, (error) => setImmediate(() => { throw error }))
  port.once('message', () => {
    server.close()
      .then(async () => await db.close())
      .then(() => { port.postMessage('closed') }, (error: unknown) => setImmediate(() => { throw error }))
  })
  port.postMessage('ready')
}
