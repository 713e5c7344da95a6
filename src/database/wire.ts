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
const READY_FOR_QUERY = 'Z'.charCodeAt(0)
/** Parse, Bind, Describe, Execute, Close, Flush: messages that no ReadyForQuery answers, only the Sync behind them. */
const EXTENDED = new Set([...'PBDECH'].map((type) => type.charCodeAt(0)))
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
    let isStartup = true
    for await (const message of messages(socket)) {
      if (!isStartup && message[0] === TERMINATE) break
      const send = (bytes: Buffer) => { if (socket.writable) socket.write(bytes) }
      const receive = !isStartup && EXTENDED.has(message[0] as number) ? withoutReady(send) : send
      isStartup = false
      await db.runExclusive(async () => {
        // The bytes live in the memory of the engine, which reuses it.
        await db.execProtocolRawStream(message, { onRawData: (bytes) => receive(Buffer.from(bytes)) })
      })
    }
  } catch (error) {
    if (!socket.destroyed) throw error
  } finally {
    socket.destroy()
  }
  await resetSession(db)
}

/**
 * Passes on all messages but ReadyForQuery. PGlite sends one with each error, and another at the Sync that follows; the
 * client would take the second for the answer to its next statement.
 */
function withoutReady (send: (bytes: Buffer) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    let from = 0
    let at = 0
    while (rest.length >= at + 5 && rest.length >= at + 1 + rest.readUInt32BE(at + 1)) {
      const end = at + 1 + rest.readUInt32BE(at + 1)
      if (rest[at] === READY_FOR_QUERY) {
        if (at > from) send(rest.subarray(from, at))
        from = end
      }
      at = end
    }
    if (at > from) send(rest.subarray(from, at))
    rest = rest.subarray(at)
  }
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
