import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { freePort } from './instances.ts'

// A TCP proxy that breaks connections the way networks do.

/** What the helpers need of a tap test. */
export interface Teardown {
  teardown (action: () => unknown): unknown
}

export interface Proxy {
  readonly port: number
  /** The target's URL with the proxy's address in it. */
  readonly url: string
  /** Connections that are open now. */
  readonly connections: number
  /**
   * Accepts connections and data but passes nothing on, in both directions, and closes nothing: what a cut cable or a
   * firewall that drops looks like. `restore` delivers what was held back, as retransmission would.
   *
   * @param only limits it to connections whose client has sent something that matches, such as `/subscribe/i`
   */
  blackhole (only?: RegExp): void
  /** Resets open connections and refuses new ones, as when the process is gone. */
  refuse (): Promise<void>
  /** Resets open connections once; new ones work. */
  disconnect (): void
  /** Passes each answer of the target on `ms` milliseconds late, from now on. */
  delay (ms: number): void
  /**
   * Everything works again. With `forget` all but the connections that are held now: those stay dead, as behind a
   * firewall that has lost its table.
   */
  restore (options?: { forget?: boolean }): Promise<void>
}

/** @param target URL or port of the server behind it, on the loopback address when it is a port */
export async function createProxy (t: Teardown, target: string | number): Promise<Proxy> {
  const address = typeof target === 'number' ? new URL(`tcp://127.0.0.1:${target}`) : new URL(target)
  const targetPort = Number(address.port) || ({ 'redis:': 6379, 'postgres:': 5432, 'postgresql:': 5432 }[address.protocol] ?? 80)
  const state: State = { blackhole: undefined, delayMs: 0 }
  const open = new Set<Connection>()

  // Half-open, so that the end of one direction travels like its data.
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ host: address.hostname.replace(/^\[|\]$/g, ''), port: targetPort, allowHalfOpen: true })
    const connection = createConnection(client, upstream, state, () => open.delete(connection))
    open.add(connection)
  })
  server.on('error', () => {})
  const disconnect = () => { for (const connection of open) connection.reset() }
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
    get connections () { return open.size },
    blackhole (only = /(?:)/) { state.blackhole = only },
    refuse,
    disconnect,
    delay (ms) { state.delayMs = ms },
    async restore ({ forget = false } = {}) {
      if (forget) for (const connection of open) connection.forget()
      state.blackhole = undefined
      state.delayMs = 0
      if (!server.listening) await listen(port)
      for (const connection of open) connection.pump()
    }
  }
}

interface State {
  /** Connections whose client has sent a match are held; undefined: none is. */
  blackhole: RegExp | undefined
  delayMs: number
}

interface Connection {
  reset (): void
  /** Passes on what may be passed on now. */
  pump (): void
  /** Goes on holding back what it holds back now, for ever. */
  forget (): void
}

/** Of what a client has sent, enough to recognise what the connection is for. */
const REMEMBERED_BYTES = 16 * 1024

function createConnection (client: Socket, upstream: Socket, state: State, closed: () => void): Connection {
  let sent = ''
  let isForgotten = false
  const isHeld = () => isForgotten || (state.blackhole !== undefined && state.blackhole.test(sent))
  const reset = () => {
    for (const socket of [client, upstream]) {
      // libuv refuses to reset what is just being ended; Node then keeps the handle, and never ends itself.
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
    socket.on('close', () => { if (--left === 0) closed() })
  }
  return {
    reset,
    pump: () => { for (const pump of directions) pump() },
    forget: () => { isForgotten = isHeld() }
  }
}

function createDirection (from: Socket, to: Socket, isHeld: () => boolean, delayMs: () => number, seen: (chunk: Buffer) => void): () => void {
  // The last entry of a direction is its end, or its break.
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
    // Order holds even when the delay has just become shorter.
    lastDue = Math.max(lastDue, performance.now() + delayMs())
    queue.push({ chunk, due: lastDue })
    pump()
  }

  from.on('data', (chunk: Buffer) => { seen(chunk); push(chunk) })
  from.on('end', () => push('end'))
  from.on('error', () => push('break'))
  from.on('close', () => push('break'))
  to.on('drain', () => from.resume())
  to.on('close', () => clearTimeout(timer))
  return pump
}
