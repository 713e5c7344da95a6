import { buffer } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { compress, preferredEncoding } from '../content-encoding.ts'

const COMPRESSIBLE = /^(text|application)\/(html|css|json|javascript)/

/**
 * Adds a hook that compresses the responses of a scope that have an ETag. Results are kept by URL and
 * ETag.
 */
export function compressResponses (scope: FastifyInstance): void {
  const kept = new Map<string, Promise<Buffer>>()
  scope.addHook('onSend', async (request, reply, payload) => {
    const { etag, 'content-type': type } = reply.getHeaders()
    if (etag === undefined) return payload
    reply.header('vary', 'Accept-Encoding')
    const encoding = preferredEncoding(request.headers['accept-encoding'])
    if (reply.statusCode !== 200 || encoding === 'identity' || !COMPRESSIBLE.test(String(type))) {
      return payload
    }
    reply.header('content-encoding', encoding).removeHeader('content-length').removeHeader('accept-ranges')
    if (request.method === 'HEAD') return payload

    // npm gives all files of a package the same time, so files of the same size have the same ETag.
    const key = `${encoding} ${String(etag)} ${request.url.replace(/\?.*$/s, '')}`
    let compressed = kept.get(key)
    if (compressed === undefined) {
      const bytes = Buffer.isBuffer(payload) ? Promise.resolve(payload) : buffer(payload as Readable)
      kept.set(key, compressed = bytes.then(compress[encoding]))
      compressed.catch(() => kept.delete(key))
    } else if (payload instanceof Readable) payload.destroy()
    return await compressed
  })
}
