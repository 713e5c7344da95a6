import { isUtf8 } from 'node:buffer'
import fp from 'fastify-plugin'
import { MalformedJsonError, UnsupportedMediaTypeError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The JSON body as it came, for the routes that keep part of it exactly. */
    bodyText: string
  }
}

/**
 * The one parser of request bodies. JSON.parse makes `__proto__` an ordinary key and nothing here merges objects, so
 * such keys are no danger and documents may hold them. An empty body is no body: the routes say what they miss.
 */
export default fp(async (app) => {
  app.decorateRequest('bodyText', '')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes: Buffer, done) => {
    const encoding = request.headers['content-encoding']
    const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') return done(new UnsupportedMediaTypeError('Content-Encoding is not supported in requests'))
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
