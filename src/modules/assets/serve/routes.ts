import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { NotFoundError } from '../../../errors.ts'
import { allowRead } from '../../../http/cors.ts'
import { cacheTagHeader, FILE_HEADERS, IMMUTABLE, PDF_POLICY } from '../../../http/common-headers.ts'
import { checkPreconditions, hasConditions, isNotModified, requestedRange,
  type ByteRange } from '../../../http/conditional-requests.ts'
import { askForFileSchema, readFileSchema } from '../schemas.ts'
import { findFilename } from '../asset-repository.ts'
import type { FileInfo, OpenFile } from '../storage/file-store.ts'
import { contentDisposition, parseVariantName, presentationOf,
  type Presentation } from '../storage/storage-key.ts'

/** Names of downloads that are kept in memory. A name never changes. */
const MAX_KNOWN_NAMES = 10_000

/** The public URLs of uploaded files. */
export const uploadsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const filenames = new LRUCache<string, string>({
    max: MAX_KNOWN_NAMES,
    fetchMethod: async (key) => await findFilename(app.database, key)
  })
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(FILE_HEADERS)
    done()
  })

  /** Describes a stored file. While PostgreSQL is unreachable, a download has no name. */
  async function describe (
    key: string,
    presentation: Presentation,
    log: FastifyBaseLogger
  ): Promise<Description> {
    const filename = presentation.inline ? undefined : await filenames.fetch(key).catch((error: unknown) => {
      log.warn({ err: error }, 'a file is sent without its name')
      return undefined
    })
    return {
      contentType: presentation.contentType,
      disposition: contentDisposition(presentation, filename),
      tag: Object.fromEntries(cacheTagHeader(app.config, parseVariantName(key)?.stem ?? key))
    }
  }

  /** Finds a file. A missing variant is made first. @throws {NotFoundError} 404 */
  async function find<Found> (
    request: FastifyRequest,
    name: string,
    look: () => Promise<Found | undefined>
  ): Promise<Found> {
    let found = await look()
    if (found === undefined && parseVariantName(name) !== undefined) {
      if (await app.variants.make(name, app.addressOf(request).counted)) found = await look()
    }
    if (found === undefined) throw new NotFoundError()
    return found
  }

  // One route for both, because HEAD gets the same headers. It only needs the file's metadata.
  app.route<{ Params: { '*': string } }>({
    method: ['GET', 'HEAD'],
    url: '/uploads/*',
    exposeHeadRoute: false,
    schema: readFileSchema,
    config: { log: 'sample', anyOrigin: true },
    handler: async (request, reply) => {
      const name = request.params['*']
      const presentation = presentationOf(name)
      if (presentation === undefined) throw new NotFoundError()
      const isHead = request.method === 'HEAD'
      const isWhole = request.headers.range === undefined && !hasConditions(request.headers)
      const file: FileInfo & Partial<OpenFile> = await find(
        request,
        name,
        async () => await (isHead ? app.files.stat(name) : app.files.open(name, isWhole))
      )
      try {
        return await sendFile(request, reply, file, await describe(name, presentation, request.log))
      } catch (error) {
        await file.close?.()
        throw error
      }
    }
  })

  app.options(
    '/uploads/*',
    { schema: askForFileSchema, config: { log: 'sample' } },
    async (request, reply) => allowRead(request, reply, 'If-None-Match, Range')
  )
}

/** How a file is sent. */
interface Description extends Pick<Presentation, 'contentType'> {
  readonly disposition: string
  /** The header by which a CDN finds it. */
  readonly tag: Readonly<Record<string, string>>
}

/** Sends a file, or only its headers if it isn't open. If this throws, the caller must close it. */
async function sendFile (
  request: FastifyRequest,
  reply: FastifyReply,
  file: FileInfo & Partial<OpenFile>,
  description: Description
): Promise<FastifyReply> {
  checkPreconditions(request, file)
  if (isNotModified(request.headers, file)) {
    await file.close?.()
    return await setValidators(reply, file, description).code(304).send()
  }
  // The Range of a HEAD is ignored (RFC 9110, 14.2).
  const range = file.read === undefined ? 'whole' : requestedRange(request.headers, file)
  if (range === 'not satisfiable') {
    reply.header('content-range', `bytes */${file.byteSize}`)
    throw Object.assign(new Error('Range not satisfiable'), { statusCode: 416 })
  }
  describeContent(reply, file, description, range)
  if (file.read === undefined) return await reply.send('')
  const stream = range === 'whole' ? await file.read() : await file.read(range.first, range.last)
  stream.on(
    'error',
    (error) => request.log.error({ err: error }, 'reading an uploaded file failed')
  )
  return await reply.send(stream)
}

/** Sets the headers that 200, 206 and 304 have in common. */
function setValidators (reply: FastifyReply, file: FileInfo, { tag }: Description): FastifyReply {
  const now = Date.now()
  return reply.headers({
    ...tag,
    'accept-ranges': 'bytes',
    'cache-control': IMMUTABLE,
    etag: file.etag,
    // Some storages round times up, but Last-Modified must not be later than Date (RFC 9110, 8.8.2.1), and
    // Node's own Date is late when the process is busy.
    date: new Date(now).toUTCString(),
    'last-modified': new Date(Math.min(file.modifiedAt.getTime(), now)).toUTCString()
  })
}

function describeContent (
  reply: FastifyReply,
  file: FileInfo,
  description: Description,
  range: ByteRange | 'whole'
): void {
  const { contentType, disposition } = description
  setValidators(reply, file, description).headers({
    'content-type': contentType,
    'content-disposition': disposition,
    'content-length': range === 'whole' ? file.byteSize : range.last - range.first + 1
  })
  // The name of a download could not be read. Caches must not keep the response for a year.
  if (disposition === 'attachment') reply.header('cache-control', 'no-cache')
  if (range !== 'whole') {
    reply.code(206).header('content-range', `bytes ${range.first}-${range.last}/${file.byteSize}`)
  }
  if (contentType === 'application/pdf') reply.header('content-security-policy', PDF_POLICY)
}
