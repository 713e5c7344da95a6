import type { Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'
import { servePrivately, type PrivateSocketServer } from './private-socket.ts'

// PostgreSQL's protocol for PGlite, which has a single session. Connections are served one after another,
// because the transactions of two connections would mix in one session.

/** Protocol version 3.0, which identifies the startup message, the only message without a type. */
const STARTUP = 196608
const TERMINATE = 'X'.charCodeAt(0)
const READY_FOR_QUERY = 'Z'.charCodeAt(0)
/** Parse, Bind, Describe, Execute, Close and Flush. ReadyForQuery follows only after a Sync. */
const EXTENDED = new Set([...'PBDECH'].map((type) => type.charCodeAt(0)))
const SYNC = Uint8Array.of('S'.charCodeAt(0), 0, 0, 0, 4)

/**
 * Serves PostgreSQL's protocol on a Unix socket.
 *
 * @param onFailure called if the database fails; it can't be used after that
 */
export async function servePostgresWire (
  db: PGlite,
  path: string,
  onFailure: (error: unknown) => void
): Promise<PrivateSocketServer> {
  let last: Promise<void> = Promise.resolve()
  const server = await servePrivately(path, (socket) => {
    last = last.then(async () => await serveConnection(db, socket)).catch(onFailure)
  })
  return {
    async close () {
      await server.close()
      await last
    }
  }
}

async function serveConnection (db: PGlite, socket: Socket): Promise<void> {
  try {
    let isStartup = true
    for await (const message of messages(socket)) {
      if (!isStartup && message[0] === TERMINATE) break
      const send = (bytes: Buffer) => {
        if (socket.writable) socket.write(bytes)
      }
      const receive = !isStartup && EXTENDED.has(message[0] as number) ? withoutReady(send) : send
      isStartup = false
      await db.runExclusive(async () => {
        // A copy, because PGlite reuses the memory.
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
 * Drops ReadyForQuery messages. After an error, PGlite sends one too early and another one after the Sync.
 * The client would take the second one for the end of its next statement.
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

/** Resets the session for the next connection, even if the last one ended within a transaction. */
async function resetSession (db: PGlite): Promise<void> {
  await db.runExclusive(async () => await db.execProtocolRaw(SYNC, { throwOnError: false }))
  await db.exec('ROLLBACK')
  await db.exec('DISCARD ALL')
}

/** Splits the bytes of a connection into messages, including their headers. */
async function* messages (socket: Socket): AsyncGenerator<Uint8Array> {
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
