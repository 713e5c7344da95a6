import type { Socket } from 'node:net'
import fp from 'fastify-plugin'

/** The limit is said again only after so long. */
const SAY_AGAIN_MS = 60_000

/**
 * Closes connections beyond a number at once. Node's own `server.maxConnections` hands them on to the next worker, and
 * round and round while all are full.
 *
 * @param max open at the same time in this process; 0 for any number
 */
export default fp<{ max: number }>(async (app, { max }) => {
  if (max === 0) return
  let open = 0
  let saidAt = -Infinity
  app.server.on('connection', (socket: Socket) => {
    open++
    socket.once('close', () => { open-- })
    if (open <= max) return
    socket.destroy()
    const now = performance.now()
    if (now - saidAt < SAY_AGAIN_MS) return
    saidAt = now
    app.log.warn({ max }, 'connections beyond MAX_CONNECTIONS are closed (said once a minute)')
  })
}, { name: 'connection-limit' })
