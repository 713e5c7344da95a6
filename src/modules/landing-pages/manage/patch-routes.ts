import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyRequest, RequestPayload } from 'fastify'
import { InsufficientScopeError, NotFoundError, RetryLaterError,
  UnsupportedMediaTypeError } from '../../../errors.ts'
import { describeBodyTypes } from '../../../http/error-handler.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { errors, IdParams, nothing, PublishHeaders, RECEIPT, WriteConditions } from '../../../http/schemas.ts'
import { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { confirmCaller, runInTurn } from '../../accounts/index.ts'
import { MAX_DEPTH, parseBareDocument } from '../document.ts'
import { checkPreconditions } from '../../../http/conditional-requests.ts'
import { documentValidators } from '../etag.ts'
import type { LandingPage } from '../landing-page-repository.ts'
import { Patcher, type PatchKind } from '../patch/patcher.ts'
import { draftAttempt, SCHEDULED, sendWrittenDraft } from './draft-routes.ts'
import { findOwnPage, keepUnchanged, type PatchAttempt, replaceAndPublish,
  untilWritten } from './write-checks.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The kind of a patch; undefined without a body. */
    patchKind: PatchKind | undefined
  }
}

/** Patches of one account that may wait in a process. */
const MAX_WAITING_PER_ACCOUNT = 100
const MAX_PATCH_BYTES = 64 * 1024
const KINDS: Readonly<Record<string, PatchKind>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge'
}
const TYPES = Object.keys(KINDS)

const Operation = Type.Object({
  op: Type.Union(['add', 'remove', 'replace', 'move', 'copy', 'test'].map((op) => Type.Literal(op))),
  path: Type.String({ description: 'A JSON Pointer (RFC 6901)', examples: ['/prices/0'] }),
  from: Type.Optional(Type.String({ description: 'A JSON Pointer; for `move` and `copy`' })),
  value: Type.Optional(Type.Unknown({ description: 'For `add`, `replace` and `test`' }))
}, { title: 'JsonPatchOperation' })

const JsonPatch = Type.Array(Operation, {
  title: 'JsonPatch',
  maxItems: 1000,
  description: 'Operations (RFC 6902), which are applied in order: all or none',
  examples: [[{ op: 'test', path: '/price', value: 1 }, { op: 'replace', path: '/price', value: 2 }]]
})

const MergePatch = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
  title: 'MergePatch',
  description: 'Members to change (RFC 7396); `null` removes a member. An array replaces the whole document.',
  examples: [{ price: 2, discount: null }]
})

const patchDocumentSchema = {
  operationId: 'patchDocument',
  summary: 'Change parts of the document of a Landing Page',
  description:
    'Takes a JSON Patch or a JSON Merge Patch of at most 64 KiB and applies it to the text of the ' +
    'document: every byte that it does not name stays as it was. Without `If-Match`, concurrent patches ' +
    'are all applied, one after the other. If they carry the same `If-Match`, only the first succeeds.',
  params: IdParams,
  headers: PublishHeaders,
  // The schema checks only the type, because the parser passes an empty object or array in place of the
  // patch. patch/operations.ts checks what is in it.
  body: {
    content: {
      'application/json-patch+json': { schema: JsonPatch },
      'application/merge-patch+json': { schema: MergePatch }
    }
  },
  response: {
    204: nothing("The document is patched. `ETag` is the new document's", 'ETag', ...RECEIPT),
    ...errors([409, 415, 422], [], {
      415: 'Content-Type must be application/json-patch+json or application/merge-patch+json',
      422: 'Operation 1 (replace "/price"): there is nothing at this path'
    })
  }
}

const patchDraftSchema = {
  ...patchDocumentSchema,
  operationId: 'patchDraft',
  headers: WriteConditions,
  summary: 'Change parts of the draft of a Landing Page',
  description:
    'As for the document. Without a draft, the patch is applied to the document, and the result becomes ' +
    'the draft; `If-Match` then names the document. The operation `test` needs a key with `pages:read`, too.',
  response: {
    ...patchDocumentSchema.response,
    201: nothing("The draft is begun. `ETag` is the draft's", 'ETag', 'Location'),
    204: nothing("The draft is patched. `ETag` is the draft's", 'ETag'),
    ...errors([409], [], SCHEDULED)
  }
}

/** The routes that patch a document and a draft (docs/adr/0018-patches-on-text.md). */
export const patchRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const apply = createPatches(app)
  app.decorateRequest('patchKind', undefined)
  app.removeAllContentTypeParsers()
  for (const [type, kind] of Object.entries(KINDS)) {
    app.addContentTypeParser(type, async (request: FastifyRequest, payload: RequestPayload) => {
      request.patchKind = kind
      return await parseBareDocument(request, payload) // `request.document` is the patch
    })
  }

  const options = { bodyLimit: MAX_PATCH_BYTES, attachValidation: true }

  app.patch('/manage/landing_pages/:id/document', {
    ...options,
    schema: patchDocumentSchema,
    config: { bodyTypes: TYPES }
  }, async (request, reply) => {
    const page = await apply(request, await sentPatch(request), documentAttempt(request))
    return sendWithoutBody(reply.code(204).header('etag', documentValidators(page).etag))
  })

  app.patch('/manage/landing_pages/:id/draft', {
    ...options,
    schema: patchDraftSchema,
    config: { bodyTypes: TYPES, writeScope: 'drafts:write' }
  }, async (request, reply) => {
    const patch = await sentPatch(request)
    if (!request.caller.seesDocuments && hasTest(patch)) throw new InsufficientScopeError('pages:read')
    return sendWrittenDraft(reply, await apply(request, patch, draftAttempt(request, true)))
  })
}

/** Whether a patch asks what is in the document. */
function hasTest ({ kind, text }: SentPatch): boolean {
  if (kind !== 'json') return false
  const operations: unknown = JSON.parse(text)
  return Array.isArray(operations) && operations.some((operation) => operation?.op === 'test')
}

/** Returns the patch of a request. @throws {NotFoundError} 404 for whoever isn't the owner */
async function sentPatch (request: FastifyRequest): Promise<SentPatch> {
  const { validationError, patchKind: kind, document } = request
  if (validationError instanceof NotFoundError) throw validationError
  if (validationError !== undefined || kind === undefined || document === undefined) {
    await findOwnPage(request)
    throw validationError ?? new UnsupportedMediaTypeError(describeBodyTypes(TYPES))
  }
  return { kind, text: document.text }
}

/** Patches the document of the page that a request names. Resolves to the page as it is now. */
const documentAttempt = (request: FastifyRequest): PatchAttempt<LandingPage> => async (applyPatch) => {
  const current = await findOwnPage(request)
  checkPreconditions(request, documentValidators(current))
  const document = await applyPatch(current.currentData)
  if (document === current.currentData) return keepUnchanged(request, current)
  return await replaceAndPublish(request, current.id, document, current)
}

/** A patch that an owner has sent: valid JSON. */
interface SentPatch {
  readonly kind: PatchKind
  readonly text: string
}

/**
 * Returns a function that applies a patch: it makes attempts until one has written. Of concurrent patches,
 * each is applied to the result of the one before.
 */
function createPatches (app: FastifyInstance) {
  const patcher = new Patcher({ maxBytes: app.config.MAX_DOCUMENT_BYTES, maxLevels: MAX_DEPTH })
  app.addHook('onClose', async () => patcher.close())
  // One at a time, so that the patches of an account don't compete for a page, nor fill the patcher's queue.
  const queue = new KeyedSemaphore<number>({
    maxRunning: 1,
    maxWaiting: MAX_WAITING_PER_ACCOUNT,
    createRefusal: () =>
      new RetryLaterError(503, 'Too many patches of this account are waiting, try again shortly', 1)
  })
  return async <Written>(
    request: FastifyRequest,
    { kind, text }: SentPatch,
    attempt: PatchAttempt<Written>
  ) => {
    async function applyPatch (document: string): Promise<string> {
      const result = await patcher.apply(request.caller.userId, kind, document, text)
      await confirmCaller(request)
      return result
    }
    const write = async () => await untilWritten(request, async () => await attempt(applyPatch))
    return await runInTurn(queue, request, write)
  }
}
