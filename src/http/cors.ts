import cors from '@fastify/cors'
import type { FastifyInstance, FastifyReply, FastifyRequest, onSendAsyncHookHandler } from 'fastify'
import { sendWithoutBody } from './responses.ts'

// CORS_ORIGINS: the origins whose pages may call the management API.

const EXPOSED =
  'ETag, Retry-After, Link, Location, X-Request-Id, WWW-Authenticate, Allow, Preference-Applied, ' +
  'Landfall-Publication'

/** Lets pages of CORS_ORIGINS call the routes of a scope. */
export async function allowOrigins (scope: FastifyInstance): Promise<void> {
  const { CORS_ORIGINS } = scope.config
  if (CORS_ORIGINS.length === 0) return
  await scope.register(cors, {
    origin: CORS_ORIGINS.includes('*') ? '*' : [...CORS_ORIGINS],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    exposedHeaders: EXPOSED,
    maxAge: 3600,
    strictPreflight: false // otherwise an OPTIONS that isn't a preflight gets an error body of the plugin
  })
  scope.addHook('onSend', describePreflight)
}

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD, OPTIONS',
  allow: 'GET, HEAD, OPTIONS',
  vary: 'Access-Control-Request-Headers',
  'access-control-max-age': '86400'
}

/**
 * Answers the preflight of a read for pages of any origin. It allows all headers that are asked for, because
 * some HTTP libraries add headers of their own to every request.
 *
 * @param usual the headers to allow if the request asks for none
 */
export function allowRead (request: FastifyRequest, reply: FastifyReply, usual: string): FastifyReply {
  const asked = request.headers['access-control-request-headers'] ?? usual
  return sendWithoutBody(reply.code(204).headers(PREFLIGHT).header('access-control-allow-headers', asked))
}

/** Lets pages of CORS_ORIGINS read an error. The hooks of CORS don't run for a request without a route. */
export function allowReadingError ({ headers, server }: FastifyRequest, reply: FastifyReply): void {
  const { CORS_ORIGINS } = server.config
  if (CORS_ORIGINS.length === 0) return
  const isForAll = CORS_ORIGINS.includes('*')
  if (!isForAll) reply.header('vary', 'Origin')
  if (!isForAll && !CORS_ORIGINS.includes(headers.origin ?? '')) return
  reply.headers({
    'access-control-allow-origin': isForAll ? '*' : headers.origin,
    'access-control-expose-headers': EXPOSED
  })
}

/** Adds `Allow` to a preflight, and removes the Content-Length that a 204 must not have (RFC 9110, 8.6). */
const describePreflight: onSendAsyncHookHandler = async (request, reply, payload) => {
  if (request.method === 'OPTIONS' && reply.statusCode === 204) {
    reply.removeHeader('content-length')
    reply.header('allow', [...request.server.methodsAt(request.url), 'OPTIONS'].join(', '))
  }
  return payload
}
