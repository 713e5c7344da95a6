import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { NotFoundError, PreconditionFailedError } from '../errors.ts'
import { sendNothing } from '../reply.ts'
import { decide, isConditional, type Verdict } from './conditions.ts'
import type { FileInfo, OpenFile } from './file-store.ts'
import { askForFileSchema, readFileSchema } from './schemas.ts'
import { presentationOf, YEAR_SECONDS, type Presentation } from './storage-key.ts'

// The bytes, for everybody. A file never changes under its name, so that caches may keep it for ever.

/** For what a browser makes of a file that is opened by itself: no script, no form, no origin. */
const SANDBOX = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; sandbox"
/** Browsers don't start their PDF viewers in a sandbox, and Chrome's brings inline styles and an embedded object. */
const PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

/** On every answer under /uploads/, errors included. */
const HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Last-Modified, X-Request-Id',
  'cross-origin-resource-policy': 'cross-origin',
  'x-content-type-options': 'nosniff',
  'content-security-policy': SANDBOX
}

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD',
  'access-control-allow-headers': 'If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range',
  'access-control-max-age': '86400'
}

/** The public addresses of uploaded files. */
export const uploadsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(HEADERS)
    done()
  })

  app.route<{ Params: { '*': string } }>({
    method: ['GET', 'HEAD'],
    url: '/uploads/*',
    exposeHeadRoute: false,
    schema: readFileSchema,
    config: { log: 'sample' },
    handler: async (request, reply) => {
      const name = request.params['*']
      const presentation = presentationOf(name)
      if (presentation === undefined) throw new NotFoundError()
      if (request.method === 'HEAD') return await sendHead(request, reply, await app.files.look(name), presentation)
      const file = await app.files.open(name, !isConditional(request.headers))
      try {
        return await sendFile(request, reply, file, presentation)
      } catch (error) {
        await file?.close()
        throw error
      }
    }
  })

  app.options('/uploads/*', { schema: askForFileSchema, config: { log: 'sample' } }, async (_request, reply) => await sendNothing(reply.code(204).headers(PREFLIGHT)))
}

async function sendFile (request: FastifyRequest, reply: FastifyReply, file: OpenFile | undefined, presentation: Presentation): Promise<FastifyReply> {
  if (file === undefined) throw new NotFoundError()
  const verdict = head(request, reply, file, presentation)
  if (verdict.status === 304) {
    await file.close()
    return await reply.send()
  }
  const stream = verdict.status === 206 ? await file.read(verdict.first, verdict.last) : await file.read()
  stream.on('error', (error) => request.log.error({ err: error }, 'an uploaded file could not be read to its end'))
  return await reply.send(stream)
}

async function sendHead (request: FastifyRequest, reply: FastifyReply, file: FileInfo | undefined, presentation: Presentation): Promise<FastifyReply> {
  if (file === undefined) throw new NotFoundError()
  const { status } = head(request, reply, file, presentation)
  return await reply.send(status === 304 ? undefined : '')
}

/** Status and headers of what is sent. */
function head ({ method, headers }: FastifyRequest, reply: FastifyReply, file: FileInfo, { contentType, inline }: Presentation): Verdict {
  const verdict = decide(method, headers, file)
  if (verdict.status === 412) throw new PreconditionFailedError()
  if (verdict.status === 416) {
    reply.header('content-range', `bytes */${file.byteSize}`)
    throw Object.assign(new Error('Range not satisfiable'), { statusCode: 416 })
  }
  reply.code(verdict.status).headers({
    'accept-ranges': 'bytes',
    'cache-control': `public, max-age=${YEAR_SECONDS}, immutable`,
    etag: file.etag,
    // Storages round up, and what has been changed in the future is not allowed (RFC 9110, 8.8.2.1).
    'last-modified': new Date(Math.min(file.modifiedAt.getTime(), Date.now())).toUTCString()
  })
  if (verdict.status === 304) return verdict
  const isPart = verdict.status === 206
  reply.headers({
    'content-type': contentType,
    'content-disposition': inline ? 'inline' : 'attachment',
    'content-length': isPart ? verdict.last - verdict.first + 1 : file.byteSize
  })
  if (isPart) reply.header('content-range', `bytes ${verdict.first}-${verdict.last}/${file.byteSize}`)
  if (contentType === 'application/pdf') reply.header('content-security-policy', PDF_POLICY)
  return verdict
}
