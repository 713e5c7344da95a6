import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer, IncomingMessage, ServerResponse, type Server } from 'node:http'
import { connect, createServer as createTcpServer, Socket, type AddressInfo,
  type Server as TcpServer } from 'node:net'
import { Duplex, Writable } from 'node:stream'
import fp from 'fastify-plugin'

// The only file that uses undocumented properties of Node. Each use has a self-test at start, except for
// isWholePacket and writeQueueLength, which check what they find. If a self-test fails, the service uses
// documented functions instead and logs the consequence.

declare module 'fastify' {
  interface FastifyInstance {
    nodeInternals: NodeInternals
  }
}

/** Which internals of this version of Node behave as this file expects. */
export interface NodeInternals {
  /** `_httpMessage` is the current response, and `assignSocket()` is called when it is a response's turn. */
  readonly responseOrder: boolean
  /** A response with `_header` set is sent as if `writeHead()` had been called. */
  readonly preparedHeads: boolean
  /** The handles of listeners and sockets have `listen()` and `getpeername()`. */
  readonly acceptQueue: boolean
}

const SELF_TEST_TIMEOUT_MS = 1000

// --- The order of responses on a connection

type ConnectionInternals = Socket & { readonly _httpMessage?: ServerResponse | null }

/** The first response of each connection, used if the self-test of `_httpMessage` fails. */
const firstResponses = new WeakMap<Socket, ServerResponse>()

/** The response that is being sent on a connection, or that will be sent next. */
export function currentResponse (socket: Socket): ServerResponse | undefined {
  const first = firstResponses.get(socket)
  if (first !== undefined) return first.writableFinished ? undefined : first
  return (socket as ConnectionInternals)._httpMessage ?? undefined
}

/** A response that may refuse its turn. Then no later response of its connection is sent either. */
export abstract class OrderedResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  /** Called when it is this response's turn. Returns whether to send it. */
  protected abstract takesTurn (socket: Socket): boolean

  override assignSocket (socket: Socket): void {
    if (this.takesTurn(socket)) super.assignSocket(socket)
  }
}

/** The documented alternative: with one request per connection, responses need no order. */
function serveOneRequestPerConnection (server: Server): void {
  server.maxRequestsPerSocket = 1
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (firstResponses.has(socket)) return
    firstResponses.set(socket, response)
    response.setHeader('connection', 'close')
  })
}

/** Sends two requests in one packet and records when each response gets its turn. */
async function testResponseOrder (): Promise<boolean> {
  const events: string[] = []
  class RecordedResponse extends OrderedResponse<IncomingMessage> {
    protected takesTurn (): boolean {
      events.push(`turn of ${this.req.url}`)
      return true
    }
  }
  const stream = new Duplex({ read () {}, write: (_chunk, _encoding, done) => done() })
  const socket = stream as Duplex as Socket
  const server = createServer({ ServerResponse: RecordedResponse }, ({ url }, response) => {
    events.push(`${url} ${url === currentResponse(socket)?.req.url ? 'is' : 'is not'} current`)
    if (url === '/2') response.once('finish', () => stream.emit('answered'))
    setImmediate(() => response.end())
  })
  const timer = setTimeout(() => stream.destroy(new Error('no response')), SELF_TEST_TIMEOUT_MS)
  server.emit('connection', stream)
  stream.push('GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n')
  try {
    await once(stream, 'answered')
  } finally {
    clearTimeout(timer)
    stream.destroy()
  }
  return events.join() === 'turn of /1,/1 is current,/2 is not current,turn of /2' &&
    currentResponse(socket) === undefined
}

// --- The packet that the parser is reading

type ParserInternals = Socket & { readonly parser?: { readonly getCurrentBuffer?: () => Buffer } | null }

/** Whether the packet that is being parsed is the head of this request and nothing else. False if unknown. */
export function isWholePacket ({ socket, method, url, headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) return false
  const packet = (socket as ParserInternals).parser?.getCurrentBuffer?.()
  return packet !== undefined && packet.indexOf('\r\n\r\n') === packet.length - 4 &&
    packet.indexOf(`${method} ${url} `, 'latin1') === 0
}

// --- The progress of a write, of which Node's documented properties show only the end

/** The bytes of the current write that the operating system hasn't taken yet; undefined if unknown. */
export function writeQueueLength (socket: Socket): number | undefined {
  const { _handle } = socket as Socket & { readonly _handle?: { readonly writeQueueSize?: unknown } | null }
  return typeof _handle?.writeQueueSize === 'number' ? _handle.writeQueueSize : undefined
}

// --- Prepared heads (docs/adr/0002-prepared-response-heads.md)

type ResponseInternals = ServerResponse & { _header: string | null, _headerSent: boolean }

/** Whether the connection stays open after this response. */
export const keepsConnection = (response: ServerResponse): boolean =>
  response.shouldKeepAlive && !response.hasHeader('connection')

/** Whether bytes written to the socket now are sent at once, as part of this response. */
export const isNextOn = (socket: Socket, response: ServerResponse): boolean =>
  (socket as ConnectionInternals)._httpMessage === response && socket.writableLength === 0 && socket.writable

/** Sets the status line and headers of a response, including the empty line, without validation. */
export function setPreparedHead (response: ServerResponse, head: string): void {
  ;(response as ResponseInternals)._header = head
}

/** Marks the prepared head as sent. Call it after writing the head to the socket. */
export function markHeadAsSent (response: ServerResponse): void {
  ;(response as ResponseInternals)._headerSent = true
}

/** Compares the bytes of responses with and without a prepared head. */
async function testPreparedHeads (): Promise<boolean> {
  const usual = await bytesOf((response) =>
    response.writeHead(200, ['content-type', 'text/plain', 'content-length', '2']).end('ok')
  )
  const end = usual.indexOf('\r\n\r\n') + 4
  const head = usual.slice(0, end)
  const inOneWrite = await bytesOf((response, socket) => {
    setPreparedHead(response, head)
    if (!isNextOn(socket, response)) return response.destroy()
    socket.write(usual)
    markHeadAsSent(response)
    response.end()
  })
  const apart = await bytesOf((response) => {
    setPreparedHead(response, head)
    response.end('ok')
  })
  return head.startsWith('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n') && usual.slice(end) === 'ok' &&
    inOneWrite === usual && apart === usual
}

/** The bytes that a response writes to its connection. */
async function bytesOf (respond: (response: ServerResponse, socket: Socket) => void): Promise<string> {
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 })
  const response = new ServerResponse(request)
  let bytes = ''
  const socket = new Writable({
    decodeStrings: false,
    write (chunk, _encoding, done) {
      bytes += chunk.toString('latin1')
      done()
    }
  }) as Socket
  response.assignSocket(socket)
  await new Promise<void>((resolve) => {
    response.once('finish', resolve).once('close', resolve)
    respond(response, socket)
  })
  return bytes
}

// --- The accept queue: connections that the operating system has made and Node has not accepted yet

interface HandleInternals {
  readonly _handle?: {
    readonly listen?: (backlog: number) => number
    readonly getpeername?: (into: object) => number
  } | null
}

/** Sets the length of a listener's accept queue to 0. Returns whether that was possible. */
export const shortenAcceptQueue = (server: TcpServer): boolean =>
  (server as HandleInternals)._handle?.listen?.(0) === 0

/** Whether the operating system has connected a socket, even if Node hasn't noticed yet. */
export const isConnected = (socket: Socket): boolean =>
  (socket as HandleInternals)._handle?.getpeername?.({}) === 0

/** Shortens the queue of a listener, and checks that `isConnected` notices a connection to it. */
async function testAcceptQueue (): Promise<boolean> {
  if (cluster.isWorker) return true // the primary owns the queue
  const server = createTcpServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  try {
    await once(server, 'listening')
    if (!shortenAcceptQueue(server)) return false
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    const wasConnected = isConnected(socket)
    await once(socket, 'connect')
    const result = !wasConnected && isConnected(socket)
    socket.destroy()
    return result
  } finally {
    server.close()
  }
}

/** Each test resolves to whether an internal behaves as expected. The test suite replaces some of these. */
export const selfTests = {
  responseOrder: testResponseOrder,
  preparedHeads: testPreparedHeads,
  acceptQueue: testAcceptQueue
}

const CONSEQUENCES: Readonly<Record<keyof NodeInternals, string>> = {
  responseOrder: 'each connection serves one request (no keep-alive)',
  preparedHeads: 'public reads are slower',
  acceptQueue: 'connections that are not accepted yet when the service stops are reset'
}

/** Runs the self-tests. If `responseOrder` fails, each connection serves one request. */
export default fp(async (app) => {
  const passes = async (name: keyof NodeInternals): Promise<boolean> =>
    await selfTests[name]().catch(() => false)
  const responseOrder = await passes('responseOrder')
  const internals: NodeInternals = {
    responseOrder,
    // Prepared heads rely on the order of responses.
    preparedHeads: responseOrder && await passes('preparedHeads'),
    acceptQueue: await passes('acceptQueue')
  }
  if (!responseOrder) serveOneRequestPerConnection(app.server)
  for (const [name, works] of Object.entries(internals) as [keyof NodeInternals, boolean][]) {
    if (works) continue
    app.log.warn(
      { internal: name, node: process.version },
      `this version of Node is not fully supported: ${CONSEQUENCES[name]}`
    )
  }
  app.decorate('nodeInternals', internals)
}, { name: 'node-internals' })
