import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest, RequestPayload } from 'fastify'
import { NotFoundError, UnsupportedMediaTypeError } from '../../../errors.ts'
import { describeBodyTypes } from '../../../http/error-handler.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { parseBareDocument } from '../document.ts'
import { patchDocumentSchema } from '../document-schemas.ts'
import { documentValidators } from '../etag.ts'
import { findPage } from '../landing-page-repository.ts'
import type { PatchKind } from '../patch/patcher.ts'
import { PagePatches } from './page-patches.ts'
import { ownPage } from './write-checks.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The kind of a patch; undefined without a body. */
    patchKind: PatchKind | undefined
  }
}

const MAX_PATCH_BYTES = 64 * 1024
const KINDS: Readonly<Record<string, PatchKind>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge'
}
const TYPES = Object.keys(KINDS)

/** The route that patches a document (docs/adr/0018-patches-on-text.md). */
export const patchRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const patches = new PagePatches(app)
  app.decorateRequest('patchKind', undefined)
  app.removeAllContentTypeParsers()
  for (const [type, kind] of Object.entries(KINDS)) {
    app.addContentTypeParser(type, async (request: FastifyRequest, payload: RequestPayload) => {
      request.patchKind = kind
      return await parseBareDocument(request, payload) // `request.document` is the patch
    })
  }

  app.patch('/manage/landing_pages/:id/document', {
    schema: patchDocumentSchema,
    bodyLimit: MAX_PATCH_BYTES,
    attachValidation: true,
    config: { bodyTypes: TYPES }
  }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const { validationError, patchKind, document } = request
    if (validationError instanceof NotFoundError) throw validationError
    if (validationError !== undefined || patchKind === undefined || document === undefined) {
      if (await findPage(app.database, userId, id) === null) throw new NotFoundError()
      throw validationError ?? new UnsupportedMediaTypeError(describeBodyTypes(TYPES))
    }
    const page = await patches.apply(request, patchKind, document.text)
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })
}
