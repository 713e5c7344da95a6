import type { ServerResponse } from 'node:http'
import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { InvalidError, RetryLaterError } from '../errors.ts'
import type { ServingSocket } from '../reply.ts'

// A line for each request when it has been answered, or its client has hung up; and what went wrong in it.
//
// Every line that belongs to a request has its id (`reqId`), which the answer names in X-Request-Id. What owners call has
// a line each. Of what everybody reads, pages and files, LOG_PUBLIC_READS_SAMPLE says how many have one: it costs more
// than the read. Probes of /health are logged at `debug`.

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How the requests of a route are logged, unless each has a line at `info`. */
    log?: 'sample' | 'debug'
  }
  interface FastifyRequest {
    /** Whose request it is, as soon as that is known. */
    userId: number | undefined
  }
  interface FastifyInstance {
    /** Writes the line of this request when it is over. */
    logRequest: (request: FastifyRequest, reply: FastifyReply, level?: 'info' | 'debug') => void
    /** Writes what went wrong in a request that is answered with `status`. */
    logFailure: (request: FastifyRequest, error: FastifyError, status: number) => void
    /** Whether the next request of those that are sampled has a line; undefined when none has. */
    inLogSample: (() => boolean) | undefined
  }
}

const MAX_PATH_LENGTH = 256
/** Longer than each part of our own addresses (a file's name is the longest): it may be a token. */
const MAX_PART_LENGTH = 40
/** Failures of public reads that are logged in a second; the others are counted in the next line. */
const MAX_FAILURES_A_SECOND = 5

/** Adds the hook that logs the requests of a scope and of those in it. It has to come before hooks that refuse. */
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

/** The handler of a public read that logs the sample of them: the handler itself when there is none. */
export function sampled<Handler extends (request: FastifyRequest, reply: FastifyReply) => unknown> (app: FastifyInstance, handler: Handler): Handler {
  const { inLogSample } = app
  if (inLogSample === undefined) return handler
  return ((request, reply) => {
    if (inLogSample()) app.logRequest(request, reply)
    return handler(request, reply)
  }) as Handler
}

type End = (message: string, status: number | undefined) => void

/** The requests that are not over, and what writes their lines. */
const underWay = new WeakMap<ServerResponse, { readonly id: string, readonly end: End }>()

/**
 * Logs an answer that was written past Fastify: to a head that can't be read, to a CONNECT, or instead of the answer to a
 * request whose body breaks off.
 *
 * @returns the id that the answer has to name
 */
export function logRawAnswer (log: FastifyBaseLogger, socket: ServingSocket, answer: { reqId: string, method?: string | undefined, status: number, code?: string }): string {
  const { _httpMessage: response } = socket
  const request = response == null ? undefined : underWay.get(response)
  if (request === undefined) log.info({ ...answer, address: socket.remoteAddress }, 'answered')
  else if (response?.headersSent === false) request.end('answered', answer.status)
  return request?.id ?? answer.reqId
}

const logsDebug = ({ level }: FastifyBaseLogger): boolean => level === 'debug' || level === 'trace'

/** One in every so many, evenly: half of them, two of three, …; undefined for none. */
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

/**
 * The address without its query, in which clients put tokens and e-mail addresses, and without parts that could be tokens.
 */
export function loggedPath (url: string): string {
  const path = url.replace(/^[a-z]+:\/\/[^/]*/i, '').replace(/[?#].*$/s, '')
  return path.slice(0, MAX_PATH_LENGTH).split('/').map((part) => part.length > MAX_PART_LENGTH ? '…' : part).join('/')
}

export default fp(async (app) => {
  app.decorateRequest('userId', undefined)
  app.decorate('inLogSample', sampler(app.config.LOG_PUBLIC_READS_SAMPLE))

  /** The public read has no logger for each request. */
  const logOf = (request: FastifyRequest): FastifyBaseLogger => request.log === app.log ? app.log.child({ reqId: request.id }) : request.log

  app.decorate('logRequest', (request, reply, level = 'info') => {
    const { raw } = reply
    const { socket } = request.raw
    const startedAt = performance.now()
    const sentBefore = socket.bytesWritten
    // Now: a socket that is closed may have forgotten its peer.
    const address = app.addressOf(request).full
    let isOver = false
    const end: End = (message, status) => {
      if (isOver) return
      isOver = true
      logOf(request)[level]({
        method: request.method,
        route: request.routeOptions.url,
        path: loggedPath(request.url),
        status,
        ms: Math.round((performance.now() - startedAt) * 10) / 10,
        // With the head, and of a client that has hung up what was given to its connection.
        bytes: socket.bytesWritten - sentBefore,
        address,
        user: request.userId
      }, message)
    }
    underWay.set(raw, { id: request.id, end })
    raw.once('finish', () => end('answered', raw.statusCode))
    raw.once('close', () => end('client hung up', raw.headersSent ? raw.statusCode : undefined))
  })

  let second = 0
  let written = 0
  let leftOut = 0
  app.decorate('logFailure', (request, error, status) => {
    if (status === 500) {
      logOf(request).error({ err: error }, 'request failed')
    } else if (status < 500 || error instanceof RetryLaterError) {
      // They are expected, and the request's line has the status. Sentences of others quote what they refuse.
      const isOurs = error instanceof RetryLaterError || error instanceof InvalidError || error.code?.startsWith('LANDFALL_') === true
      if (logsDebug(app.log)) logOf(request).debug({ reason: isOurs ? error.message : undefined, code: error.code, cause: (error.cause as Error | undefined)?.message }, 'request refused')
    } else {
      // An outage has as many as there are readers.
      if (request.log === app.log) {
        const now = Math.floor(performance.now() / 1000)
        if (now !== second) { second = now; written = 0 }
        if (++written > MAX_FAILURES_A_SECOND) { leftOut++; return }
      }
      const { reason } = error as { reason?: unknown }
      logOf(request).warn({ reason: error.message, code: reason ?? error.code, status, ...(leftOut > 0 && { leftOut }) }, 'request could not be served')
      leftOut = 0
    }
  })
}, { name: 'request-log', dependencies: ['client-address'] })
