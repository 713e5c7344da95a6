import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { recordOf, sendWithoutBody } from '../../../http/responses.ts'
import { IdParams, nothing, PublishHeaders, RECEIPT, response,
  WriteConditions } from '../../../http/schemas.ts'
import { addNextLink, sortedPageOf } from '../../../http/pagination.ts'
import { recordValidators } from '../etag.ts'
import type { ReadVersion } from '../landing-page-repository.ts'
import { indexPage } from '../references/reference-repository.ts'
import { LandingPage, TrashQuery } from '../schemas.ts'
import { listTrash, type ListedPage } from '../list-repository.ts'
import { sendRecord } from './record.ts'
import { PageLabel, shownLabel } from './summary-routes.ts'
import { changeStateAndPublish, removeAndPublish, writeOwnPage } from './write-checks.ts'

const DAY_MS = 24 * 60 * 60 * 1000

const DeletedLandingPage = Type.Object({
  id: LandingPage.properties.id,
  public_id: LandingPage.properties.public_id,
  key: LandingPage.properties.key,
  label: PageLabel,
  byte_size: Type.Integer({ minimum: 2, description: 'Size of the document' }),
  published: Type.Boolean({ description: 'Whether readers get the document when the page is restored' }),
  deleted_at: Type.String({ format: 'date-time' }),
  purged_at: Type.String({ format: 'date-time', description: 'When the page is removed for good' })
}, { title: 'DeletedLandingPage' })

const listTrashSchema = {
  operationId: 'listDeletedPages',
  summary: 'List the Landing Pages in the trash',
  description: 'The last deleted one comes first. Other routes answer 404 for these pages.',
  querystring: TrashQuery,
  response: {
    200: response(Type.Array(DeletedLandingPage), 'The deleted pages', 'Link?')
  }
}
const restorePageSchema = {
  operationId: 'restoreDeletedPage',
  summary: 'Take a Landing Page out of the trash',
  description:
    'The page is as it was, with its ids, key, versions, read counts and draft. If it was published, ' +
    'readers get it again.',
  params: IdParams,
  headers: PublishHeaders,
  response: {
    200: response(LandingPage, 'The page', 'ETag', ...RECEIPT)
  }
}
const removePageSchema = {
  operationId: 'removeDeletedPage',
  summary: 'Remove a Landing Page in the trash',
  description: 'The page, its versions and its read counts are gone for good.',
  params: IdParams,
  headers: WriteConditions,
  response: {
    204: nothing('The page is removed')
  }
}

/** The trash: deleted pages, which can be restored for some days. */
export const trashRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, database } = app
  const url = '/manage/deleted_pages'

  app.get(url, { schema: listTrashSchema }, async (request, reply) => {
    const page = sortedPageOf(request.query, 'updated')
    const { rows, next } = await listTrash(database, request.caller.userId, page)
    addNextLink(reply, url, page, next)
    return rows.map((deleted) => deletedRecord(deleted, config.TRASH_DAYS))
  })

  /** Changes the deleted page that a request names. */
  const change = async <Result>(
    request: FastifyRequest,
    write: (read: ReadVersion) => Promise<Result | null>
  ) => await writeOwnPage(request, recordValidators, write, true)

  app.post(`${url}/:id/restore`, { schema: restorePageSchema }, async (request, reply) => {
    const page = await change(request, async (read) => await changeStateAndPublish(request, 'undelete', read))
    // If this fails, the page is restored nevertheless, and a task in the background indexes it.
    await indexPage(database, page.id).catch((error: unknown) => {
      request.log.warn({ err: error }, 'a restored page is not indexed yet')
    })
    return sendRecord(reply, page)
  })

  app.delete(`${url}/:id`, { schema: removePageSchema }, async (request, reply) => {
    await change(request, async (read) => await removeAndPublish(request, true, read))
    return sendWithoutBody(reply.code(204))
  })
}

function deletedRecord (page: ListedPage, days: number) {
  const deletedAt = page.sortedAt as Date
  const purgedAt = new Date(deletedAt.getTime() + days * DAY_MS)
  return { ...recordOf({ ...page, deletedAt, purgedAt }), label: shownLabel(page) }
}
