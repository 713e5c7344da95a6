import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { serveHold } from './hold.ts'
import { serveWire } from './wire.ts'

// The thread of the embedded PostgreSQL: its statements run here, not between the requests of the service.

/** What embedded.ts hands over. */
export interface WorkerInput {
  /** The folder of the database; it need not exist. */
  folder: string
  /** The sockets to serve it and its holds on; without them the database is only created. */
  sockets?: { readonly wire: string, readonly hold: string }
}

const port = parentPort
if (port === null) throw new Error('This is the thread of the embedded PostgreSQL, not a program')

const { folder, sockets } = workerData as WorkerInput
const db = await PGlite.create({ dataDir: folder })
if (sockets === undefined) {
  await db.close()
  port.postMessage('created')
} else {
  const server = await serveWire(db, sockets.wire, (error) => setImmediate(() => { throw error }))
  const holds = await serveHold(db, sockets.hold)
  port.once('message', () => {
    holds.close()
      .then(async () => await server.close())
      .then(async () => await db.close())
      .then(() => { port.postMessage('closed') }, (error: unknown) => setImmediate(() => { throw error }))
  })
  port.postMessage('ready')
}
