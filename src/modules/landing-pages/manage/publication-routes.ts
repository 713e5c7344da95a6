import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { ConflictError } from '../../../errors.ts'
import { checkPreconditions, hasConditions } from '../../../http/conditional-requests.ts'
import { recordOf } from '../../../http/responses.ts'
import { entityTag } from '../../../http/content-encoding.ts'
import { errors, IdParams, nullableTime, PublishHeaders, RECEIPT, response } from '../../../http/schemas.ts'
import { findDraft, isOutdated, type Draft } from '../draft-repository.ts'
import { draftValidators, recordValidators } from '../etag.ts'
import type { LandingPage as Page } from '../landing-page-repository.ts'
import { findPurge } from '../outbox-repository.ts'
import { clearTime, findSchedule } from '../schedule-repository.ts'
import { LandingPage } from '../schemas.ts'
import { sendRecord } from './record.ts'
import { Author } from './revision-routes.ts'
import { Schedule } from './schedule-routes.ts'
import { allowNoBody, changeStateAndPublish, findOwnPage, findOwnPageAndDraft, keepUnchanged,
  replaceAndPublish, untilWritten } from './write-checks.ts'

const PublishBody = Type.Object({
  base_version: Type.Optional(Type.Integer({
    minimum: 1,
    description:
      'The current version of the page: publish the draft although the document has changed since ' +
      'it was begun'
  }))
}, { title: 'Publish' })

const publishSchema = {
  operationId: 'publishLandingPage',
  summary: 'Publish the draft of a Landing Page, or the page itself',
  description:
    'The draft becomes the document, as a new version, and readers get it immediately. `If-Match` names ' +
    'the draft, so that what was read is what is published. Without a draft, an unpublished page is ' +
    'published as it is, and `If-Match` names the page. If the document has changed since the draft was ' +
    'begun, the response is a 409, unless `base_version` names the current version. `publish_at` of the ' +
    'schedule is removed.',
  params: IdParams,
  headers: PublishHeaders,
  body: { ...PublishBody, examples: [{ base_version: 5 }] },
  response: {
    200: response(LandingPage, 'The published page', 'ETag', ...RECEIPT),
    ...errors([409], [], {
      409:
        'The document has changed since the draft was begun: the draft is based on version 3, the current ' +
        'version is 5'
    })
  }
}
const unpublishSchema = {
  operationId: 'unpublishLandingPage',
  summary: 'Unpublish a Landing Page',
  description:
    'Readers get the 404 of an unknown page until it is published again. Its document can still be ' +
    'written. An unpublished page stays as it is. `unpublish_at` of its schedule is removed.',
  params: IdParams,
  headers: PublishHeaders,
  response: {
    200: response(LandingPage, 'The unpublished page', 'ETag', ...RECEIPT)
  }
}

const Publication = Type.Object({
  published: LandingPage.properties.published,
  version: LandingPage.properties.version,
  draft: Type.Union([
    Type.Object({
      etag: Type.String({ description: 'The ETag of the draft, with its quotes' }),
      byte_size: Type.Integer({ minimum: 2, description: 'Size of the draft' }),
      base_version: Type.Integer({ minimum: 1, description: 'The version when the draft was begun' }),
      outdated: Type.Boolean({ description: 'Whether the document has changed since then' }),
      created_at: Type.String({ format: 'date-time' }),
      updated_at: Type.String({ format: 'date-time' }),
      author: Author
    }),
    Type.Null()
  ], { description: 'The draft; null without one' }),
  cdn: Type.Union([
    Type.Object({
      state: Type.Union([Type.Literal('waiting'), Type.Literal('purged'), Type.Literal('failed')], {
        description: '`failed` after three days of attempts'
      }),
      version: Type.Integer({ minimum: 1, description: 'The version that readers got, or no longer get' }),
      at: nullableTime('When the CDN was purged, or the last attempt failed; null while the purge waits')
    }),
    Type.Null()
  ], {
    description:
      'Whether the CDN was told of the last change. Null if the service purges no CDN, or if the last ' +
      'change is older than 30 days.'
  }),
  ...Schedule.properties,
  failure: Type.Union([
    Type.Object({ at: Type.String({ format: 'date-time' }), reason: Type.String() }),
    Type.Null()
  ], {
    description: 'Why the last scheduled publication failed. Always null: none can fail in this release.'
  })
}, { title: 'Publication' })

const publicationSchema = {
  operationId: 'getPublication',
  summary: 'Show whether a Landing Page is published, and what its draft is',
  description: 'What the record does not show, because a draft does not change it.',
  params: IdParams,
  response: {
    200: response(Publication, 'The state of the page')
  }
}

/** Publishing and unpublishing. */
export const publicationRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id'

  app.get(`${url}/publication`, { schema: publicationSchema }, async (request) => {
    const { page, draft } = await findOwnPageAndDraft(request)
    const purge = database.purges ? await findPurge(database, page.id) : null
    return {
      published: page.published,
      version: Number(page.version),
      draft: draft && draftRecord(draft, await isOutdated(database, page, draft)),
      cdn: purge && recordOf(purge),
      ...recordOf(await findSchedule(database, page.id)),
      failure: null
    }
  })

  app.post(`${url}/publish`, {
    schema: publishSchema,
    preValidation: allowNoBody
  }, async (request, reply) => {
    const { base_version: knownVersion } = request.body
    const page = await untilWritten(request, async () => {
      const { page, draft } = await findOwnPageAndDraft(request)
      checkBaseVersion(page, knownVersion)
      return draft === null ? await setPublished(request, page, true)
        : await publish(request, page, draft, knownVersion)
    })
    return sendRecord(reply, page)
  })

  app.post(`${url}/unpublish`, { schema: unpublishSchema }, async (request, reply) => {
    const page = await untilWritten(
      request,
      async () => await setPublished(request, await findOwnPage(request), false)
    )
    return sendRecord(reply, page)
  })
}

/** Publishes or unpublishes a page that was read. Returns null if somebody else has written. */
async function setPublished (request: FastifyRequest, page: Page, published: boolean): Promise<Page | null> {
  checkPreconditions(request, recordValidators(page))
  if (page.published === published) {
    await clearTime(request.server.database, page.id, published)
    return keepUnchanged(request, page)
  }
  const read = hasConditions(request.headers) ? page : null
  return await changeStateAndPublish(request, published ? 'publish' : 'unpublish', read)
}

/** @throws {ConflictError} 409 if the caller doesn't know the current version */
function checkBaseVersion ({ version }: Page, knownVersion: number | undefined): void {
  if (knownVersion === undefined || BigInt(knownVersion) === version) return
  throw new ConflictError([`The current version is ${version}, not ${knownVersion}`])
}

/**
 * Publishes a draft that was read. Returns null if somebody else has written.
 *
 * @param knownVersion the version that the caller knows, although the draft is not based on it
 */
async function publish (
  request: FastifyRequest,
  page: Page,
  draft: Draft,
  knownVersion: number | undefined
): Promise<Page | null> {
  const { database } = request.server
  checkPreconditions(request, draftValidators(draft))
  if (knownVersion === undefined && await isOutdated(database, page, draft)) {
    // Unless the draft was published meanwhile.
    if ((await findDraft(database, page.id))?.contentHash !== draft.contentHash) return null
    throw new ConflictError([
      `The document has changed since the draft was begun: the draft is based on version ${draft.baseVersion}, ` +
      `the current version is ${page.version}`
    ])
  }
  return await replaceAndPublish(request, page.id, draft.document, page, { isDraft: true })
}

const draftRecord = (draft: Draft, outdated: boolean) => ({
  ...recordOf(draft),
  etag: entityTag(draft.contentHash),
  byte_size: Buffer.byteLength(draft.document),
  outdated,
  author: { type: draft.authorType, name: draft.authorName }
})
