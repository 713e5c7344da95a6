import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type, type Static } from '@sinclair/typebox'
import { InvalidError, NotFoundError } from '../../../errors.ts'
import { recordOf } from '../../../http/responses.ts'
import { errors, IdParams, response } from '../../../http/schemas.ts'
import { parseTime, timeParameter } from '../../../http/time.ts'
import { listReads, STEP_MS, type ReadCountRange } from '../read-count-repository.ts'
import { ownPage } from './write-checks.ts'

const ReadCountsQuery = Type.Object({
  from: timeParameter(
    'The first hour or day is the one that contains this time. Default: as many as make 24 hours or 30 days',
    '2026-11-23'
  ),
  to: timeParameter(
    'Hours or days that begin at this time or later are left out. Default: now',
    '2026-11-24T00:00:00Z'
  ),
  per: Type.Optional(Type.Unsafe<'hour' | 'day'>({
    type: 'string',
    enum: ['hour', 'day'],
    default: 'hour',
    description: 'Whether to count by hour or by day, in UTC. At most 750 hours or days can be read at once.'
  }))
})

const ReadCount = Type.Object({
  at: Type.String({ format: 'date-time', description: 'Start of the hour or day, in UTC' }),
  reads: Type.Integer({
    minimum: 0,
    description:
      'Reads answered with the document (200), by GET or HEAD. All reads are `reads` + `not_modified`.'
  }),
  not_modified: Type.Integer({
    minimum: 0,
    description: "Reads answered with 304, because the reader's copy was current"
  })
}, { title: 'ReadCount' })

const readCountsSchema = {
  operationId: 'listLandingPageReads',
  summary: 'Show how often a Landing Page was read, by hour or day',
  description:
    'Public reads with the status 200 or 304, in ascending order, with zeros where there were none. ' +
    'Without parameters: the last 24 hours. A read is usually counted within ten seconds. Hours are kept ' +
    'for 35 days, days for two years.',
  params: IdParams,
  querystring: ReadCountsQuery,
  response: {
    200: response(Type.Array(ReadCount), 'The read counts, oldest first'),
    ...errors([422], [], { 422: 'From must be before to' })
  }
}

/** Hours or days in a response. */
const MAX_ENTRIES = 750
/** The same without `from`. */
const DEFAULT_ENTRIES = { hour: 24, day: 30 }

/** How often a page is read, for its owner. */
export const readCountRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/manage/landing_pages/:id/reads', { schema: readCountsSchema }, async (request) => {
    const { userId, id } = ownPage(request)
    const range = rangeOf(request.query, Date.now())
    const found = await listReads(app.database, userId, id, range)
    if (found === undefined) throw new NotFoundError()
    return found.map(recordOf)
  })
}

/**
 * Returns the hours or days that a valid query asks for: from the one that contains `from` to the last one
 * that begins before `to`.
 *
 * @throws {InvalidError} 422 if there is none, or there are too many
 */
export function rangeOf (
  { from, to, per = 'hour' }: Static<typeof ReadCountsQuery>,
  now: number
): ReadCountRange {
  const step = STEP_MS[per]
  const floor = (time: number) => Math.floor(time / step) * step
  const end = to === undefined ? now : parseTime(to) as number
  const last = floor(end - 1)
  const start = from === undefined ? last - (DEFAULT_ENTRIES[per] - 1) * step : parseTime(from) as number
  if (start >= end) throw new InvalidError(['From must be before to'])
  const first = floor(start)
  if ((last - first) / step >= MAX_ENTRIES) {
    throw new InvalidError([
      `From and to are too far apart (maximum is ${MAX_ENTRIES} ${per}s)`
    ])
  }
  return { per, first: new Date(first), last: new Date(last) }
}
