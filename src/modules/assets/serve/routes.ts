import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { NotFoundError } from '../../../errors.ts'
import { allowRead } from '../../../http/cors.ts'
import { cacheTagHeader, FILE_HEADERS } from '../../../http/common-headers.ts'
import { hasConditions } from '../../../http/conditional-requests.ts'
import { askForFileSchema, readFileSchema } from '../schemas.ts'
import { findFilename } from '../asset-repository.ts'
import { contentDisposition, parseVariantName, presentationOf,
  type Presentation } from '../storage/storage-key.ts'
import { sendFile, sendHead, type Description } from './send-file.ts'

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
      if (request.method === 'HEAD') {
        const info = await find(request, name, async () => await app.files.stat(name))
        return await sendHead(request, reply, info, await describe(name, presentation, request.log))
      }
      const isWhole = request.headers.range === undefined && !hasConditions(request.headers)
      const file = await find(request, name, async () => await app.files.open(name, isWhole))
      try {
        return await sendFile(request, reply, file, await describe(name, presentation, request.log))
      } catch (error) {
        await file.close()
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
