// Attack: hundreds of requests in one packet. Node begins all of them at once and buffers their responses.
// Test: test/integration/hostile/pipelines.test.ts
// nginx: stops it (sends one request at a time)

// The rules are in docs/adr/0007-pipelining.md.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import { announceClose } from '../responses.ts'
import { currentResponse, isWholePacket, OrderedResponse } from './node-internals.ts'

/** Requests that are read and dropped before reading stops, so that the connection isn't reset early. */
const MAX_DROPPED = 100

/** Responses to requests other than public reads. */
const exclusive = new WeakSet<ServerResponse>()
/** The response that waits for its turn on a connection. A connection has at most one. */
const waiting = new WeakMap<Socket, { response: ServerResponse, begin: () => void }>()
/** Connections that will be closed, with their number of dropped requests. */
const ending = new WeakMap<Socket, number>()

/** The response to the last request of a connection that has begun or is waiting. */
const lastResponse = (socket: Socket): ServerResponse | undefined =>
  waiting.get(socket)?.response ?? currentResponse(socket)

/** The response class of the server. */
export class PipelinedResponse<Request extends IncomingMessage> extends OrderedResponse<Request> {
  constructor (...args: ConstructorParameters<typeof OrderedResponse<Request>>) {
    super(...args)
    const { headers, httpVersionMinor } = this.req
    // The service supports no upgrade. Node's parser drops the bytes that follow in the same packet, and then
    // could parse a body as a request.
    if (headers.upgrade !== undefined && !isWholePacket(this.req)) announceClose(this)
    // The framing may be wrong (RFC 9112, 6.1).
    if (httpVersionMinor === 0 && headers['transfer-encoding'] !== undefined) announceClose(this)
  }

  protected override takesTurn (socket: Socket): boolean {
    // Node emits the remaining requests of a packet even after the connection has ended.
    if (!socket.writable) return false
    const next = waiting.get(socket)
    if (next?.response === this) {
      waiting.delete(socket)
      process.nextTick(next.begin)
    }
    return true
  }

  /** Out of turn, a 100 (Continue) would follow the response's headers. It is optional, so it is omitted. */
  override writeContinue (callback?: () => void): void {
    if (this.socket !== null) super.writeContinue(callback)
  }
}

/**
 * Begins a request that isn't a public read at once if no earlier response of its connection is unfinished,
 * after that response if its headers are already sent, or never. In the last case the request is dropped.
 *
 * @param begin called when the request may begin
 */
export function beginAlone (request: IncomingMessage, response: ServerResponse, begin: () => void): void {
  exclusive.add(response)
  if (response.socket !== null) {
    begin()
    return
  }
  const { socket } = request
  if (lastResponse(socket)?.headersSent === true && !ending.has(socket)) {
    waiting.set(socket, { response, begin })
  } else drop(request)
}

/** `beginAlone` as an `onRequest` hook. It must be the first of its scope. */
export const refusePipelining: onRequestHookHandler = ({ raw: request }, { raw: response }, done) => {
  beginAlone(request, response, done)
}

/**
 * Whether a public read may begin before the responses to earlier requests are sent. If the last request was
 * of another kind, the headers of its response must have been sent; otherwise the read is dropped.
 */
export function mayBePipelined ({ raw: request }: FastifyRequest): boolean {
  const { socket } = request
  const last = lastResponse(socket)
  if (last !== undefined && !ending.has(socket) && (last.headersSent || !exclusive.has(last))) return true
  drop(request)
  return false
}

/** Drops a request without a response. The connection closes after the previous response. */
function drop (request: IncomingMessage): void {
  const { socket } = request
  const last = lastResponse(socket)
  if (last !== undefined) announceClose(last)
  const dropped = (ending.get(socket) ?? 0) + 1
  ending.set(socket, dropped)
  if (dropped > MAX_DROPPED) socket.pause()
  // Frees memory: Node keeps the request until the connection closes.
  request.headers = {}
  request.rawHeaders = []
}
