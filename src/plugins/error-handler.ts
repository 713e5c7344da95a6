import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import fp from 'fastify-plugin'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { errorBody, InvalidError, MethodNotAllowedError, NotFoundError, RetryLaterError, unavailable } from '../errors.ts'
import { isDatabaseUnavailable } from '../database/unavailable.ts'
import { makeLast, type ServingSocket } from '../reply.ts'
import { requestId, requireHost } from './every-request.ts'
import { logRawAnswer } from './request-log.ts'
import { DATA_HEADERS, secureAnswer } from './security-headers.ts'

// Every error, whoever raises it, becomes {"errors": ["…", …]}: sentences for a person, nothing of our insides.

interface Answer {
  readonly status: number
  readonly messages: readonly string[]
  readonly retryAfterSeconds?: number
}

/** Sentences for what Fastify, Node and the plugins refuse by themselves; their own wording stays in the log. */
const SENTENCES: Readonly<Record<number, string>> = {
  400: 'Request is malformed',
  404: 'Not found',
  405: 'Method is not allowed here',
  408: 'Request took too long to arrive',
  413: 'Request body is too large',
  414: 'URL is too long',
  415: 'Content-Type must be application/json',
  416: 'Range lies outside of the file',
  417: 'Expectation can not be met',
  431: 'Request headers are too large'
}

/**
 * Addresses that pages of every origin may read, and so the errors of their scripts, too. By the URL alone: what has no
 * route (a bad escape, another method) never meets a hook of the scope that it seems to be in.
 */
const ANY_PAGE = /^(?:https?:\/\/[^/]*)?\/(?:landing_pages|uploads)\//
const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': 'Allow, Retry-After, X-Request-Id' }

/** Of answers that are written past Fastify. */
const RAW_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store', ...DATA_HEADERS, connection: 'close' }
const bodyFor = (status: number): string => errorBody([sentence(status)])

const sentence = (status: number): string => SENTENCES[status] ?? STATUS_CODES[status] ?? 'Request was refused'

/** The answer for an error, or undefined when it is none that a client may hear of. */
function answerFor (error: FastifyError): Answer | undefined {
  if (error instanceof InvalidError) return { status: error.statusCode, messages: error.messages }
  if (error instanceof RetryLaterError) {
    return { status: error.statusCode, messages: [error.message], retryAfterSeconds: error.retryAfterSeconds }
  }
  const status = error.statusCode
  if (error.code?.startsWith('LANDFALL_') && status !== undefined) return { status, messages: [error.message] }
  if (isDatabaseUnavailable(error)) return answerFor(unavailable() as unknown as FastifyError)
  if (status !== undefined && status >= 400 && status < 500) return { status, messages: [sentence(status)] }
  return undefined
}

function sendError (error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const answer = answerFor(error) ?? { status: 500, messages: [`Something went wrong (request ${request.id})`] }
  request.server.logFailure(request, error, answer.status)
  secureAnswer(reply)
  // Fastify gives up the connection with each body that its parser refuses; one that was read to its end is not in the way.
  // (Node would not say any more that an answer is the last once the header was removed, even one that nobody had set.)
  if (request.raw.readableEnded && reply.raw.shouldKeepAlive && reply.hasHeader('connection')) reply.removeHeader('connection')
  reply.header('x-request-id', request.id)
  if (ANY_PAGE.test(request.url) && !reply.hasHeader('access-control-allow-origin')) reply.headers(CORS)
  if (answer.status === 401) reply.header('www-authenticate', 'Bearer')
  if (answer.retryAfterSeconds !== undefined) reply.header('retry-after', answer.retryAfterSeconds)
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  return reply
    .code(answer.status)
    .removeHeader('content-encoding').removeHeader('content-length').removeHeader('etag').removeHeader('link')
    .type('application/json; charset=utf-8')
    .send(errorBody(answer.messages))
}

/** For Fastify's `frameworkErrors`: URLs that its router can't read never reach a hook or the error handler. */
export function sendFrameworkError (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  // It has one that writes nothing: the factory of app.ts isn't asked here.
  request.log = request.server.log.child({ reqId: request.id })
  request.server.logRequest(request, reply)
  sendError(error, request, reply)
}

const PARSER_STATUS: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, HPE_CHUNK_EXTENSIONS_OVERFLOW: 413, ERR_HTTP_REQUEST_TIMEOUT: 408 }

/** For Fastify's `clientErrorHandler`: what the HTTP parser refuses has no request, only a socket. */
export function answerParserError (this: FastifyInstance, error: Error & { code?: string }, socket: ServingSocket): void {
  const { code } = error
  if (code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  if (endWithAnswerUnderWay(socket)) return
  const status = PARSER_STATUS[code ?? ''] ?? 400
  endSocket(socket, status, logRawAnswer(this.log, socket, { reqId: randomUUID(), status, ...(code !== undefined && { code }) }))
}

/**
 * Ends a connection with the answer that is under way, whose request came whole before what isn't going to be answered.
 *
 * @returns whether there is one
 */
function endWithAnswerUnderWay (socket: ServingSocket): boolean {
  const { _httpMessage: underWay } = socket
  if (!socket.writable || underWay == null || !underWay.req.complete) return false
  if (underWay.shouldKeepAlive) {
    makeLast(underWay)
    // Its head may be out, and says otherwise. First: Node's own listener gives the connection to the next answer.
    underWay.prependOnceListener('finish', () => socket.destroySoon())
  }
  return true
}

/** How long an answer may take to be sent on a connection that ends with it, when nothing moves. */
const END_TIMEOUT_MS = 5_000

function endSocket (socket: ServingSocket, status: number, id: string): void {
  // An answer that is under way must not get another one into its middle.
  const { _httpMessage: underWay } = socket
  if (!socket.writable || underWay?.headersSent === true) {
    socket.destroy()
    return
  }
  const body = bodyFor(status)
  // A peer that reads nothing must not hold it either.
  socket.setTimeout(END_TIMEOUT_MS, () => socket.destroy())
  // end() after the bytes are out, then away: a peer that keeps on sending must not hold the socket.
  socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `x-request-id: ${id}`,
    ...Object.entries(RAW_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    '', body
  ].join('\r\n'), () => socket.destroySoon())
}

/** Tells the methods that some route has for a URL. Asked only about URLs for which the router has found none. */
function methodsByUrl (app: FastifyInstance): (url: string) => string[] {
  const routes = new Map<string, { readonly pattern: RegExp, readonly methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    if (url === '*') return // preflights
    const known = routes.get(url) ?? { pattern: new RegExp(`^${url.replace(/:\w+/g, '[^/]+').replace('*', '.*')}$`), methods: new Set() }
    for (const name of [method].flat()) known.methods.add(name)
    routes.set(url, known)
  })
  return (url) => {
    const path = url.replace(/^https?:\/\/[^/]*/, '').replace(/[?#].*$/s, '')
    return [...routes.values()].flatMap(({ pattern, methods }) => pattern.test(path) ? [...methods] : [])
  }
}

export default fp(async (app) => {
  app.setErrorHandler(sendError)
  const methodsAt = methodsByUrl(app)
  app.setNotFoundHandler((request, reply) => {
    app.logRequest(request, reply)
    requireHost(request)
    const methods = methodsAt(request.url)
    // A route that has the method has found nothing by itself: a file that is none.
    if (methods.length === 0 || methods.includes(request.method)) return sendError(new NotFoundError(), request, reply)
    sendError(new MethodNotAllowedError(), request, reply.header('allow', methods.join(', ')))
  })

  // Node would answer this by itself with an empty body.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const body = bodyFor(417)
    const id = requestId(request)
    // Not as an answer of the connection: one to an earlier request may be under way on it, and goes on.
    app.log.info({ reqId: id, method: request.method, status: 417, address: request.socket.remoteAddress }, 'answered')
    response.writeHead(417, { ...RAW_HEADERS, 'x-request-id': id, 'content-length': Buffer.byteLength(body) }).end(body)
  })
  app.server.on('connect', (request: IncomingMessage, socket: ServingSocket) => {
    // Node gives up its own listeners with a socket that it hands over: a peer that resets it would end the process, one
    // that reads nothing would hold it for ever, and what is longer than the socket's buffer would stop there.
    socket.on('error', () => {}).on('timeout', () => socket.destroy()).on('drain', () => socket._httpMessage?.emit('drain'))
    if (endWithAnswerUnderWay(socket)) return
    endSocket(socket, 405, logRawAnswer(app.log, socket, { reqId: requestId(request), method: request.method, status: 405 }))
  })
}, { name: 'error-handler' })
