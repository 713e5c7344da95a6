import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ConflictError, PreconditionFailedError } from '../../../errors.ts'
import { checkPreconditions, contentHash } from '../../../http/conditional-requests.ts'
import { sendWithoutBody } from '../../../http/responses.ts'
import { documentValidators, draftValidators } from '../etag.ts'
import type { PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { findDraft, writeDraft, type Draft } from '../draft-repository.ts'
import type { LandingPage } from '../landing-page-repository.ts'
import { findSchedule } from '../schedule-repository.ts'
import type { PatchAttempt } from './page-patches.ts'
import { findOwnPage, untilWritten } from './write-checks.ts'

/** A draft as it is after a write. */
interface WrittenDraft {
  readonly draft: Draft
  readonly isNew: boolean
}

/**
 * Writes the draft of the page that a request names.
 *
 * @throws {NotFoundError} 404
 * @throws {ConflictError} 409 if it is scheduled
 * @throws {PreconditionFailedError} 412
 */
export const putDraft = async (
  app: FastifyInstance,
  request: FastifyRequest,
  document: string
): Promise<WrittenDraft> =>
  await untilWritten(async () => {
    const page = await findOwnPage(app.database, request)
    const read = await findDraft(app.database, page.id)
    if (read !== null) checkPreconditions(request, draftValidators(read))
    else if (request.headers['if-match'] !== undefined) {
      throw new PreconditionFailedError('If-Match', undefined)
    }
    await checkUnscheduled(app.database, page.id)
    return await replaceDraft(app, request, page, read, document)
  })

/** Patches the draft of the page that a request names, or begins one from the document. */
export const draftAttempt =
  (app: FastifyInstance, request: FastifyRequest): PatchAttempt<WrittenDraft> => async (patched) => {
    const page = await findOwnPage(app.database, request)
    const read = await findDraft(app.database, page.id)
    checkPreconditions(request, read === null ? documentValidators(page) : draftValidators(read))
    await checkUnscheduled(app.database, page.id)
    return await replaceDraft(app, request, page, read, await patched(read?.document ?? page.currentData))
  }

/** An example of the message of checkUnscheduled(), for the description of a route. */
export const SCHEDULED = {
  409: 'The draft is scheduled to be published at 2027-01-31T08:00:00.000Z, and cannot be changed until then'
}

/** @throws {ConflictError} 409 if the draft of a page is scheduled: what was reviewed is what is published */
export async function checkUnscheduled (database: PrismaClient, pageId: string): Promise<void> {
  const time = (await findSchedule(database, pageId)).publishAt?.toISOString()
  if (time === undefined) return
  throw new ConflictError([
    `The draft is scheduled to be published at ${time}, and cannot be changed until then`
  ])
}

/** The same bytes change nothing. */
async function replaceDraft (
  { database }: FastifyInstance,
  request: FastifyRequest,
  page: LandingPage,
  read: Draft | null,
  document: string
): Promise<WrittenDraft | null> {
  if (read?.contentHash === contentHash(document)) return { draft: read, isNew: false }
  const draft = await writeDraft(database, request.caller, page, read, document)
  return draft === null ? null : { draft, isNew: read === null }
}

/** Answers a write of a draft. */
export function sendWrittenDraft (reply: FastifyReply, { draft, isNew }: WrittenDraft): FastifyReply {
  reply.code(isNew ? 201 : 204).header('etag', draftValidators(draft).etag)
  if (isNew) {
    reply.header('location', reply.server.publicPath(`/manage/landing_pages/${draft.pageId}/draft`))
  }
  return sendWithoutBody(reply)
}
