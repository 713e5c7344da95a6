import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NotFoundError } from '../../../errors.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { FILE_HEADERS } from '../../../http/common-headers.ts'
import { hasConditions } from '../../../http/conditional-requests.ts'
import { askForFileSchema, readFileSchema } from '../schemas.ts'
import { presentationOf } from '../storage/storage-key.ts'
import { sendFile, sendHead } from './send-file.ts'

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD, OPTIONS',
  allow: 'GET, HEAD, OPTIONS',
  vary: 'Access-Control-Request-Headers',
  'access-control-max-age': '86400'
}

/** The public URLs of uploaded files. */
export const uploadsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(FILE_HEADERS)
    done()
  })

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
        return await sendHead(request, reply, await app.files.stat(name), presentation)
      }
      const isWhole = request.headers.range === undefined && !hasConditions(request.headers)
      const file = await app.files.open(name, isWhole)
      try {
        return await sendFile(request, reply, file, presentation)
      } catch (error) {
        await file?.close()
        throw error
      }
    }
  })

  app.options(
    '/uploads/*',
    { schema: askForFileSchema, config: { log: 'sample' } },
    async (request, reply) => {
      // All headers are allowed, as for documents.
      const asked = request.headers['access-control-request-headers'] ?? 'If-None-Match, Range'
      reply.code(204).headers(PREFLIGHT).header('access-control-allow-headers', asked)
      return await sendWithoutBody(reply)
    }
  )
}
