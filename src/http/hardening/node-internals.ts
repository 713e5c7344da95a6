import { once } from 'node:events'
import { createServer, ServerResponse, type IncomingMessage, type Server } from 'node:http'
import type { Socket, Server as TcpServer } from 'node:net'
import { Duplex } from 'node:stream'
import fp from 'fastify-plugin'
import { timeLimit } from '../../infra/system/time-limit.ts'

// The only file that uses undocumented properties of Node. Those of responses have a self-test at start; if
// it fails, the service uses documented functions instead. The other functions check what they find.

declare module 'fastify' {
  interface FastifyInstance {
    /** Whether the responses of this version of Node behave as this file expects. */
    hasResponseInternals: boolean
  }
}

const SELF_TEST_TIMEOUT_MS = 1000

// --- The order of responses on a connection

type ConnectionInternals = Socket & { readonly _httpMessage?: ServerResponse | null }

/** The first response of each connection, used if the self-test fails. */
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

/** Sends three requests in one packet, and compares the turns and the bytes of their responses. */
async function testResponses (): Promise<boolean> {
  const signal = timeLimit(SELF_TEST_TIMEOUT_MS)
  const events: string[] = []
  class RecordedResponse extends OrderedResponse<IncomingMessage> {
    protected takesTurn (): boolean {
      events.push(`turn of ${this.req.url}`)
      return true
    }
  }
  let sent = ''
  const stream = new Duplex({
    read () {},
    write (chunk, _encoding, done) {
      sent += chunk.toString('latin1')
      done()
    }
  })
  const socket = stream as Duplex as Socket
  const responses: ServerResponse[] = []
  const server = createServer({ ServerResponse: RecordedResponse }, ({ url }, response) => {
    events.push(`${url} ${currentResponse(socket) === response ? 'is' : 'is not'} current`)
    if (responses.push(response) === 3) stream.emit('received')
  })
  server.emit('connection', stream)
  stream.push(['/1', '/2', '/3'].map((url) => `GET ${url} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
  try {
    await once(stream, 'received', { signal })
    const [usual, inOneWrite, apart] = responses as [ServerResponse, ServerResponse, ServerResponse]
    usual.writeHead(200, ['content-type', 'text/plain', 'content-length', '2']).end('ok')
    await once(usual, 'finish', { signal })
    const expected = sent
    const head = expected.slice(0, -2)
    if (!isNextOn(socket, inOneWrite)) return false
    setPreparedHead(inOneWrite, head)
    socket.write(expected)
    markHeadAsSent(inOneWrite)
    inOneWrite.end()
    await once(inOneWrite, 'finish', { signal })
    setPreparedHead(apart, head)
    apart.end('ok')
    await once(apart, 'finish', { signal })
    return /^HTTP\/1.1 200 OK\r\ncontent-type: text\/plain\r\n.*\r\n\r\nok$/s.test(expected) &&
      sent === expected.repeat(3) && currentResponse(socket) === undefined && events.join() ===
        'turn of /1,/1 is current,/2 is not current,/3 is not current,turn of /2,turn of /3'
  } finally {
    stream.destroy()
  }
}

/** The test suite replaces it. */
export const selfTest = { passes: testResponses }

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

/** Whether the operating system has connected a socket, even if Node hasn't noticed yet. True if unknown. */
export const isConnected = (socket: Socket): boolean =>
  ((socket as HandleInternals)._handle?.getpeername?.({}) ?? 0) === 0

/** Runs the self-test. If it fails, each connection serves one request, and no heads are prepared. */
export default fp(async (app) => {
  const passes = await selfTest.passes().catch(() => false)
  if (!passes) {
    serveOneRequestPerConnection(app.server)
    app.log.warn(
      { node: process.version },
      'this version of Node is not fully supported: each connection serves one request (no keep-alive), ' +
        'and public reads are slower'
    )
  }
  app.decorate('hasResponseInternals', passes)
}, { name: 'node-internals' })
