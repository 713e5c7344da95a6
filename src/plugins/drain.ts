import type { Socket } from 'node:net'
import fp from 'fastify-plugin'

const LOOK_INTERVAL_MS = 50

/**
 * Lets close() finish what is in flight, for a limited time. Fastify closes the connections that are idle when closing
 * begins and waits for the others; those are closed here as they become idle, instead of when their clients like. Ones that
 * never sent a byte (browsers open some in advance) don't count as idle for Node.
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
  app.addHook('preClose', async () => {
    const look = setInterval(() => {
      server.closeIdleConnections()
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
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
