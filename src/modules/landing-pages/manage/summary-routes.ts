import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import type { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { recordOf } from '../../../http/responses.ts'
import { response } from '../../../http/schemas.ts'
import { addNextLink, sortedPageOf } from '../../../http/pagination.ts'
import { runInTurn } from '../../accounts/index.ts'
import { listSummaries, type Hours, type PageSummary } from '../list-repository.ts'
import { labelOf, MAX_LABEL_LENGTH, START_LENGTH } from '../label.ts'
import { LandingPage, PageListQuery } from '../schemas.ts'
import { Schedule } from './schedule-routes.ts'

/** Hours whose reads are listed. */
const HOURS = 24

const { id, public_id: publicId, key, version, published, created_at: createdAt, updated_at: updatedAt } =
  LandingPage.properties

export const PageLabel = Type.Union(
  [Type.String({ minLength: 1, maxLength: MAX_LABEL_LENGTH }), Type.Null()],
  {
    description: `The string in the document's own \`title\`, else \`name\`, else \`headline\`, cut to ` +
      `${MAX_LABEL_LENGTH} characters. Null if there is none, or if it is blank, or if it lies behind ` +
      `the first ${START_LENGTH} characters of the document.`,
    examples: ['Hello']
  }
)

const LandingPageSummary = Type.Object({
  id,
  public_id: publicId,
  key,
  label: PageLabel,
  byte_size: Type.Integer({ minimum: 2, description: 'Size of the document' }),
  version,
  published,
  has_draft: Type.Boolean({ description: 'Whether the page has a draft' }),
  ...Schedule.properties,
  created_at: createdAt,
  updated_at: updatedAt,
  reads: Type.Array(Type.Integer({ minimum: 0 }), {
    minItems: HOURS,
    maxItems: HOURS,
    description:
      `How often the page was read (200 and 304 together) in each of the last ${HOURS} hours (UTC), ` +
      'oldest first. The last one is the current hour.'
  })
}, { title: 'LandingPageSummary' })

const listSummariesSchema = {
  operationId: 'listLandingPageSummaries',
  summary: "List the caller's Landing Pages without their documents",
  description:
    'For an overview of many pages: what each is called, how large it is and how often it is read.',
  querystring: PageListQuery,
  response: { 200: response(Type.Array(LandingPageSummary), 'The pages', 'Link?') }
}

const HOUR_MS = 60 * 60 * 1000

/** An owner's pages without their documents. `lists` are the lists that are being read, by owner. */
export const summaryRoutes: FastifyPluginAsyncTypebox<{ lists: KeyedSemaphore<number> }> = async (
  app,
  { lists }
) => {
  const path = '/manage/landing_page_summaries'
  app.get(path, { schema: listSummariesSchema }, async (request, reply) => {
    const { userId } = request.caller
    const page = sortedPageOf(request.query)
    const hours = hoursUntil(Date.now())
    return await runInTurn(lists, request, async () => {
      const { pages, next } = await listSummaries(app.database, userId, page, hours)
      addNextLink(reply, path, page, next)
      return pages.map(summaryRecord)
    })
  })
}

/** The last hours, with the current one. */
function hoursUntil (now: number): Hours {
  const last = Math.floor(now / HOUR_MS) * HOUR_MS
  return { first: new Date(last - (HOURS - 1) * HOUR_MS), last: new Date(last) }
}

/** Returns the stored label, or else looks for it in the document. */
export const shownLabel = ({ start, label }: Pick<PageSummary, 'start' | 'label'>): string | null =>
  start === null ? label : labelOf(start)

const summaryRecord = (summary: PageSummary) => ({
  ...recordOf(summary),
  label: shownLabel(summary),
  reads: [...summary.reads]
})
