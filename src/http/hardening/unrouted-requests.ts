// Attack: invalid HTTP, an unknown Expect, CONNECT. Node's own responses to them are wrong.
// Tests: http.test.ts, pipelines.test.ts and slow-clients.test.ts in test/integration/hostile
// nginx: stops all but Expect, which it passes on

import { randomUUID } from 'node:crypto'
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { formatErrorBody } from '../../errors.ts'
import { logRawResponse, type RawResponse } from '../access-log.ts'
import { DATA_HEADERS, JSON_CONTENT_TYPE } from '../common-headers.ts'
import { sentenceFor } from '../error-handler.ts'
import { requestId } from '../request-id.ts'
import { announceClose } from '../responses.ts'
import { currentResponse } from './node-internals.ts'
import { beginAlone } from './pipelining.ts'

/** Inactivity after which a connection is closed while its last response is sent. */
const END_TIMEOUT_MS = 5_000

/** Statuses by error code of Node's HTTP parser. Other codes mean 400. */
const STATUS_BY_CODE: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

/** If a head is too large and its request line is longer, the URL is the reason. */
const MAX_REQUEST_LINE = 8 * 1024
/** A request line with a valid method, which the parser may not know. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]+ \S+ HTTP\/1\.[01]$/

/** Fastify's `clientErrorHandler`, for messages that the HTTP parser rejects. There is no request object. */
export function refuseUnreadableRequest (
  this: FastifyInstance,
  error: ParserError,
  socket: Socket
): void {
  const { code } = error
  if (code === 'ECONNRESET') socket.destroy()
  else refuse(this.log, socket, { reqId: randomUUID(), status: statusFor(error), code })
}

/** An error of Node's HTTP parser. */
type ParserError = Error & { readonly code?: string, readonly rawPacket?: unknown }

function statusFor ({ code = '', rawPacket }: ParserError): number {
  const packet = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1') : ''
  const [firstLine = ''] = packet.split('\r\n', 1)
  if (code === 'HPE_HEADER_OVERFLOW' && firstLine.length > MAX_REQUEST_LINE) return 414
  if (code === 'HPE_INVALID_METHOD' && REQUEST_LINE.test(firstLine)) return 501
  return STATUS_BY_CODE[code] ?? 400
}

/** Answers CONNECT with 405, and every expectation except `100-continue` with 417. */
export default fp(async (app) => {
  app.server.on('connect', (request: IncomingMessage, socket: Socket) => {
    // Node removes its own listeners from the socket. Without these, an error would end the process, idle
    // clients would stay connected, and a response that is being sent would stop.
    socket.on('error', () => {}).on('timeout', () => socket.destroy())
      .on('drain', () => currentResponse(socket)?.emit('drain'))
    refuse(app.log, socket, { reqId: requestId(request), method: request.method, status: 405 })
  })

  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    beginAlone(request, response, () => {
      const refusal = { reqId: requestId(request), method: request.method, status: 417 }
      app.log.info({ ...refusal, address: request.socket.remoteAddress }, 'answered')
      const { headers, body } = errorResponse(417, refusal.reqId)
      response.writeHead(417, headers).end(body)
    })
  })
}, { name: 'unrouted-requests' })

/** Writes an error response to a connection and closes it. */
function refuse (log: FastifyBaseLogger, socket: Socket, refusal: RawResponse): void {
  if (closeAfterCurrentResponse(socket)) return
  const { headers, body } = errorResponse(refusal.status, logRawResponse(log, socket, refusal))
  // An error must not be written into the middle of another response.
  if (!socket.writable || currentResponse(socket)?.headersSent === true) {
    socket.destroy()
    return
  }
  // Node adds neither of them here. No method is allowed at the target of a CONNECT.
  Object.assign(headers, { date: new Date().toUTCString() }, refusal.status === 405 && { allow: '' })
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  // Disconnects clients that don't read the response or keep sending.
  socket.setTimeout(END_TIMEOUT_MS, () => socket.destroy())
  socket.end(
    [`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`, ...lines, '', body].join('\r\n'),
    () => socket.destroySoon()
  )
}

/** Closes a connection after the response to a complete request. Returns false if there is none. */
function closeAfterCurrentResponse (socket: Socket): boolean {
  const current = currentResponse(socket)
  if (!socket.writable || current === undefined || !current.req.complete) return false
  announceClose(current)
  // For a response whose headers are already sent. Must run before Node's listener begins the next response.
  current.prependOnceListener('finish', () => socket.destroySoon())
  return true
}

function errorResponse (
  status: number,
  requestId: string
): { headers: Record<string, string>, body: string } {
  const body = formatErrorBody([sentenceFor(status)])
  const headers = {
    'x-request-id': requestId,
    'content-type': JSON_CONTENT_TYPE,
    'cache-control': 'no-store',
    ...DATA_HEADERS,
    connection: 'close',
    'content-length': String(Buffer.byteLength(body))
  }
  return { headers, body }
}
