import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { counterOf, gaugeOf } from './metrics.ts'

/** The limit is said again only after so long. */
const SAY_AGAIN_MS = 60_000

/** File descriptors that are for other things than clients: PostgreSQL, Redis, modules, pipes. */
const OTHER_FILES = 100
/** A client's connection, and the file that it is sent or sends. */
const FILES_PER_CONNECTION = 2

/** As many connections as the process can have with a file each; without files it could no longer do anything. Linux only. */
function affordable (): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? Infinity : Math.max(1, Math.floor((Number(soft) - OTHER_FILES) / FILES_PER_CONNECTION))
  } catch {
    return Infinity
  }
}

/**
 * Closes connections beyond a number at once. Node's own `server.maxConnections` hands them on to the next worker, and
 * round and round while all are full.
 *
 * @param wanted open at the same time in this process, fewer if it can't have as many files open; 0 for any number
 */
export default fp<{ max: number }>(async (app, { max: wanted }) => {
  const max = wanted === 0 ? 0 : Math.min(wanted, affordable())
  if (max < wanted) app.log.info({ max }, `MAX_CONNECTIONS is ${wanted}, but with so few open files (ulimit -n) there can be ${max}: raise that limit`)
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
    app.log.warn({ max }, 'connections beyond the limit (MAX_CONNECTIONS) are closed (said once a minute)')
  })
  gaugeOf(app.metrics, { name: 'landfall_connections', help: 'Open connections of clients' }, () => open)
  gaugeOf(app.metrics, { name: 'landfall_connections_max', help: 'Connections that may be open (MAX_CONNECTIONS); 0 for any number' }, () => max)
  counterOf(app.metrics, { name: 'landfall_connections_refused_total', help: 'Connections closed at once, beyond MAX_CONNECTIONS' }, () => refused)
}, { name: 'connection-limit', dependencies: ['metrics'] })
