import { Type } from '@sinclair/typebox'
import { PageQuery } from '../../http/pagination.ts'
import { response, BAD_PAGE, BODY_ERRORS, errors, IdParams, MALFORMED_JSON, NO_PARAMETERS, nothing,
  ReadConditions, WriteConditions } from '../../http/schemas.ts'
import { Document, LandingPage, tags } from './schemas.ts'

const Revision = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  etag: Type.String({ description: "The ETag of the version's document, with its quotes" }),
  byte_size: Type.Integer({ minimum: 2, description: 'Size of the document' }),
  created_at: Type.String({ format: 'date-time', description: 'When the version was written' }),
  author: Type.Object({
    type: Type.Union([Type.Literal('user'), Type.Literal('api_key')]),
    name: Type.String({ description: 'The e-mail of the user, or the name of the key, at that time' })
  }),
  restored_from: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: 'The version that was restored; null if this version is not a restored one'
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

export const listRevisionsSchema = {
  operationId: 'listRevisions',
  tags,
  summary: 'List the versions of a Landing Page, newest first',
  description:
    'Each write that changes the document adds a version. The current version is always kept; the ' +
    'service removes earlier versions when there are too many (`REVISIONS_MAX`, `REVISIONS_DAYS`, ' +
    '`REVISIONS_MAX_BYTES`).',
  params: IdParams,
  querystring: PageQuery,
  response: {
    200: response(Type.Array(Revision), 'The versions, without their documents', 'Link?'),
    ...errors([400, 401, 403, 404, 422, 500, 503], [], BAD_PAGE)
  }
}
export const getRevisionSchema = {
  operationId: 'getRevision',
  tags,
  summary: 'Read the document of a version',
  description: 'Returns the document of the version byte for byte as it was sent.',
  params: RevisionParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The document', 'ETag'),
    304: nothing('The document is the one that the client has', 'ETag'),
    ...errors([400, 401, 403, 404, 412, 422, 500, 503], [], NO_PARAMETERS)
  }
}
export const restoreRevisionSchema = {
  operationId: 'restoreRevision',
  tags,
  summary: 'Restore a version of a Landing Page',
  description:
    'Writes the document of the version as a new version, which readers see immediately. If the current ' +
    'document has the same bytes, nothing changes.',
  params: RevisionParams,
  headers: WriteConditions,
  response: {
    200: response(LandingPage, 'The page, with the restored document', 'ETag'),
    ...errors([...BODY_ERRORS, 401, 403, 404, 412, 422, 500, 503], [], {
      ...MALFORMED_JSON,
      ...NO_PARAMETERS
    })
  }
}
