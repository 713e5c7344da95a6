// Attack: so many connections that the process can't open files or connect to PostgreSQL any more.
// Test: test/system/security/connections.test.ts
// nginx: limits the connections of one address, not of many

import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { addMetrics } from '../../infra/telemetry/metrics.ts'

const WARN_INTERVAL_MS = 60_000

/** File descriptors that are reserved for PostgreSQL, Redis, modules and pipes. */
const OTHER_FILES = 100
/** A limit of open files that allows this share of MAX_CONNECTIONS isn't worth a log line. */
const WORTH_LOGGING = 0.9
/** A client's connection, and the file that it uploads or downloads. */
const FILES_PER_CONNECTION = 2

/** How many connections `ulimit -n` allows; Infinity if unknown (not Linux). */
function maxByOpenFiles (): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? Infinity
      : Math.max(1, Math.floor((Number(soft) - OTHER_FILES) / FILES_PER_CONNECTION))
  } catch {
    return Infinity
  }
}

/**
 * Closes connections beyond a limit at once. In a cluster, Node's `server.maxConnections` would pass them
 * from one full worker to the next.
 */
export default fp(async (app) => {
  const { MAX_CONNECTIONS: wanted } = app.config
  const max = wanted === 0 ? 0 : Math.min(wanted, maxByOpenFiles())
  if (max < wanted * WORTH_LOGGING) {
    app.log.info(
      { max },
      `MAX_CONNECTIONS is ${wanted}, but the limit of open files (ulimit -n) allows ${max}; raise the ` +
        'limit of open files'
    )
  }
  let open = 0
  let refused = 0
  let warnedAt = -Infinity
  app.server.on('connection', (socket: Socket) => {
    open++
    socket.once('close', () => {
      open--
    })
    if (max === 0 || open <= max) return
    refused++
    socket.destroy()
    const now = performance.now()
    if (now - warnedAt < WARN_INTERVAL_MS) return
    warnedAt = now
    app.log.warn(
      { max },
      'connections beyond the limit (MAX_CONNECTIONS) are closed (logged at most once a minute)'
    )
  })
  addMetrics(app.metrics, {
    landfall_connections: ['Open connections of clients', () => open],
    landfall_connections_max: ['Limit of open connections (MAX_CONNECTIONS); 0 for no limit', () => max],
    landfall_connections_refused_total: ['Connections closed at once (MAX_CONNECTIONS)', () => refused]
  })
}, { name: 'connection-limit', dependencies: ['metrics'] })
