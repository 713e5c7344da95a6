import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ConflictError, NoDraftError, PreconditionFailedError } from '../../../errors.ts'
import { checkPreconditions, contentHash } from '../../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { conditionalRead, errors, IdParams, nothing, WriteConditions } from '../../../http/schemas.ts'
import { discardDraft, findDraft, writeDraft, type Draft } from '../draft-repository.ts'
import { documentValidators, draftValidators } from '../etag.ts'
import { Document, DOCUMENT } from '../schemas.ts'
import { findSchedule } from '../schedule-repository.ts'
import { sendUnlessKnown } from './record.ts'
import { documentOfOwner, findOwnPage, findOwnPageAndDraft, untilWritten,
  type PatchAttempt } from './write-checks.ts'

/** An example of the message of checkUnscheduled(), for the description of a route. */
export const SCHEDULED = {
  409: 'The draft is scheduled to be published at 2027-01-31T08:00:00.000Z, and cannot be changed until then'
}

const getDraftSchema = {
  operationId: 'getDraft',
  summary: 'Read the draft of a Landing Page',
  description: 'Returns the draft byte for byte as it was sent. 404 if the page has none.',
  params: IdParams,
  ...conditionalRead(Document, 'The draft')
}
const putDraftSchema = {
  operationId: 'putDraft',
  summary: 'Write the draft of a Landing Page',
  description:
    'The body is the draft itself, which is stored byte for byte. A page has at most one draft. Readers do ' +
    'not see it until it is published.',
  params: IdParams,
  headers: WriteConditions,
  body: { ...Document, examples: [DOCUMENT] },
  response: {
    201: nothing("The draft is begun. `ETag` is the draft's", 'ETag', 'Location'),
    204: nothing("The draft is stored. `ETag` is the draft's", 'ETag'),
    ...errors([409, 422], [], { ...SCHEDULED, 422: 'Request body must be a JSON object or array' })
  }
}
const deleteDraftSchema = {
  operationId: 'discardDraft',
  summary: 'Discard the draft of a Landing Page',
  description: 'The document stays as it is. 404 if the page has no draft.',
  params: IdParams,
  headers: WriteConditions,
  response: {
    204: nothing('The draft is gone'),
    ...errors([409], [], SCHEDULED)
  }
}

const config = { writeScope: 'drafts:write' } as const

/** The routes of drafts. Patches are in patch-routes.ts. */
export const draftRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id/draft'

  const findOwnDraft = async (request: FastifyRequest) => {
    const draft = await findDraft(database, (await findOwnPage(request)).id)
    if (draft === null) throw new NoDraftError()
    return draft
  }

  app.get(url, { schema: getDraftSchema }, async (request, reply) => {
    const draft = await findOwnDraft(request)
    return sendUnlessKnown(request, reply, draftValidators(draft), draft.document)
  })

  app.put(url, {
    schema: putDraftSchema,
    config,
    bodyLimit: app.config.MAX_DOCUMENT_BYTES,
    attachValidation: true
  }, async (request, reply) => {
    const document = await documentOfOwner(request) as string // required by the schema
    const attempt = draftAttempt(request, false)
    const written = await untilWritten(request, async () => await attempt(async () => document))
    return sendWrittenDraft(reply, written)
  })

  app.delete(url, { schema: deleteDraftSchema, config }, async (request, reply) => {
    await untilWritten(request, async () => {
      const draft = await findOwnDraft(request)
      checkPreconditions(request, draftValidators(draft))
      await checkUnscheduled(request, draft.pageId)
      return await discardDraft(database, request.caller.userId, draft) || null
    })
    return sendWithoutBody(reply.code(204))
  })
}

/** A draft as it is after a write. */
interface WrittenDraft {
  readonly draft: Draft
  readonly isNew: boolean
}

/**
 * Returns an attempt to write the draft of the page that a request names. It changes what is in the draft, or
 * in the document if there is no draft. The same bytes change nothing.
 *
 * @param isPatch whether the preconditions name the document if there is no draft
 * @throws {NotFoundError} 404
 * @throws {ConflictError} 409 if it is scheduled
 * @throws {PreconditionFailedError} 412
 */
export const draftAttempt =
  (request: FastifyRequest, isPatch: boolean): PatchAttempt<WrittenDraft> => async (change) => {
    const { database } = request.server
    const { page, draft: read } = await findOwnPageAndDraft(request)
    if (read !== null) checkPreconditions(request, draftValidators(read))
    else if (isPatch) checkPreconditions(request, documentValidators(page))
    else if (request.headers['if-match'] !== undefined) {
      throw new PreconditionFailedError('If-Match', undefined)
    }
    await checkUnscheduled(request, page.id)
    const document = await change(read?.document ?? page.currentData)
    if (read?.contentHash === contentHash(document)) return { draft: read, isNew: false }
    const draft = await writeDraft(database, request.caller, page, read, document)
    return draft && { draft, isNew: read === null }
  }

/** @throws {ConflictError} 409 if the draft of a page is scheduled: what was reviewed is what is published */
async function checkUnscheduled ({ server }: FastifyRequest, pageId: string): Promise<void> {
  const time = (await findSchedule(server.database, pageId)).publishAt?.toISOString()
  if (time === undefined) return
  throw new ConflictError([
    `The draft is scheduled to be published at ${time}, and cannot be changed until then`
  ])
}

/** Answers a write of a draft. */
export function sendWrittenDraft (reply: FastifyReply, { draft, isNew }: WrittenDraft): FastifyReply {
  reply.code(isNew ? 201 : 204).header('etag', draftValidators(draft).etag)
  if (isNew) {
    reply.header('location', reply.server.publicPath(`/manage/landing_pages/${draft.pageId}/draft`))
  }
  return sendWithoutBody(reply)
}
