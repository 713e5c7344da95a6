import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { NoDraftError } from '../../../errors.ts'
import { checkPreconditions } from '../../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { errors, IdParams, nothing, ReadConditions, response,
  WriteConditions } from '../../../http/schemas.ts'
import { discardDraft, findDraft } from '../draft-repository.ts'
import { draftValidators } from '../etag.ts'
import { Document, DOCUMENT } from '../schemas.ts'
import { checkUnscheduled, putDraft, SCHEDULED, sendWrittenDraft } from './draft-writes.ts'
import { sendUnlessKnown } from './record.ts'
import { documentOfOwner, findOwnPage, untilWritten } from './write-checks.ts'

const getDraftSchema = {
  operationId: 'getDraft',
  summary: 'Read the draft of a Landing Page',
  description: 'Returns the draft byte for byte as it was sent. 404 if the page has none.',
  params: IdParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The draft', 'ETag'),
    304: nothing('The draft has not changed', 'ETag')
  }
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
  const { MAX_DOCUMENT_BYTES: maxBytes } = app.config
  const url = '/manage/landing_pages/:id/draft'

  const findOwnDraft = async (request: Parameters<typeof findOwnPage>[1]) => {
    const draft = await findDraft(database, (await findOwnPage(database, request)).id)
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
    bodyLimit: maxBytes,
    attachValidation: true
  }, async (request, reply) => {
    const document = await documentOfOwner(request, maxBytes, database) as string // required by the schema
    return sendWrittenDraft(reply, await putDraft(app, request, document))
  })

  app.delete(url, { schema: deleteDraftSchema, config }, async (request, reply) => {
    await untilWritten(async () => {
      const draft = await findOwnDraft(request)
      checkPreconditions(request, draftValidators(draft))
      await checkUnscheduled(database, draft.pageId)
      return await discardDraft(database, request.caller.userId, draft) || null
    })
    return sendWithoutBody(reply.code(204))
  })
}
