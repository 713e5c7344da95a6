import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { EncodedBodyError, MalformedJsonError, RequestTimeoutError, UnsupportedMediaTypeError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The JSON body as it came, for the routes that keep part of it exactly. */
    bodyText: string
  }
}

/** Whether a body is compressed or otherwise encoded, which no route takes. */
export const isEncoded = ({ headers }: FastifyRequest): boolean => (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'

/** Requests whose body Fastify doesn't read. */
const BODYLESS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/**
 * Adds the hook that lets a JSON body take only so long to arrive; then it is a 408.
 *
 * @param timeoutMs for the whole body, in milliseconds
 */
export function limitBodyTime (scope: FastifyInstance, timeoutMs: number): void {
  scope.addHook('preParsing', (request, reply, payload, done) => {
    if (!BODYLESS.has(request.method) && /^application\/json/i.test(request.headers['content-type'] ?? '')) {
      // Told to whoever reads, if somebody does: an 'error' that nobody hears would end the process. Destroying the stream
      // would take the connection with it, and the answer.
      const timer = setTimeout(() => { if (payload.listenerCount('error') > 0) payload.emit('error', new RequestTimeoutError()) }, timeoutMs)
      const clear = () => clearTimeout(timer)
      payload.once('end', clear).once('close', clear)
      reply.raw.once('close', clear) // for bodies that nobody reads to their end
    }
    done(null, payload)
  })
}

/**
 * Adds the hook that takes the Content-Type from a DELETE that has no body. Clients that give every request a type, such
 * as `curl -X DELETE -d ''`, would get a 415 for a body that isn't there. POST and PATCH say themselves what they miss.
 */
export function allowTypeWithoutBody (scope: FastifyInstance): void {
  scope.addHook('onRequest', ({ method, headers }, _reply, done) => {
    if (method === 'DELETE' && headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0) delete headers['content-type']
    done()
  })
}

/**
 * The one parser of request bodies. JSON.parse makes `__proto__` an ordinary key and nothing here merges objects, so
 * such keys are no danger and documents may hold them. An empty body is no body: the routes say what they miss.
 */
export default fp(async (app) => {
  app.decorateRequest('bodyText', '')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (isEncoded(request)) return done(new EncodedBodyError())
    if (charset !== undefined && !/^(utf-?8|us-ascii)$/i.test(charset)) return done(new UnsupportedMediaTypeError('JSON must be encoded in UTF-8'))
    if (bytes.length === 0) return done(null, undefined)
    if (!isUtf8(bytes)) return done(new MalformedJsonError())
    const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
    try {
      const body: unknown = JSON.parse(text)
      request.bodyText = text
      done(null, body)
    } catch {
      done(new MalformedJsonError())
    }
  })
}, { name: 'json-body' })
