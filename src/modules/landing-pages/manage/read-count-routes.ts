import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import { InvalidError, NotFoundError } from '../../../errors.ts'
import { parseTime } from '../../../http/time.ts'
import { listReads, STEP_MS, type ReadCountRange } from '../read-count-repository.ts'
import { readCountsSchema, type ReadCountsQuery } from '../read-count-schemas.ts'
import { ownPage } from './write-checks.ts'

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
    return found.map(({ at, reads, notModified }) => ({
      at: at.toISOString(),
      reads: Number(reads),
      not_modified: Number(notModified)
    }))
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
