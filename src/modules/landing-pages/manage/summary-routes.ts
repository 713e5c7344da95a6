import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { KeyedSemaphore } from '../../../infra/system/keyed-semaphore.ts'
import { yieldToEventLoop } from '../../../infra/system/event-loop.ts'
import { pageOf, takePage } from '../../../http/pagination.ts'
import { listSummaries, type Hours, type PageSummary } from '../list-repository.ts'
import { HOURS, listSummariesSchema } from '../summary-schemas.ts'
import { findLabel } from '../label.ts'

const HOUR_MS = 60 * 60 * 1000
/** Characters that are searched for labels in one turn of the event loop. */
const SLICE_LENGTH = 32 * 1024

/** An owner's pages without their documents. `lists` are the lists that are being read, by owner. */
export const summaryRoutes: FastifyPluginAsyncTypebox<{ lists: KeyedSemaphore<number> }> = async (
  app,
  { lists }
) => {
  const path = '/manage/landing_page_summaries'
  app.get(path, { schema: listSummariesSchema }, async (request, reply) => {
    const { userId } = request.caller
    const page = pageOf(request.query)
    const hours = hoursUntil(Date.now())
    return await lists.run(userId, async () => {
      const found = await listSummaries(app.database, userId, page, hours)
      const records = []
      let searched = 0
      for (const summary of takePage(reply, path, page, found)) {
        records.push(summaryRecord(summary))
        searched += summary.start.length
        if (searched < SLICE_LENGTH) continue
        searched = 0
        await yieldToEventLoop()
      }
      return records
    })
  })
}

/** The last hours, with the current one. */
function hoursUntil (now: number): Hours {
  const last = Math.floor(now / HOUR_MS) * HOUR_MS
  return { first: new Date(last - (HOURS - 1) * HOUR_MS), last: new Date(last) }
}

function summaryRecord (summary: PageSummary) {
  return {
    id: summary.id,
    public_id: summary.publicId,
    label: findLabel(summary.start),
    byte_size: summary.byteSize,
    version: Number(summary.version),
    created_at: summary.createdAt.toISOString(),
    updated_at: summary.updatedAt.toISOString(),
    reads: [...summary.reads]
  }
}
