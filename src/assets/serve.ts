import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { send } from '@fastify/send'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { NotFoundError, PreconditionFailedError, unavailable } from '../errors.ts'
import { DiskStore, isMissing } from './disk-store.ts'
import { presentationOf, type Presentation } from './storage-key.ts'

// The bytes, for everybody. A file never changes under its name, so that caches may keep it for ever.

const YEAR_SECONDS = 365 * 24 * 60 * 60

/** For what a browser makes of a file that is opened by itself: no script, no form, no origin. */
const SANDBOX = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; sandbox"
/** Browsers don't start their PDF viewers in a sandbox, and Chrome's brings inline styles and an embedded object. */
const PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

/** A range of so many bytes before the end, if any. */
const SUFFIX = /^bytes=-\d*[1-9]\d*$/

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

const readFileSchema = { summary: 'Read the file of an asset', security: [] }
const hiddenSchema = { hide: true }

/** The public addresses of uploaded files. */
export const uploadsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(HEADERS)
    done()
  })

  app.route<{ Params: { '*': string } }>({
    method: ['GET', 'HEAD'],
    url: '/uploads/*',
    exposeHeadRoute: false,
    schema: readFileSchema,
    handler: async (request, reply) => {
      const name = request.params['*']
      const presentation = presentationOf(name)
      if (presentation === undefined || !await store.exists(name)) throw new NotFoundError()
      return await sendFile(request, reply, store.folder, name, presentation)
    }
  })

  app.options('/uploads/*', { schema: hiddenSchema }, async (_request, reply) => await reply.code(204).headers(PREFLIGHT).send())
}

async function sendFile (request: FastifyRequest, reply: FastifyReply, root: string, name: string, { contentType, inline }: Presentation): Promise<FastifyReply> {
  const options = { root, index: false, extensions: false, dotfiles: 'ignore', cacheControl: false, contentType: false } as const
  let file = await send(conditionsOf(request), name, options)
  // RFC 9110, 14.1.3: the last 1,000 bytes of a shorter file are all of it, which `send` refuses.
  if (file.type !== 'file' && file.statusCode === 416 && SUFFIX.test(request.headers.range ?? '')) file = await send(conditionsOf(request, false), name, options)
  if (file.type !== 'file') return refuse(reply, file.statusCode, file.headers)
  if (file.statusCode !== 304 && request.method === 'GET') await opened(file.stream, request)

  const { ETag: etag, ...headers } = file.headers as Record<string, string>
  reply.code(file.statusCode).headers(headers)
  reply.header('etag', etag?.replace(/^W\//, ''))
  reply.header('cache-control', `public, max-age=${YEAR_SECONDS}, immutable`)
  if (file.statusCode === 304) return await reply.send()
  reply.header('content-type', contentType)
  reply.header('content-disposition', inline ? 'inline' : 'attachment')
  if (contentType === 'application/pdf') reply.header('content-security-policy', PDF_POLICY)
  return await reply.send(request.method === 'HEAD' ? '' : file.stream)
}

/**
 * What `send` decides on. It makes weak tags of size and time; under a name whose bytes never change these are strong, and
 * clients resume a download (If-Range) only with strong ones. So the mark of weakness is taken off on the way out, and
 * put back here where `send` compares literally.
 */
function conditionsOf ({ method, headers }: FastifyRequest, withRange = true): Readable {
  const { range, 'if-range': ifRange, 'cache-control': _reload, ...rest } = headers
  const conditions: Record<string, unknown> = rest
  if (withRange && range !== undefined && method === 'GET') { // RFC 9110, 14.2: only GET has ranges
    conditions.range = range
    if (ifRange !== undefined) conditions['if-range'] = asSendCompares(String(ifRange))
  }
  return { method, headers: conditions } as unknown as Readable
}

function asSendCompares (ifRange: string): string {
  if (ifRange.startsWith('W/')) return '""' // RFC 9110, 13.1.5: a weak tag never matches
  return ifRange.startsWith('"') ? `W/${ifRange}` : ifRange
}

function refuse (reply: FastifyReply, status: number, headers: Record<string, unknown>): never {
  if (status === 412) throw new PreconditionFailedError()
  if (status !== 416) throw new NotFoundError()
  reply.header('content-range', headers['Content-Range'])
  throw Object.assign(new Error('Range not satisfiable'), { statusCode: 416 })
}

/** A file may be deleted between the look and the opening; after the headers it would be too late to say so. */
async function opened (stream: Readable, request: FastifyRequest): Promise<void> {
  try {
    await once(stream, 'open')
  } catch (error) {
    if (isMissing(error)) throw new NotFoundError()
    request.log.error({ err: error }, 'an uploaded file could not be opened')
    throw unavailable()
  }
}
