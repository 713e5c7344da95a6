import { Type } from '@sinclair/typebox'
import { PageQuery } from '../pagination.ts'
import { answer, BAD_PAGE, bearer, BODY_ERRORS, errors, IdParams, NO_JSON, nothing, type AnswerHeader } from '../schemas.ts'

const DOCUMENT = { title: 'Hello', price: 1 }
const PUBLIC_ID = '4nJ8sQzR2bXw7kLmT0yHcV'

const Document = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
  title: 'Document',
  description: 'Any JSON object or array of at most 1 MiB (unless the service is set otherwise) and 100 levels, kept byte for byte as it was sent',
  examples: [DOCUMENT]
})

const LandingPage = Type.Object({
  id: Type.String({ format: 'uuid', description: "For its owner's routes" }),
  public_id: Type.String({ pattern: '^[0-9A-Za-z]{22}$', description: 'For the public read; it can not be guessed', examples: [PUBLIC_ID] }),
  current_data: Document,
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' })
}, { title: 'LandingPage' })

const LandingPageInput = Type.Object({ current_data: Document }, { title: 'LandingPageInput' })
const LandingPageUpdate = Type.Partial(LandingPageInput, { title: 'LandingPageUpdate', description: 'Without current_data nothing changes' })
const EXAMPLE = { examples: [{ current_data: DOCUMENT }] }
const WRAPPED = 'The same inside of a `landing_page` object is taken, too.'

const IfMatch = Type.Object({ 'if-match': Type.Optional(Type.String({ description: 'Write only if the document still has one of these ETags' })) })
const IfNoneMatch = Type.Object({ 'if-none-match': Type.Optional(Type.String({ description: 'Answer 304 if the document still has one of these ETags' })) })
const PublicParams = Type.Object({ public_id: Type.String({ description: 'The `public_id` of the page', examples: [PUBLIC_ID] }) })

/** Of every public answer, and what the rate limit says unless the request was refused before it was counted. */
const CORS: readonly AnswerHeader[] = ['Access-Control-Allow-Origin', 'Access-Control-Expose-Headers']
const COUNTED: readonly AnswerHeader[] = [...CORS, 'RateLimit', 'RateLimit-Policy']
const READ: readonly AnswerHeader[] = [...COUNTED, 'ETag', 'Last-Modified', 'Vary', 'Cache-Status', 'Age?']

const tags = ['Landing Pages']

// The answers of these routes hold a document's own bytes, so the routes write them as text; the schemas describe them.

export const createSchema = {
  operationId: 'createLandingPage',
  tags,
  summary: 'Create a Landing Page',
  description: WRAPPED,
  security: bearer,
  body: Type.Union([LandingPageInput, Type.Object({ landing_page: LandingPageInput })], EXAMPLE),
  response: { 201: answer(LandingPage, 'The page', 'ETag'), ...errors([...BODY_ERRORS, 401, 422, 500, 503], [], NO_JSON) }
}
export const listSchema = {
  operationId: 'listLandingPages',
  tags,
  summary: "List the caller's Landing Pages, newest first",
  description: 'An answer may hold fewer than `limit` records while there is more, because it ends early when documents are large; the `Link` header leads on.',
  security: bearer,
  querystring: PageQuery,
  response: { 200: answer(Type.Array(LandingPage), 'The pages', 'Link?'), ...errors([400, 401, 422, 500, 503], [], BAD_PAGE) }
}
export const getSchema = {
  operationId: 'getLandingPage',
  tags,
  summary: "Read one of the caller's Landing Pages",
  security: bearer,
  params: IdParams,
  headers: IfNoneMatch,
  response: { 200: answer(LandingPage, 'The page', 'ETag'), 304: nothing('The document has not changed', 'ETag'), ...errors([400, 401, 404, 500, 503]) }
}
export const updateSchema = {
  operationId: 'updateLandingPage',
  tags,
  summary: 'Replace the document of a Landing Page',
  description: `The whole document is replaced, and readers see it at once. Without \`current_data\` nothing changes, and the answer is the page as it is. ${WRAPPED}`,
  security: bearer,
  params: IdParams,
  headers: IfMatch,
  body: Type.Union([LandingPageUpdate, Type.Object({ landing_page: LandingPageUpdate })], EXAMPLE),
  response: { 200: answer(LandingPage, 'The page as it is now', 'ETag'), ...errors([...BODY_ERRORS, 401, 404, 412, 422, 500, 503], [], { ...NO_JSON, 422: 'Current data must be a JSON object or array' }) }
}
export const deleteSchema = {
  operationId: 'deleteLandingPage',
  tags,
  summary: 'Delete a Landing Page',
  security: bearer,
  params: IdParams,
  headers: IfMatch,
  response: { 204: nothing('Gone, for its readers, too'), ...errors([...BODY_ERRORS, 401, 404, 412, 500, 503]) }
}
export const publicReadSchema = {
  operationId: 'readDocument',
  tags: ['Public'],
  summary: 'Read the document of a Landing Page',
  description: 'The bytes that were sent, for everybody. One client address has 30 reads in a minute, from an allowed host 1,000 (unless the service is set otherwise); every answer says what is left, and 404 and 304 count like all others. With several processes `r` may be less than what is really left.',
  params: PublicParams,
  headers: IfNoneMatch,
  response: {
    200: answer(Document, 'The document', ...READ, 'Content-Encoding?'),
    304: nothing('The document has not changed', ...READ),
    ...errors([404, 429, 503], COUNTED),
    ...errors([500], [...CORS, 'RateLimit?', 'RateLimit-Policy?']),
    ...errors([400], CORS)
  }
}
export const preflightSchema = {
  operationId: 'askForDocument',
  tags: ['Public'],
  summary: 'The CORS preflight of browsers: pages of every origin may read',
  params: PublicParams,
  response: {
    204: nothing('They may', ...CORS, 'Access-Control-Allow-Methods', 'Access-Control-Allow-Headers', 'Access-Control-Max-Age', 'Vary', 'Cache-Control?'),
    ...errors([400, 413, 415], CORS, NO_JSON)
  }
}
