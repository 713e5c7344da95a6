import { once } from 'node:events'
import { chmod } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'

export interface PrivateSocketServer {
  /** Closes the listener and all connections. */
  close(): Promise<void>
}

/** Listens on a Unix socket that only the user of this process can connect to. */
export async function servePrivately (
  path: string,
  onConnection: (socket: Socket) => void
): Promise<PrivateSocketServer> {
  const connections = new Set<Socket>()
  const server = createServer((socket) => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket)).on('error', () => {}) // 'close' follows
    onConnection(socket)
  })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o600)
  return {
    async close () {
      const closed = once(server, 'close')
      server.close()
      for (const socket of connections) socket.destroy()
      await closed
    }
  }
}
