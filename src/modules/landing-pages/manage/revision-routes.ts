import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { NotFoundError } from '../../../errors.ts'
import { recordOf } from '../../../http/responses.ts'
import { entityTag } from '../../../http/content-encoding.ts'
import { idAsNumber, numberAsId, pageOf, PageQuery, takePage } from '../../../http/pagination.ts'
import { conditionalRead, errors, IdParams, MALFORMED_JSON, PublishHeaders, RECEIPT,
  response } from '../../../http/schemas.ts'
import { recordValidators } from '../etag.ts'
import { findPage } from '../landing-page-repository.ts'
import { findRevision, listRevisions, type Revision, type RevisionDocument } from '../revision-repository.ts'
import { Document, LandingPage } from '../schemas.ts'
import { sendRecord, sendUnlessKnown } from './record.ts'
import { ownPage, replaceDocument } from './write-checks.ts'

export const Author = Type.Object({
  type: Type.Union([Type.Literal('user'), Type.Literal('api_key')]),
  name: Type.String({ description: 'The e-mail of the user, or the name of the key, at that time' })
})

const RevisionRecord = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  etag: Type.String({ description: "The ETag of the version's document, with its quotes" }),
  byte_size: Type.Integer({ minimum: 2, description: 'Size of the document' }),
  created_at: Type.String({ format: 'date-time', description: 'When the version was written' }),
  author: Author,
  restored_from: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: 'The version that was restored; null if this version is not a restored one'
  }),
  published: Type.Boolean({
    description: 'Whether readers got this version. False also for the version that was put into the trash.'
  }),
  scheduled: Type.Boolean({
    description: 'Whether a schedule made this version. Its author is who set the schedule.'
  })
}, { title: 'Revision' })

const RevisionParams = Type.Object({
  ...IdParams.properties,
  version: Type.String({
    pattern: '^[1-9][0-9]{0,17}$',
    description: 'The `version` of the revision',
    examples: ['3']
  })
})

const listRevisionsSchema = {
  operationId: 'listRevisions',
  summary: 'List the versions of a Landing Page, newest first',
  description:
    'Each write that changes the document adds a version, and so does each change between published, ' +
    'unpublished and deleted. The current version is always kept; the ' +
    'service removes earlier versions when there are too many (`REVISIONS_MAX`, `REVISIONS_DAYS`, ' +
    '`REVISIONS_MAX_BYTES`).',
  params: IdParams,
  querystring: PageQuery,
  response: { 200: response(Type.Array(RevisionRecord), 'The versions, without their documents', 'Link?') }
}
const getRevisionSchema = {
  operationId: 'getRevision',
  summary: 'Read the document of a version',
  description: 'Returns the document of the version byte for byte as it was sent.',
  params: RevisionParams,
  ...conditionalRead(Document, 'The document')
}
const restoreRevisionSchema = {
  operationId: 'restoreRevision',
  summary: 'Restore a version of a Landing Page',
  description:
    'Writes the document of the version as a new version, which readers see immediately. If the current ' +
    'document has the same bytes, nothing changes.',
  params: RevisionParams,
  headers: PublishHeaders,
  response: {
    200: response(LandingPage, 'The page, with the restored document', 'ETag', ...RECEIPT),
    ...errors([400], [], { ...MALFORMED_JSON })
  }
}

/** The routes of a page's versions. */
export const revisionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id/revisions'

  app.get(url, { schema: listRevisionsSchema }, async (request, reply) => {
    const { userId, id } = ownPage(request)
    const page = pageOf(request.query)
    const before = idAsNumber(page.before)
    const found = await listRevisions(database, userId, id, { before, limit: page.limit })
    // A page has at least its current version. Only a cursor may leave none.
    if (found.length === 0 && await findPage(database, userId, id) === null) throw new NotFoundError()
    const rows = found.map((revision) => ({ ...revision, id: numberAsId(revision.version) }))
    return takePage(reply, `/manage/landing_pages/${id}/revisions`, page, rows).map(revisionRecord)
  })

  app.get(`${url}/:version`, { schema: getRevisionSchema }, async (request, reply) => {
    const { document, contentHash, createdAt } = await findOwnRevision(request)
    return sendUnlessKnown(request, reply, { etag: entityTag(contentHash), modifiedAt: createdAt }, document)
  })

  app.post(`${url}/:version/restore`, { schema: restoreRevisionSchema }, async (request, reply) => {
    const { document } = await findOwnRevision(request)
    const fields = { restoredFrom: versionOf(request) }
    return sendRecord(reply, await replaceDocument(request, document, recordValidators, fields))
  })
}

/** Returns the path parameter `version`, which the schema has checked. */
const versionOf = ({ params }: FastifyRequest): bigint => BigInt((params as { version: string }).version)

/** Returns the version that a request names. @throws {NotFoundError} 404 */
async function findOwnRevision (request: FastifyRequest): Promise<RevisionDocument> {
  const { userId, id } = ownPage(request)
  const revision = await findRevision(request.server.database, userId, id, versionOf(request))
  if (revision === null) throw new NotFoundError()
  return revision
}

const revisionRecord = (revision: Revision) => ({
  ...recordOf(revision),
  etag: entityTag(revision.contentHash),
  author: { type: revision.authorType, name: revision.authorName }
})
