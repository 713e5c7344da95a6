import { STATUS_CODES } from 'node:http'
import fp from 'fastify-plugin'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { createUnavailableError, EncodedBodyError, formatErrorBody, InvalidKeyError, InvalidPreviewTokenError,
  KeyNotAcceptedError, ResponseError, UnauthorizedError } from '../errors.ts'
import { isDatabaseUnavailable } from '../infra/postgres/unavailable.ts'
import { ANY_ORIGIN_ERROR_HEADERS, JSON_CONTENT_TYPE, secureResponse } from './common-headers.ts'
import { allowReadingError } from './cors.ts'
import { keepsConnection } from './hardening/node-internals.ts'
import { beginAlone } from './hardening/pipelining.ts'

// Every error becomes {"errors": ["…", …]}: sentences for people, without internal details.

/** For errors of Fastify, Node and plugins, whose own messages are only logged. */
const SENTENCES: Readonly<Record<number, string>> = {
  400: 'Request is malformed',
  404: 'Not found',
  405: 'Method is not allowed here',
  408: 'Request took too long to arrive',
  413: 'Request body is too large',
  414: 'URL is too long',
  416: 'Range lies outside of the file',
  417: 'The Expect header is not supported',
  431: 'Request headers are too large',
  501: 'Method is not known'
}

/** The sentence for a status when nothing more exact is known. */
export const sentenceFor = (status: number): string =>
  SENTENCES[status] ?? STATUS_CODES[status] ?? 'Request was refused'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The media types that a body may have; only `application/json` by default. */
    bodyTypes?: readonly string[]
  }
}

const bodyTypesOf = ({ routeOptions }: FastifyRequest): readonly string[] =>
  routeOptions.config?.bodyTypes ?? ['application/json']

/** The sentence of a 415 for the Content-Type. */
export const describeBodyTypes = (types: readonly string[]): string =>
  `Content-Type must be ${types.join(' or ')}`

interface Response {
  readonly status: number
  readonly messages: readonly string[]
  readonly headers?: Readonly<Record<string, string | number>>
}

const BAD_TOKEN_ERRORS = [UnauthorizedError, InvalidKeyError, KeyNotAcceptedError, InvalidPreviewTokenError]

/** What a client may be told about an error; undefined for nothing. */
function responseFor (error: FastifyError, request: FastifyRequest): Response | undefined {
  if (error instanceof ResponseError) {
    const { statusCode: status, messages, headers } = error
    return { status, messages, headers }
  }
  const status = error.statusCode
  if (isDatabaseUnavailable(error)) {
    return responseFor(createUnavailableError() as unknown as FastifyError, request)
  }
  if (status === 415) return { status, messages: [describeBodyTypes(bodyTypesOf(request))] }
  if (status !== undefined && status >= 400 && status < 500) {
    return { status, messages: [sentenceFor(status)] }
  }
  return undefined
}

function sendError (error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const response = responseFor(error, request) ??
    { status: 500, messages: [`Something went wrong (request ${request.id})`] }
  request.server.logFailure(request, error, response.status)
  secureResponse(reply)
  // Fastify closes the connection when it refuses a body, even one that it has read completely.
  if (request.raw.readableEnded && keepsConnection(reply.raw) && reply.hasHeader('connection')) {
    reply.removeHeader('connection')
  }
  // Errors of the framework and of public reads run no onRequest hook.
  reply.header('x-request-id', request.id)
  if (!reply.hasHeader('access-control-allow-origin')) {
    if (isForAnyOrigin(request)) reply.headers(ANY_ORIGIN_ERROR_HEADERS)
    else allowReadingError(request, reply)
  }
  if (response.status === 401) {
    // RFC 6750, 3.1: no error code for a request without a token.
    const isTokenRefused = BAD_TOKEN_ERRORS.some((BadToken) => error instanceof BadToken) &&
      /^Bearer /i.test(request.headers.authorization ?? '')
    reply.header('www-authenticate', isTokenRefused ? 'Bearer error="invalid_token"' : 'Bearer')
  }
  if (error instanceof EncodedBodyError) reply.header('accept-encoding', 'identity')
  else if (response.status === 415 && request.method === 'PATCH') {
    reply.header('accept-patch', bodyTypesOf(request).join(', '))
  }
  reply.header('cache-control', 'no-store')
  // The route may have set headers of a success before it failed.
  return reply.code(response.status)
    .removeHeader('content-encoding').removeHeader('content-length').removeHeader('etag').removeHeader('link')
    .removeHeader('location')
    .headers(response.headers ?? {})
    .type(JSON_CONTENT_TYPE)
    .send(formatErrorBody(response.messages))
}

/** By URL, because a malformed request or one with another method has no route of its own. */
const isForAnyOrigin = ({ server, url }: FastifyRequest): boolean =>
  server.routesAt(url).some(({ config }) => config.anyOrigin)

/** Fastify's `frameworkErrors`: a URL that its router can't parse runs no hooks and no error handler. */
export function sendFrameworkError (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  beginAlone(request.raw, reply.raw, () => {
    // Fastify doesn't call the logger factory of app.ts here, so the request's logger writes nothing.
    request.log = request.server.log.child({ reqId: request.id })
    request.server.logRequest(request, reply)
    sendError(error, request, reply)
  })
}

export default fp(async (app) => {
  app.setErrorHandler(sendError)
}, { name: 'error-handler', dependencies: ['route-lookup'] })
