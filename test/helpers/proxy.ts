import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Teardown } from '../shared/guardian.ts'
import { freePort } from '../shared/instances.ts'

// A TCP proxy that delays, drops and resets connections.

export interface Proxy {
  readonly port: number
  /** The target's URL with the address of the proxy. */
  readonly url: string
  /** Number of open connections. */
  readonly connections: number
  /**
   * Drops data in both directions without closing connections, like a cut cable or a firewall. `restore`
   * delivers the data, as retransmission would.
   *
   * @param only drops only on connections whose client has sent a match, such as `/subscribe/i`
   */
  blackhole(only?: RegExp): void
  /** Resets open connections and refuses new ones, like a server that has exited. */
  refuse(): Promise<void>
  /** Resets open connections; new ones work. */
  disconnect(): void
  /** Delays the responses of the target by `ms` milliseconds. */
  delay(ms: number): void
  /**
   * Ends all faults. With `forget`, connections whose data is being dropped stay dead, as behind a firewall
   * that has lost its state.
   */
  restore(options?: { forget?: boolean }): Promise<void>
}

/** @param target URL of the server, or its port on the loopback address */
export async function createProxy (t: Teardown, target: string | number): Promise<Proxy> {
  const address = typeof target === 'number' ? new URL(`tcp://127.0.0.1:${target}`) : new URL(target)
  const targetPort = Number(address.port) ||
    ({ 'redis:': 6379, 'postgres:': 5432, 'postgresql:': 5432 }[address.protocol] ?? 80)
  const state: State = { blackhole: undefined, delayMs: 0 }
  const open = new Set<Connection>()

  // Half-open, so that the end of a direction is delayed and dropped like its data.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({
      host: address.hostname.replace(/^\[|\]$/g, ''),
      port: targetPort,
      allowHalfOpen: true
    })
    const connection = createConnection(client, upstream, state, () => open.delete(connection))
    open.add(connection)
  })
  server.on('error', () => {})
  const disconnect = () => {
    for (const connection of open) connection.reset()
  }
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  for (let attempt = 1; !server.listening; attempt++) {
    try {
      await listen(await freePort())
    } catch (error) {
      if (attempt === 5) throw error
    }
  }
  const { port } = server.address() as AddressInfo
  const url = new URL(address)
  url.hostname = '127.0.0.1'
  url.port = String(port)

  const refuse = async () => {
    if (server.listening) {
      const closed = once(server, 'close')
      server.close()
      disconnect()
      await closed
    }
  }
  t.teardown(refuse)

  return {
    port,
    url: url.href,
    get connections () {
      return open.size
    },
    blackhole (only = /(?:)/) {
      state.blackhole = only
    },
    refuse,
    disconnect,
    delay (ms) {
      state.delayMs = ms
    },
    async restore ({ forget = false } = {}) {
      if (forget) { for (const connection of open) connection.forget() }
      state.blackhole = undefined
      state.delayMs = 0
      if (!server.listening) await listen(port)
      for (const connection of open) connection.pump()
    }
  }
}

interface State {
  /** Data of connections whose client has sent a match is held back; undefined for none. */
  blackhole: RegExp | undefined
  delayMs: number
}

interface Connection {
  reset(): void
  /** Delivers the data that is due. */
  pump(): void
  /** If data is being held back, holds it back for ever. */
  forget(): void
}

/** Length of the client's data that `blackhole` compares with its pattern. */
const REMEMBERED_BYTES = 16 * 1024

function createConnection (client: Socket, upstream: Socket, state: State, closed: () => void): Connection {
  let sent = ''
  let isForgotten = false
  const isHeld = () => isForgotten || (state.blackhole !== undefined && state.blackhole.test(sent))
  const reset = () => {
    for (const socket of [client, upstream]) {
      // libuv refuses to reset a socket that is being ended, and Node would keep its handle open for ever.
      if (socket.writableEnded) socket.destroy()
      else socket.resetAndDestroy()
    }
  }
  const directions = [
    createDirection(client, upstream, isHeld, () => 0, (chunk) => {
      if (sent.length < REMEMBERED_BYTES) sent += chunk.toString('latin1')
    }),
    createDirection(upstream, client, isHeld, () => state.delayMs, () => {})
  ]
  let left = 2
  for (const socket of [client, upstream]) {
    socket.setNoDelay(true)
    socket.on('close', () => {
      if (--left === 0) closed()
    })
  }
  return {
    reset,
    pump: () => {
      for (const pump of directions) pump()
    },
    forget: () => {
      isForgotten = isHeld()
    }
  }
}

function createDirection (
  from: Socket,
  to: Socket,
  isHeld: () => boolean,
  delayMs: () => number,
  seen: (chunk: Buffer) => void
): () => void {
  // The last entry of a direction is its end or its reset.
  const queue: { chunk: Buffer | 'end' | 'break', due: number }[] = []
  let lastDue = 0
  let timer: NodeJS.Timeout | undefined

  const pump = () => {
    clearTimeout(timer)
    while (queue[0] !== undefined && !isHeld()) {
      const wait = queue[0].due - performance.now()
      if (wait > 0) {
        timer = setTimeout(pump, Math.ceil(wait))
        return
      }
      const { chunk } = queue.shift() as typeof queue[number]
      if (chunk === 'break') to.destroy()
      else if (chunk === 'end') to.end()
      else if (!to.write(chunk)) from.pause()
    }
  }
  const push = (chunk: Buffer | 'end' | 'break') => {
    // Keeps the order when the delay becomes shorter.
    lastDue = Math.max(lastDue, performance.now() + delayMs())
    queue.push({ chunk, due: lastDue })
    pump()
  }

  from.on('data', (chunk: Buffer) => {
    seen(chunk)
    push(chunk)
  })
  from.on('end', () => push('end'))
  from.on('error', () => push('break'))
  from.on('close', () => push('break'))
  to.on('drain', () => from.resume())
  to.on('close', () => clearTimeout(timer))
  return pump
}
