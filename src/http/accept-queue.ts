import { connect, type AddressInfo, type Socket } from 'node:net'
import type { Server } from 'node:http'
import cluster from 'node:cluster'
import { isConnected, shortenAcceptQueue } from './hardening/node-internals.ts'

/**
 * Closes a listener when its accept queue is empty, because closing it resets the connections in the queue
 * (docs/adr/0015-shutdown-in-phases.md). A cluster worker has no queue, so its listener is closed at once.
 *
 * @param timeoutMs time limit in milliseconds, after which the listener is closed in any case
 * @param signal closes the listener at once
 */
export async function closeListener (
  server: Server,
  { isSupported, timeoutMs, signal }: { isSupported: boolean, timeoutMs: number, signal: AbortSignal }
): Promise<void> {
  if (!server.listening) return
  if (isSupported && cluster.isPrimary && !signal.aborted && shortenAcceptQueue(server)) {
    await closeWhenEmpty(server, timeoutMs, signal)
  } else server.close()
}

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
