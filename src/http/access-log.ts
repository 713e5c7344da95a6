import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { ResponseError, RetryLaterError } from '../errors.ts'
import { isDatabaseUnavailable } from '../infra/postgres/unavailable.ts'
import { currentResponse } from './hardening/node-internals.ts'
import { onResponseEnd } from './responses.ts'
import { audit, type AuditEvent, type AuditFields } from '../infra/telemetry/audit.ts'

// The access log: one line per request, written when the response is sent or the client disconnects, and one
// line with the reason of each failure. `reqId` is the X-Request-Id of the response.

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Log a sample of the route's requests, or all of them at level `debug`. Default: all at `info`. */
    log?: 'sample' | 'debug'
  }
  interface FastifyRequest {
    /** The id of the signed-in user, once the request is authenticated. */
    userId: number | undefined
    /** The id of its session. */
    sessionId: string | undefined
    /** The id of the API key that authenticated the request instead. */
    keyId: string | undefined
  }
  interface FastifyInstance {
    /** Logs a request when it ends. */
    logRequest: (request: FastifyRequest, reply: FastifyReply, level?: 'info' | 'debug') => void
    /** Logs why a request is answered with `status`. */
    logFailure: (request: FastifyRequest, error: FastifyError, status: number) => void
    /** Whether to log the next public read or download. Undefined if LOG_PUBLIC_READS_SAMPLE is 0. */
    inLogSample: (() => boolean) | undefined
  }
}

const MAX_PATH_LENGTH = 256
/** All segments of the service's own paths are shorter. A longer one may be a token. */
const MAX_SEGMENT_LENGTH = 40

/** Returns the path of a URL without its query and long segments, which may contain secrets. */
export function loggedPath (url: string): string {
  const path = url.replace(/^[a-z]+:\/\/[^/]*/i, '').replace(/[?#].*$/s, '')
  return path.split('/').map((segment) => segment.length > MAX_SEGMENT_LENGTH ? '…' : segment).join('/')
    .slice(0, MAX_PATH_LENGTH)
}

/** Adds a hook that logs the requests of a scope. Must be called before adding hooks that refuse requests. */
export function logRequests (scope: FastifyInstance): void {
  const debugs = logsDebug(scope.log)
  scope.addHook('onRequest', (request, reply, done) => {
    const { log } = request.routeOptions.config
    if (log === undefined) scope.logRequest(request, reply)
    else if (log === 'debug') debugs && scope.logRequest(request, reply, 'debug')
    else if (scope.inLogSample?.() === true) scope.logRequest(request, reply)
    done()
  })
}

/** Wraps the handler of a public read so that a sample is logged. Returns the handler if sampling is off. */
export function sampled<Handler extends (request: FastifyRequest, reply: FastifyReply) => unknown> (
  app: FastifyInstance,
  handler: Handler
): Handler {
  const { inLogSample } = app
  if (inLogSample === undefined) return handler
  return ((request, reply) => {
    if (inLogSample()) app.logRequest(request, reply)
    return handler(request, reply)
  }) as Handler
}

type LogEnd = (message: string, status: number | undefined) => void

/** Responses that have not ended, with the function that logs their request. */
const unfinished = new WeakMap<ServerResponse, { readonly id: string, readonly end: LogEnd }>()

/** An error response that is written to a connection without Fastify. */
export interface RawResponse {
  readonly reqId: string
  readonly status: number
  readonly method?: string | undefined
  /** Node's error code. */
  readonly code?: string | undefined
}

/**
 * Logs a response that is sent without Fastify: to a CONNECT, or to a request whose head or body can't be
 * parsed.
 *
 * @returns the request id to send as X-Request-Id
 */
export function logRawResponse (log: FastifyBaseLogger, socket: Socket, refusal: RawResponse): string {
  const response = currentResponse(socket)
  const request = response === undefined ? undefined : unfinished.get(response)
  if (request === undefined) log.info({ ...refusal, address: socket.remoteAddress }, 'answered')
  else if (response?.headersSent === false) request.end('answered', refusal.status)
  return request?.id ?? refusal.reqId
}

const logsDebug = ({ level }: FastifyBaseLogger): boolean => level === 'debug' || level === 'trace'

/** Returns a function that selects an evenly spread share of its calls; undefined for a share of 0. */
function sampler (share: number): (() => boolean) | undefined {
  if (share === 0) return undefined
  let sum = 0
  return () => {
    sum += share
    if (sum < 1) return false
    sum -= 1
    return true
  }
}

/** Public reads use the app's logger, which doesn't add the request id. */
const loggerOf = (request: FastifyRequest): FastifyBaseLogger =>
  request.log === request.server.log ? request.log.child({ reqId: request.id }) : request.log

const logRequest: FastifyInstance['logRequest'] = (request, reply, level = 'info') => {
  const { raw } = reply
  const { socket } = request.raw
  const startedAt = performance.now()
  const sentBefore = socket.bytesWritten
  const address = request.server.addressOf(request).full // read now, because a closed socket has no address
  let isLogged = false
  const end: LogEnd = (message, status) => {
    if (isLogged) return
    isLogged = true
    loggerOf(request)[level]({
      method: request.method,
      route: request.routeOptions.url,
      path: loggedPath(request.url),
      status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      bytes: socket.bytesWritten - sentBefore, // with headers; the client may have received less
      address,
      user: request.userId,
      session: request.sessionId,
      key: request.keyId
    }, message)
  }
  unfinished.set(raw, { id: request.id, end })
  onResponseEnd(raw, (isComplete) => {
    // Deleted at once: in a WeakMap, the request would stay until V8 collects its old generation.
    unfinished.delete(raw)
    if (isComplete) end('answered', raw.statusCode)
    else end('client disconnected', raw.headersSent ? raw.statusCode : undefined)
  })
}

function logRefusal (request: FastifyRequest, error: FastifyError): void {
  if (!logsDebug(request.server.log)) return // the line of the request has the status
  loggerOf(request).debug({
    // Messages of libraries may quote the client's input.
    reason: error instanceof ResponseError ? error.message : undefined,
    code: error.code,
    cause: (error.cause as Error | undefined)?.message
  }, 'request refused')
}

const logFailure: FastifyInstance['logFailure'] = (request, error, status) => {
  if (status === 500) loggerOf(request).error({ err: error }, 'request failed')
  else if (status < 500 || error instanceof RetryLaterError) logRefusal(request, error)
  else if (isDatabaseUnavailable(error)) {
    // At level debug during an outage, which has two lines of its own (reachability.ts).
    request.server.isDatabaseReachable().then((isReachable) => {
      logUnserved(request, error, status, isReachable ? 'warn' : 'debug')
    })
  } else logUnserved(request, error, status, 'warn')
}

function logUnserved (
  request: FastifyRequest,
  error: FastifyError,
  status: number,
  level: 'warn' | 'debug'
): void {
  const { reason } = error as { reason?: unknown }
  loggerOf(request)[level](
    { reason: error.message, code: reason ?? error.code, status },
    'request could not be served'
  )
}

export default fp(async (app) => {
  app.decorateRequest('userId', undefined)
  app.decorateRequest('sessionId', undefined)
  app.decorateRequest('keyId', undefined)
  app.decorate('inLogSample', sampler(app.config.LOG_PUBLIC_READS_SAMPLE))
  app.decorate('logRequest', logRequest)
  app.decorate('logFailure', logFailure)
}, { name: 'access-log', dependencies: ['client-address'] })

/** Writes a line of the audit trail with the id of a request, its client address, and who has sent it. */
export function auditRequest (request: FastifyRequest, event: AuditEvent, fields?: AuditFields): void {
  audit(request.log, event, {
    address: request.server.addressOf(request).full,
    user: request.userId,
    session: request.sessionId,
    key: request.keyId,
    ...fields
  })
}
