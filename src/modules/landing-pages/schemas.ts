import { Type } from '@sinclair/typebox'
import { CACHE_TAGS, conditionalRead, errors, IdParams, MALFORMED_JSON, NOTHING_MATCHES, nothing,
  PublishHeaders, ReadConditions, RECEIPT, response, TagConditions,
  type ResponseHeader } from '../../http/schemas.ts'
import { sortedQuery } from '../../http/pagination.ts'
import { timeParameter } from '../../http/time.ts'
import { PAGE_KEY, PAGE_KEY_RULE } from '../../infra/system/identifiers.ts'
import { PAGE_SORTS } from './list-repository.ts'

/** An example. */
export const DOCUMENT = { title: 'Hello', price: 1 }
const PUBLIC_ID = '4nJ8sQzR2bXw7kLmT0yHcV'

export const Document = Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Array(Type.Unknown())], {
  title: 'Document',
  description:
    'A JSON object or array, by default of at most 1 MiB, nested at most 100 levels deep. The service ' +
    'stores it byte for byte as it was sent.',
  examples: [DOCUMENT]
})

const KEY_EXAMPLE = 'summer-sale'
export const KeyParams = Type.Object({
  key: Type.String({
    pattern: PAGE_KEY.source,
    description: 'The `key` of the page',
    examples: [KEY_EXAMPLE]
  })
})
const PageKey = Type.Unsafe<string | null>({
  type: ['string', 'null'],
  check: (key: string) => PAGE_KEY.test(key) ? [] : [PAGE_KEY_RULE],
  description:
    `A name of the page in your own system, unique in the account; null for none. It ${PAGE_KEY_RULE}. ` +
    'Readers never see it.',
  examples: [KEY_EXAMPLE]
})

export const LandingPage = Type.Object({
  id: Type.String({ format: 'uuid', description: "Identifies the page in the owner's routes" }),
  public_id: Type.String({
    pattern: '^[0-9A-Za-z]{22}$',
    description: 'Identifies the page in the public read. It cannot be guessed.',
    examples: [PUBLIC_ID]
  }),
  current_data: Document,
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
  version: Type.Integer({ minimum: 1, description: 'Grows by one with each change of the page' }),
  published: Type.Boolean({ description: 'Whether readers get the document. If not, they get a 404.' }),
  key: PageKey
}, { title: 'LandingPage' })

const key = Type.Optional(PageKey)
const LandingPageInput = Type.Object({ current_data: Document, key }, { title: 'LandingPageInput' })
const fields = {
  published: Type
    .Optional(Type.Boolean({ description: 'Whether readers get the document; true by default' })),
  key
}
const NewLandingPage = Type.Object({ current_data: Document, ...fields }, { title: 'NewLandingPage' })
const OnlyKey = Type.Object({ key: PageKey }, {
  not: { anyOf: [{ required: ['current_data'] }, { required: ['landing_page'] }] }
})
/** An object with other fields is refused, so that nobody believes that they were saved. */
const NoFields = Type.Object({}, { maxProperties: 0 })
const LandingPageUpdate = Type.Union([LandingPageInput, OnlyKey, NoFields], {
  title: 'LandingPageUpdate',
  description: 'An empty object changes nothing'
})
/** `landing_page` is used only if the body has no `current_data` of its own. */
const ALONE = { not: { required: ['current_data'] } }
const CreateBody = Type.Union([
  NewLandingPage,
  Type.Object({ landing_page: NewLandingPage, ...fields }, ALONE)
])
const UpdateBody = Type.Union([
  LandingPageInput,
  Type.Object({ landing_page: LandingPageUpdate, key }, ALONE),
  OnlyKey,
  NoFields
])
const EXAMPLE = { examples: [{ current_data: DOCUMENT }] }
const WRAPPED = 'The body may also wrap these fields in a `landing_page` object.'

export const PublicParams = Type.Object({
  public_id: Type.String({ description: 'The `public_id` of the page', examples: [PUBLIC_ID] })
})

export const CORS: readonly ResponseHeader[] = [
  'Access-Control-Allow-Origin',
  'Access-Control-Expose-Headers'
]
/** Headers of responses to requests that the rate limit has counted. */
const COUNTED: readonly ResponseHeader[] = [...CORS, 'RateLimit', 'RateLimit-Policy']
const READ: readonly ResponseHeader[] = [...COUNTED, 'ETag', 'Last-Modified?', 'Vary', 'Cache-Status', 'Age?']

// The response schemas are only documentation: routes write text (docs/adr/0003-documents-as-text.md).

export const createSchema = {
  operationId: 'createLandingPage',
  summary: 'Create a Landing Page',
  description: WRAPPED,
  headers: Type.Object({ ...TagConditions.properties, prefer: PublishHeaders.properties.prefer }),
  body: { ...CreateBody, ...EXAMPLE },
  response: {
    201: response(LandingPage, 'The page', 'ETag', 'Location', ...RECEIPT),
    ...errors([412], [], NOTHING_MATCHES)
  }
}
export const PageListQuery = sortedQuery('the label, the `key` or the `public_id`', PAGE_SORTS)

export const ChangesQuery = Type.Object({
  ...PageListQuery.properties,
  updated_since: timeParameter(
    'Include only pages whose `updated_at` is not before this time, the oldest change first. Not with `sort`',
    '2026-11-26T08:00:00.000Z'
  )
})

/** The trash has one order. */
const { limit, cursor } = PageListQuery.properties
export const TrashQuery = Type.Object({ limit, cursor })

export const listSchema = {
  operationId: 'listLandingPages',
  summary: "List the caller's Landing Pages",
  description:
    'If the documents are large, a response may have fewer than `limit` records even though there are ' +
    'more. The `Link` header contains the URL of the next records. The `ETag` is that of this part of the ' +
    'list. To learn what has changed, pass as `updated_since` the latest `updated_at` that you know, minus ' +
    '10 seconds.',
  querystring: ChangesQuery,
  headers: ReadConditions,
  response: {
    200: response(Type.Array(LandingPage), 'The pages', 'ETag', 'Link?'),
    304: nothing('The list is the one that the client has', 'ETag', 'Link?')
  }
}
export const getSchema = {
  operationId: 'getLandingPage',
  summary: "Read one of the caller's Landing Pages",
  description:
    'The `ETag` of the response names this version of the page, for `If-Match` and `If-None-Match`.',
  params: IdParams,
  ...conditionalRead(LandingPage, 'The page')
}
export const updateSchema = {
  operationId: 'updateLandingPage',
  summary: 'Replace the document or the key of a Landing Page',
  description:
    'Replaces the whole document. Readers see the new document immediately. Another `key` changes ' +
    '`updated_at` and the ETag of the record, but makes no version. An empty object changes ' +
    `nothing, and the response is the current page. ${WRAPPED}`,
  params: IdParams,
  headers: PublishHeaders,
  body: { ...UpdateBody, ...EXAMPLE },
  response: {
    200: response(LandingPage, 'The current page', 'ETag', ...RECEIPT),
    ...errors([422], [], { 422: 'Current data must be a JSON object or array' })
  }
}
export const deleteSchema = {
  operationId: 'deleteLandingPage',
  summary: 'Delete a Landing Page',
  description:
    'Readers get a 404 immediately. The page goes to the trash, from which it can be restored for some ' +
    'days (`TRASH_DAYS`, by default 30; with 0, it is removed at once).',
  params: IdParams,
  headers: PublishHeaders,
  response: {
    204: nothing('The page is in the trash, or removed, and public reads of it return 404', ...RECEIPT)
  }
}
export const publicReadSchema = {
  operationId: 'readDocument',
  tags: ['Public'],
  summary: 'Read the document of a Landing Page',
  description:
    'Returns the document byte for byte as it was sent. By default, a client address may read 30 times a ' +
    'minute, or 1,000 times from an allowed host. Reads with the status 304 or 404 count, too. The ' +
    '`RateLimit` header contains the number of reads left; if the service has several processes, the ' +
    'real number may be higher.',
  params: PublicParams,
  headers: ReadConditions,
  response: {
    200: response(Document, 'The document', ...READ, ...CACHE_TAGS, 'Content-Encoding?'),
    304: nothing('The document has not changed', ...READ, ...CACHE_TAGS),
    ...errors([412], [...COUNTED, ...CACHE_TAGS]),
    ...errors([404, 429, 503], COUNTED),
    ...errors([500], [...CORS, 'RateLimit?', 'RateLimit-Policy?']),
    ...errors([400], CORS)
  }
}
export const preflightSchema = {
  operationId: 'askForDocument',
  tags: ['Public'],
  summary: 'Respond to the CORS preflight of a document',
  description: 'Scripts of any origin may read documents.',
  params: PublicParams,
  response: {
    204: nothing(
      'The read is allowed',
      ...CORS,
      'Access-Control-Allow-Methods',
      'Access-Control-Allow-Headers',
      'Access-Control-Max-Age',
      'Allow',
      'Vary',
      'Cache-Control?'
    ),
    ...errors([400, 413, 415], CORS, MALFORMED_JSON)
  }
}
