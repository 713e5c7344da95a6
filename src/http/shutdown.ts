import cluster from 'node:cluster'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'
import type { FastifyInstance } from 'fastify'
import { clock } from '../infra/system/clock.ts'
import { announceClose } from './responses.ts'
import { currentResponse, isConnected, shortenAcceptQueue } from './hardening/node-internals.ts'

// The four phases of the shutdown are explained in docs/adr/0015-shutdown-in-phases.md. `shutDown()` runs the
// first three, `close()` the last one.

declare module 'fastify' {
  interface FastifyInstance {
    /** Runs phases 1 to 3. Call it before `close()`. */
    shutDown: () => Promise<void>
    /** Closes all connections at once, in any phase. */
    cutOff: () => void
    /** Is aborted when the shutdown begins. */
    shutdownSignal: AbortSignal
  }
}

const POLL_INTERVAL_MS = 50
const MAX_ACCEPT_QUEUE_MS = 2000
/** Longest duration of phase 3. */
const MAX_ANNOUNCE_MS = 1000
/** Time limit in phase 4 for the headers of a request. Until then, its connection isn't idle for Node. */
const INCOMPLETE_REQUEST_MS = 1000
/** Time limit in phase 4 for a pause in a body. Longer, because a body that still arrives mustn't be cut. */
const PAUSED_BODY_MS = 3000

/** Whether a handler has read the part of a body that has arrived, and waits for the rest. */
const awaitsBody = ({ req, headersSent }: ServerResponse): boolean =>
  !headersSent && !req.complete && req.readableFlowing !== null && req.readableLength === 0

class Shutdown {
  readonly #app: FastifyInstance
  /** Longest duration of the whole shutdown, in milliseconds. */
  readonly #timeoutMs: number
  /** Longest duration of phase 1, in milliseconds. `#timeoutMs` includes it. */
  readonly #delayMs: number
  readonly #sockets = new Set<Socket>()
  readonly #cutOff = new AbortController()
  readonly #started = new AbortController()
  #startedAt: number | undefined
  #isFinishing = false
  #lastClosedAt = -Infinity

  constructor (app: FastifyInstance) {
    this.#app = app
    this.#timeoutMs = app.config.SHUTDOWN_TIMEOUT_MS
    this.#delayMs = app.config.SHUTDOWN_DELAY_MS
    const { server } = app
    server.on('connection', (socket: Socket) => this.#track(socket))
    const closeIdleConnections = server.closeIdleConnections.bind(server)
    server.closeIdleConnections = () => {
      // Phases 2 and 3: `server.close()` also calls this function.
      if (!this.#isFinishing) return
      // Node counts a connection as idle when its response is written, even if it isn't sent yet.
      if ([...this.#sockets].every((socket) => socket.writableLength === 0)) closeIdleConnections()
    }
  }

  get signal (): AbortSignal {
    return this.#started.signal
  }

  /** Unlike `closeAllConnections()`, it also closes the sockets of CONNECT requests. */
  cutOff (): void {
    this.#cutOff.abort()
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Phase 1: /health/ready answers 503. Ends early if no client was connected for `delayMs`. */
  async reportNotReady (): Promise<void> {
    const end = Math.min(this.#start() + this.#delayMs, this.#deadline())
    await this.#wait(end, () => this.#sockets.size === 0 && clock.now() >= this.#lastClosedAt + this.#delayMs)
  }

  /**
   * Phase 2: closes the listener when its accept queue is empty, because closing it resets the connections in
   * the queue. A cluster worker has no queue, so its listener is closed at once.
   */
  async stopAccepting (): Promise<void> {
    const { server } = this.#app
    const { signal } = this.#cutOff
    if (!server.listening) return
    if (!cluster.isPrimary || signal.aborted || !shortenAcceptQueue(server)) {
      server.close()
      return
    }
    const timeoutMs = Math.max(0, Math.min(MAX_ACCEPT_QUEUE_MS, this.#deadline() - clock.now()))
    await closeWhenEmpty(server, timeoutMs, signal)
  }

  /** Phase 3: adds `Connection: close` to all responses. */
  async announceClosing (): Promise<void> {
    this.#app.server.prependListener(
      'request',
      (_request: IncomingMessage, response: ServerResponse) => announceClose(response)
    )
    for (const socket of this.#sockets) {
      const response = currentResponse(socket)
      if (response !== undefined) announceClose(response)
    }
    await this.#wait(
      Math.min(clock.now() + MAX_ANNOUNCE_MS, this.#deadline()),
      () => this.#sockets.size === 0
    )
  }

  /** Phase 4: closes connections when they are idle. Returns at once; Fastify's `close()` waits for them. */
  finishRequests (): void {
    this.#start()
    this.#isFinishing = true
    const finishingSince = clock.now()
    const { server, log } = this.#app
    /** The last progress of each connection. */
    const progress = new WeakMap<Socket, { readonly bytesRead: number, readonly at: number }>()
    const hasPaused = (socket: Socket): boolean => {
      const { bytesRead } = socket
      const last = progress.get(socket)
      if (last?.bytesRead === bytesRead) return clock.now() >= last.at + PAUSED_BODY_MS
      progress.set(socket, { bytesRead, at: clock.now() })
      return false
    }
    const poll = setInterval(() => {
      server.closeIdleConnections()
      if (clock.now() < finishingSince + INCOMPLETE_REQUEST_MS) return
      for (const socket of this.#sockets) {
        const response = currentResponse(socket)
        const isStuck = response === undefined ? socket.writableLength === 0
          : awaitsBody(response) && hasPaused(socket)
        if (isStuck) socket.destroy()
      }
    }, POLL_INTERVAL_MS).unref()
    const deadline = setTimeout(() => {
      log.warn(`requests that were still in flight after ${this.#timeoutMs} ms are cut off`)
      this.cutOff()
    }, Math.max(0, this.#deadline() - finishingSince)).unref()
    server.once('close', () => {
      clearInterval(poll)
      clearTimeout(deadline)
    })
  }

  #start (): number {
    this.#startedAt ??= clock.now()
    this.#started.abort()
    return this.#startedAt
  }

  #deadline (): number {
    return this.#start() + this.#timeoutMs
  }

  #track (socket: Socket): void {
    if (this.#cutOff.signal.aborted) socket.destroy()
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#lastClosedAt = clock.now()
    })
  }

  async #wait (until: number, isDone: () => boolean): Promise<void> {
    while (!this.#cutOff.signal.aborted && clock.now() < until && !isDone()) await sleep(POLL_INTERVAL_MS)
  }
}

/** Closes a listener when a connection of its own enters the accept queue, which must be empty for that. */
async function closeWhenEmpty (server: Server, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const { address: host, port } = server.address() as AddressInfo
  await new Promise<void>((resolve) => {
    let own: Socket
    const timer = setTimeout(finish, timeoutMs)
    function enter (): void {
      own = connect({ host, port }).on('error', finish)
      // In the next tick Node has started to connect, but doesn't know the result yet.
      process.nextTick(() => {
        if (isConnected(own)) finish()
      })
    }
    function tryAgain (): void {
      own.destroy()
      enter()
    }
    function finish (): void {
      server.off('connection', tryAgain).off('drop', tryAgain)
      signal.removeEventListener('abort', finish)
      clearTimeout(timer)
      own.destroy()
      // In the same turn of the event loop, so that no connection is added in between.
      server.close()
      resolve()
    }
    server.on('connection', tryAgain).on('drop', tryAgain)
    signal.addEventListener('abort', finish)
    enter()
  })
}

/** Shuts the service down without failing a request. `server.ts` calls it after a signal. */
export default fp(async (app) => {
  const shutdown = new Shutdown(app)
  app.decorate('shutdownSignal', shutdown.signal)
  app.decorate('cutOff', () => shutdown.cutOff())
  app.decorate('shutDown', async () => {
    await shutdown.reportNotReady()
    await shutdown.stopAccepting()
    await shutdown.announceClosing()
  })
  app.addHook('preClose', async () => shutdown.finishRequests())
}, { name: 'shutdown' })
