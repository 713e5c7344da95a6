import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket, Server as TcpServer } from 'node:net'

// The only file that uses undocumented properties of Node. Each function checks what it finds. CI runs the
// tests with all supported versions of Node.

// --- The order of responses on a connection

type ConnectionInternals = Socket & { readonly _httpMessage?: ServerResponse | null }

/** The response that is being sent on a connection, or that will be sent next. */
export const currentResponse = (socket: Socket): ServerResponse | undefined =>
  (socket as ConnectionInternals)._httpMessage ?? undefined

/** A response that may refuse its turn. Then no later response of its connection is sent either. */
export abstract class OrderedResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
  /** Called when it is this response's turn. Returns whether to send it. */
  protected abstract takesTurn (socket: Socket): boolean

  override assignSocket (socket: Socket): void {
    if (this.takesTurn(socket)) super.assignSocket(socket)
  }
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

type ResponseInternals = ServerResponse & { _header?: string | null, _headerSent?: boolean }

/** Whether the connection stays open after this response. */
export const keepsConnection = (response: ServerResponse): boolean =>
  response.shouldKeepAlive && !response.hasHeader('connection') // this service only sends `close`

/** Whether this version of Node has the properties of a response that are set below. */
export const takesPreparedHead = ({ _header, _headerSent }: ResponseInternals): boolean =>
  _header === null && _headerSent === false

/** Whether bytes written to the socket now are sent at once, as part of this response. */
export const isNextOn = (socket: Socket, response: ServerResponse): boolean =>
  currentResponse(socket) === response && socket.writableLength === 0 && socket.writable

/** Sets the status line and headers of a response, including the empty line, without validation. */
export function setPreparedHead (response: ResponseInternals, head: string): void {
  response._header = head
}

/** Marks the prepared head as sent. Call it after writing the head to the socket. */
export function markHeadAsSent (response: ResponseInternals): void {
  response._headerSent = true
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

/** Whether the operating system has connected a socket, even if Node hasn't noticed yet. True if unknown. */
export const isConnected = (socket: Socket): boolean =>
  ((socket as HandleInternals)._handle?.getpeername?.({}) ?? 0) === 0
