import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { counterOf, gaugeOf } from './metrics.ts'

/** The limit is said again only after so long. */
const SAY_AGAIN_MS = 60_000

/**
 * Closes connections beyond a number at once. Node's own `server.maxConnections` hands them on to the next worker, and
 * round and round while all are full.
 *
 * @param max open at the same time in this process; 0 for any number
 */
export default fp<{ max: number }>(async (app, { max }) => {
  let open = 0
  let refused = 0
  let saidAt = -Infinity
  app.server.on('connection', (socket: Socket) => {
    open++
    socket.once('close', () => { open-- })
    if (max === 0 || open <= max) return
    refused++
    socket.destroy()
    const now = performance.now()
    if (now - saidAt < SAY_AGAIN_MS) return
    saidAt = now
    app.log.warn({ max }, 'connections beyond MAX_CONNECTIONS are closed (said once a minute)')
  })
  gaugeOf(app.metrics, { name: 'landfall_connections', help: 'Open connections of clients' }, () => open)
  gaugeOf(app.metrics, { name: 'landfall_connections_max', help: 'Connections that may be open (MAX_CONNECTIONS); 0 for any number' }, () => max)
  counterOf(app.metrics, { name: 'landfall_connections_refused_total', help: 'Connections closed at once, beyond MAX_CONNECTIONS' }, () => refused)
}, { name: 'connection-limit', dependencies: ['metrics'] })
