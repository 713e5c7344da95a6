import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { clock } from '../clock.ts'

const LOOK_INTERVAL_MS = 50
/** A request that has begun to arrive may still arrive for so long. */
const HALF_SENT_GRACE_MS = 1000

/** Whether there is a request to answer on a connection, or an answer that is not all sent. */
const isBusy = (socket: Socket & { _httpMessage?: unknown }): boolean => (socket._httpMessage ?? undefined) !== undefined || socket.writableLength > 0

/**
 * Lets close() finish what is in flight, for a limited time. Fastify closes the connections that are idle when closing
 * begins and waits for the others; those are closed here as they become idle, instead of when their clients like. Ones that
 * never sent a byte (browsers open some in advance), or half a request, don't count as idle for Node; ones with an answer
 * that was handed over but is not sent yet do.
 *
 * @param timeoutMs how long requests may take to finish, in milliseconds
 */
export default fp<{ timeoutMs: number }>(async (app, { timeoutMs }) => {
  const { server } = app
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    for (const socket of sockets) if (socket.writableLength > 0) return
    closeIdle()
  }
  app.addHook('preClose', async () => {
    const halfSentUntil = clock.now() + HALF_SENT_GRACE_MS
    const look = setInterval(() => {
      server.closeIdleConnections()
      for (const socket of sockets) {
        if (!isBusy(socket) && (socket.bytesRead === 0 || clock.now() >= halfSentUntil)) socket.destroy()
      }
    }, LOOK_INTERVAL_MS)
    const deadline = setTimeout(() => {
      app.log.warn(`requests that were still in flight after ${timeoutMs} ms are cut off`)
      server.closeAllConnections()
    }, timeoutMs)
    server.once('close', () => {
      clearInterval(look)
      clearTimeout(deadline)
    })
    for (const timer of [look, deadline]) timer.unref()
  })
}, { name: 'drain' })
