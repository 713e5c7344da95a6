import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { RequestSpan, Tracer } from '../infra/telemetry/open-telemetry.ts'
import { loggedPath } from './access-log.ts'
import { onResponseEnd } from './responses.ts'

/** Traces the requests of a scope and adds `trace_id` to their log lines. Call it before any other hook. */
export function traceRequests (scope: FastifyInstance, tracer: Tracer): void {
  scope.addHook('onRequest', (request, reply, done) => {
    const span = startSpan(tracer, request)
    request.log = reply.log = request.log.child({ trace_id: span.traceId })
    if (!span.isRecording) return done()
    endWithResponse(span, reply)
    span.run(done) // Fastify keeps the async context while it reads the body
  })
}

/** Traces a public read that has to wait for Redis or PostgreSQL. */
export async function traceRead (
  tracer: Tracer,
  request: FastifyRequest,
  reply: FastifyReply,
  read: () => Promise<void>
): Promise<void> {
  const span = startSpan(tracer, request)
  if (!span.isRecording) return await read()
  endWithResponse(span, reply)
  await span.run(read)
}

const startSpan = (tracer: Tracer, request: FastifyRequest): RequestSpan =>
  tracer.startRequestSpan({
    id: request.id,
    method: request.method,
    route: request.routeOptions.url ?? '',
    path: loggedPath(request.url),
    scheme: request.protocol,
    clientAddress: request.server.addressOf(request).full,
    headers: request.headers
  })

const endWithResponse = (span: RequestSpan, reply: FastifyReply): void =>
  onResponseEnd(reply.raw, (isComplete) => span.end(reply.raw.statusCode, isComplete))
