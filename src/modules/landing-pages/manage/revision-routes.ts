import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { NotFoundError } from '../../../errors.ts'
import { entityTag } from '../../../http/content-encoding.ts'
import { nextLink, numberAsId, idAsNumber, pageOf } from '../../../http/pagination.ts'
import { recordValidators, writeConditions } from '../etag.ts'
import { findPage, replacePage } from '../landing-page-repository.ts'
import { findRevision, listRevisions, type Revision } from '../revision-repository.ts'
import { getRevisionSchema, listRevisionsSchema, restoreRevisionSchema } from '../revision-schemas.ts'
import { sendRecord, sendUnlessKnown } from './record.ts'
import { writeAndPublish } from './write-and-publish.ts'
import { createMismatchError, ownPage } from './write-checks.ts'

/** The routes of a page's versions. */
export const revisionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id/revisions'

  app.get(url, { schema: listRevisionsSchema }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const page = pageOf(request.query)
    const before = page.before === undefined ? undefined : idAsNumber(page.before)
    const { revisions: found, hasMore } = await listRevisions(database, userId, id, {
      before,
      limit: page.limit
    })
    const last = found.at(-1)
    // A page has at least its current version. Only a cursor may leave none.
    if (last === undefined && await findPage(database, userId, id) === null) throw new NotFoundError()
    if (last !== undefined && hasMore) {
      const path = app.publicPath(`/manage/landing_pages/${id}/revisions`)
      reply.header('link', nextLink(path, page, numberAsId(last.version)))
    }
    return found.map(revisionRecord)
  })

  app.get(`${url}/:version`, { schema: getRevisionSchema }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const revision = await findRevision(database, userId, id, versionOf(request))
    if (revision === null) throw new NotFoundError()
    const validators = { etag: entityTag(revision.contentHash), modifiedAt: revision.createdAt }
    return sendUnlessKnown(request, reply, validators, revision.document)
  })

  app.post(`${url}/:version/restore`, { schema: restoreRevisionSchema }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const version = versionOf(request)
    const revision = await findRevision(database, userId, id, version)
    if (revision === null) throw new NotFoundError()
    const conditions = writeConditions(request.headers)
    const page = await writeAndPublish(
      app,
      async () => await replacePage(database, request.caller, id, revision.document, conditions, version)
    )
    if (page === null) throw await createMismatchError(database, request, recordValidators)
    return sendRecord(reply, page)
  })
}

/** Returns the path parameter `version`, which the schema has checked. */
const versionOf = ({ params }: FastifyRequest): bigint => BigInt((params as { version: string }).version)

const revisionRecord = (revision: Revision) => ({
  version: Number(revision.version),
  etag: entityTag(revision.contentHash),
  byte_size: revision.byteSize,
  created_at: revision.createdAt.toISOString(),
  author: { type: revision.authorType, name: revision.authorName },
  restored_from: revision.restoredFrom === null ? null : Number(revision.restoredFrom)
})
