import cluster from 'node:cluster'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'
import { clock } from '../clock.ts'
import { makeLast, type ServingSocket } from '../reply.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Takes leave of the clients, before `close()`, in two steps. For SHUTDOWN_DELAY_MS, or not at all when there were no
     * clients for as long, all goes on as ever but for `/health/ready`: load balancers learn from it that they should not
     * come again. Then no new connections are taken, and for up to a second all that is asked on the others is answered with
     * `Connection: close`, so that nobody's next request meets a connection that was closed while it was on its way.
     *
     * In this order because there are few new connections as long as the old ones can be used again.
     */
    drain: () => Promise<void>
    /** Closes all connections at once, whatever is in flight on them; a `drain()` under way waits for nothing more. */
    cutOff: () => void
    /** Whether the service is about to end, and should be sent no more requests. */
    isDraining: () => boolean
  }
}

const LOOK_INTERVAL_MS = 50
/** Who asks more often than this is told that the connection ends; one that is idle for longer may be closed. */
const LEAVE_MS = 1000
/** How long those who wait for their connection to be taken are waited for. */
const MAX_QUEUE_MS = 2000
/** A request that has begun to arrive may still arrive for so long. */
const HALF_SENT_GRACE_MS = 1000

/** What Node doesn't show of its servers and sockets: their calls to the system, which give 0 or what went wrong. */
interface Internals {
  readonly _handle?: {
    /** Of a listener that listens: sets the length of its queue. */
    readonly listen?: (backlog: number) => number
    /** Of a connection: fails until the system has made it. */
    readonly getpeername?: (into: object) => number
  } | null
}

/** Whether there is a request to answer on a connection, or an answer that is not all sent. */
const isBusy = (socket: ServingSocket): boolean => (socket._httpMessage ?? undefined) !== undefined || socket.writableLength > 0

/**
 * Closes the listener when nobody waits any more for a connection to be taken. Whoever comes after that is refused and can
 * go elsewhere, but the connections that the system has made by itself, and nobody has taken, are reset then, and a request may
 * have been sent on them. libuv takes one in each turn of the event loop, so many may wait.
 *
 * With a queue of length 0 the system lets somebody in only while nobody waits (`sk_acceptq_is_full` of Linux; others may
 * let more in). A connection of our own that got in is alone there until it is taken: that is the moment to close.
 *
 * Under node:cluster the queue is the primary's, and the listener is closed as it is.
 *
 * @param waitMs how long those who wait may go on to come as fast as they are taken, in milliseconds
 * @param hurry ends the wait
 */
async function closeListener (server: Server & Internals, waitMs: number, hurry: AbortSignal): Promise<void> {
  if (!hurry.aborted && cluster.isPrimary && server._handle?.listen?.(0) === 0) {
    const { address: host, port } = server.address() as AddressInfo
    await new Promise<void>((resolve) => {
      let own: Socket & Internals
      const limit = setTimeout(finish, waitMs)
      function tryToEnter (): void {
        own = connect({ host, port }).on('error', finish)
        // Node has asked the system for the connection by then, and has not looked for its answer.
        process.nextTick(() => { if (own._handle?.getpeername?.({}) === 0) finish() })
      }
      function tryAgain (): void {
        own.destroy()
        tryToEnter()
      }
      function finish (): void {
        server.close()
        server.off('connection', tryAgain).off('drop', tryAgain)
        hurry.removeEventListener('abort', finish)
        clearTimeout(limit)
        own.destroy()
        resolve()
      }
      server.on('connection', tryAgain).on('drop', tryAgain)
      hurry.addEventListener('abort', finish)
      tryToEnter()
    })
  } else if (server.listening) server.close()
}

/**
 * Lets close() finish what is in flight, for a limited time. Fastify closes the connections that are idle when closing
 * begins and waits for the others; those are closed here as they become idle, instead of when their clients like. Ones that
 * never sent a byte (browsers open some in advance), or half a request, don't count as idle for Node; ones with an answer
 * that was handed over but is not sent yet do.
 *
 * @param timeoutMs how long requests may take to finish, in milliseconds, from `drain()` or else `close()` on
 * @param delayMs how long of that all is answered as ever
 */
export default fp<{ timeoutMs: number, delayMs: number }>(async (app, { timeoutMs, delayMs }) => {
  const { server } = app
  /** With the time at which each was opened. */
  const sockets = new Map<ServingSocket, number>()
  let beganAt: number | undefined
  /** When the last connection so far ended. Whoever had one a moment ago, such as a load balancer's look, may come again. */
  let leftAt = -Infinity
  const hurry = new AbortController()
  server.on('connection', (socket: Socket) => {
    if (hurry.signal.aborted) socket.destroy()
    sockets.set(socket, clock.now())
    socket.once('close', () => {
      sockets.delete(socket)
      leftAt = clock.now()
    })
  })
  let isClosing = false
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    if (!isClosing) return // the listener alone is closed: nobody has been told yet
    for (const socket of sockets.keys()) if (socket.writableLength > 0) return
    closeIdle()
  }

  // Not `closeAllConnections`: Node no longer counts those that it handed over, at a CONNECT.
  const cutOff = (): void => {
    hurry.abort()
    for (const socket of sockets.keys()) socket.destroy()
  }
  app.decorate('cutOff', cutOff)
  app.decorate('isDraining', () => beganAt !== undefined)
  app.decorate('drain', async () => {
    const now = beganAt ??= clock.now()
    const deadline = now + timeoutMs
    const closing = Math.min(deadline, now + delayMs)
    const inHurry = (): boolean => hurry.signal.aborted
    while (!inHurry() && clock.now() < closing && (sockets.size > 0 || clock.now() < leftAt + delayMs)) await sleep(LOOK_INTERVAL_MS)
    await closeListener(server, Math.max(0, Math.min(MAX_QUEUE_MS, deadline - clock.now())), hurry.signal)

    server.prependListener('request', (_request: IncomingMessage, response: ServerResponse) => makeLast(response))
    for (const { _httpMessage: underWay } of sockets.keys()) if (underWay?.headersSent === false) makeLast(underWay)
    const leaving = Math.min(deadline, clock.now() + LEAVE_MS)
    while (!inHurry() && clock.now() < leaving && sockets.size > 0) await sleep(LOOK_INTERVAL_MS)
  })

  app.addHook('preClose', async () => {
    isClosing = true
    const closedAt = clock.now()
    const drainedFrom = beganAt ??= closedAt
    const isLeftOver = (socket: ServingSocket, openedAt: number, now: number): boolean => {
      if (isBusy(socket)) return false
      if (socket.bytesRead > 0) return now >= closedAt + HALF_SENT_GRACE_MS
      return openedAt <= drainedFrom || now >= openedAt + HALF_SENT_GRACE_MS
    }
    const look = setInterval(() => {
      server.closeIdleConnections()
      const now = clock.now()
      for (const [socket, openedAt] of sockets) if (isLeftOver(socket, openedAt, now)) socket.destroy()
    }, LOOK_INTERVAL_MS)
    const deadline = setTimeout(() => {
      app.log.warn(`requests that were still in flight after ${timeoutMs} ms are cut off`)
      cutOff()
    }, Math.max(0, drainedFrom + timeoutMs - closedAt))
    server.once('close', () => {
      clearInterval(look)
      clearTimeout(deadline)
    })
    for (const timer of [look, deadline]) timer.unref()
  })
}, { name: 'drain' })
