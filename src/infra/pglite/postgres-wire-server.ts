import { once } from 'node:events'
import { chmod } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'

// PostgreSQL's protocol for PGlite. PGlite has a single session, which all connections share: one has it at a
// time, until its transaction ends. Prepared statements are shared, too.

/** Protocol version 3.0, which identifies the startup message, the only message without a type. */
const STARTUP = 196608
const TERMINATE = 'X'.charCodeAt(0)
const READY_FOR_QUERY = 'Z'.charCodeAt(0)
/** In a ReadyForQuery: no transaction is open. */
const IDLE = 'I'.charCodeAt(0)
/** Parse, Bind, Describe, Execute, Close and Flush. ReadyForQuery follows only after a Sync. */
const EXTENDED = new Set([...'PBDECH'].map((type) => type.charCodeAt(0)))
/** Query and Parse. */
const STATEMENTS = new Set([...'QP'].map((type) => type.charCodeAt(0)))
const SYNC = Uint8Array.of('S'.charCodeAt(0), 0, 0, 0, 4)
const ROLLBACK = Buffer.from('Q\0\0\0\x0dROLLBACK\0')
const DEALLOCATE_ALL = Buffer.from('Q\0\0\0\x13DEALLOCATE ALL\0')
/** What follows the header of a Query, or of a Parse after its name, if the statement changes nothing. */
const READING = /^(?:\w*\0)?\s*(?:SELECT|BEGIN|COMMIT)\b/i
/** How long a transaction may be idle. The other connections wait for its end. */
const IDLE_LIMIT_MS = 30_000

/** Serves PostgreSQL's protocol on Unix sockets that only the user of this process can connect to. */
export class PostgresWireServer {
  readonly #db: PGlite
  readonly #onFailure: (error: unknown) => void
  readonly #servers: ReturnType<typeof createServer>[] = []
  readonly #sockets = new Set<Socket>()
  /** One promise for each open connection. It resolves when the connection no longer uses the session. */
  readonly #ends = new Set<Promise<void>>()

  /** @param onFailure called if the database fails; it can't be used after that */
  constructor (db: PGlite, onFailure: (error: unknown) => void) {
    this.#db = db
    this.#onFailure = onFailure
  }

  /**
   * @param onChange for commands: called when a client of this socket may have changed something. The client
   *   waits. Without it, the socket is the service's, which has one connection at a time.
   */
  async listen (path: string, onChange?: () => Promise<void>): Promise<void> {
    const server = createServer((socket) => {
      socket.on('error', () => {}) // the iteration below ends
      this.#sockets.add(socket)
      const end = this.#serve(socket, onChange).catch(this.#onFailure).finally(() => this.#ends.delete(end))
      this.#ends.add(end)
    })
    this.#servers.push(server)
    server.listen(path)
    await once(server, 'listening')
    await chmod(path, 0o600)
  }

  /** Closes the listeners and all connections. */
  async close (): Promise<void> {
    for (const server of this.#servers) server.close()
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all(this.#ends)
  }

  async #serve (socket: Socket, onChange?: () => Promise<void>): Promise<void> {
    const input = messages(socket)
    let forgets = onChange === undefined
    try {
      for await (const first of input) {
        if (first[0] === TERMINATE) break
        await this.#db.runExclusive(async () => {
          // The service's new connection uses the same names as its last one, which may not have ended yet.
          if (forgets) await this.#db.execProtocolRawStream(DEALLOCATE_ALL, { onRawData () {} })
          forgets = false
          await this.#takeTurn(socket, first, input, onChange)
        })
      }
    } catch (error) {
      if (!socket.destroyed) throw error
    } finally {
      socket.destroy()
      this.#sockets.delete(socket)
    }
    // Otherwise the session would keep the lock and the settings of the migrations.
    if (this.#sockets.size === 0) await this.#db.exec('DISCARD ALL')
  }

  /** Answers messages until no transaction is open. If the connection ends before, rolls it back. */
  async #takeTurn (
    socket: Socket,
    first: Uint8Array,
    input: AsyncGenerator<Uint8Array>,
    onChange?: () => Promise<void>
  ): Promise<void> {
    let isIdle = false
    let mayChange = false
    try {
      for (let message: Uint8Array | undefined = first; message !== undefined;) {
        mayChange ||= onChange !== undefined && isChange(message)
        isIdle = await this.#respond(socket, message, mayChange ? onChange : undefined)
        if (isIdle) return
        const limit = setTimeout(() => socket.destroy(), IDLE_LIMIT_MS)
        const { value } = await input.next().finally(() => clearTimeout(limit))
        message = value?.[0] === TERMINATE ? undefined : value
      }
    } finally {
      if (!isIdle) {
        socket.destroy() // PGlite would pass on these responses, too
        await this.#db.execProtocolRaw(SYNC, { throwOnError: false })
        await this.#db.execProtocolRaw(ROLLBACK)
      }
    }
  }

  /** Answers a message. Returns whether no transaction is open afterwards. */
  async #respond (
    socket: Socket,
    message: Uint8Array,
    beforeIdle?: () => Promise<void>
  ): Promise<boolean> {
    const isExtended = EXTENDED.has(message[0] as number)
    /** What ends with the ReadyForQuery outside of a transaction. */
    let last: Buffer | undefined
    const send = (bytes: Buffer): void => {
      if (socket.writable) socket.write(bytes)
    }
    let rest: Buffer = Buffer.alloc(0)
    const receive = (bytes: Buffer): void => {
      rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
      const passed: Buffer[] = []
      let isIdle = false
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        const part = rest.subarray(0, 1 + rest.readUInt32BE(1))
        rest = rest.subarray(part.length)
        const isReady = part[0] === READY_FOR_QUERY
        // After an error, PGlite sends one too early and another one after the Sync, which the client would
        // take for the end of its next statement.
        if (isReady && isExtended) continue
        if (isReady) isIdle = part[5] === IDLE
        passed.push(part)
      }
      if (isIdle) last = Buffer.concat(passed)
      else send(Buffer.concat(passed))
    }
    // A copy, because PGlite reuses the memory.
    await this.#db.execProtocolRawStream(message, { onRawData: (bytes) => receive(Buffer.from(bytes)) })
    if (last === undefined) return false
    await beforeIdle?.()
    send(last)
    return true
  }
}

/** Whether a message may change something, or contains a statement that may. */
const isChange = (message: Uint8Array): boolean =>
  STATEMENTS.has(message[0] as number) && !READING.test(Buffer.from(message).toString('latin1', 5))

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
