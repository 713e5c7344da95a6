import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'

// PGlite behind a socket. It has one session, so one connection is served at a time and the next waits for its end:
// sharing the session between connections would mix their statements and their transactions.

export interface WireServer {
  /** Resolves when no connection is left; the database itself stays open. */
  close (): Promise<void>
}

/** Protocol version 3.0, by which the one message without a type is known. */
const STARTUP = 196608
const TERMINATE = 'X'.charCodeAt(0)
const SYNC = Uint8Array.of('S'.charCodeAt(0), 0, 0, 0, 4)

/**
 * Serves PostgreSQL's protocol on a Unix socket.
 *
 * @param onFailure called when the database itself breaks; it is of no use after that
 */
export async function serveWire (db: PGlite, path: string, onFailure: (error: unknown) => void): Promise<WireServer> {
  const connections = new Set<Socket>()
  let last: Promise<void> = Promise.resolve()

  const server = createServer((socket) => {
    connections.add(socket)
    // A broken pipe ends the reading below; there is nothing else to do about it.
    socket.on('error', () => {})
    socket.on('close', () => connections.delete(socket))
    last = last.then(async () => await serveConnection(db, socket)).catch(onFailure)
  })
  server.listen(path)
  await once(server, 'listening')

  return {
    async close () {
      server.close()
      for (const socket of connections) socket.destroy()
      await last
    }
  }
}

async function serveConnection (db: PGlite, socket: Socket): Promise<void> {
  try {
    for await (const message of messages(socket)) {
      if (message[0] === TERMINATE) break
      await db.runExclusive(async () => {
        // The bytes live in the memory of the engine, which reuses it.
        await db.execProtocolRawStream(message, { onRawData: (bytes) => { if (socket.writable) socket.write(Buffer.from(bytes)) } })
      })
    }
  } catch (error) {
    if (!socket.destroyed) throw error
  } finally {
    socket.destroy()
  }
  await resetSession(db)
}

/** Leaves the next connection a new session, wherever this one broke off: in a statement, a transaction, an error. */
async function resetSession (db: PGlite): Promise<void> {
  await db.runExclusive(async () => await db.execProtocolRaw(SYNC, { throwOnError: false }))
  await db.exec('ROLLBACK')
  await db.exec('DISCARD ALL')
}

/** The messages of a connection, each with its head. */
async function * messages (socket: Socket): AsyncGenerator<Uint8Array> {
  let rest: Buffer = Buffer.alloc(0)
  let started = false
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      const head = started ? 1 : 0
      if (rest.length < head + 4) break
      const end = head + rest.readUInt32BE(head)
      if (rest.length < end) break
      if (!started && rest.readUInt32BE(4) !== STARTUP) return
      started = true
      yield new Uint8Array(rest.subarray(0, end))
      rest = rest.subarray(end)
    }
  }
}
