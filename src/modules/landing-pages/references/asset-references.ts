import fp from 'fastify-plugin'
import { RetryLaterError } from '../../../errors.ts'
import { OLDEST } from '../../../http/pagination.ts'
import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { runInOneProcess } from '../../../infra/postgres/shared-work.ts'
import { SingleFlight } from '../../../infra/system/single-flight.ts'
import { findKnownReferences, findUnindexedPages, indexPage,
  type AssetReferences } from './reference-repository.ts'

// Pages that an older release wrote don't say which assets they reference. A request that needs to know
// indexes the pages of its user, and a task in the background indexes all.

declare module 'fastify' {
  interface FastifyInstance {
    findReferences: ReturnType<typeof createReferenceFinder>
  }
}

/** How long a request looks at documents, in milliseconds. */
const MAX_SEARCH_MS = 3_000
const HOUR_MS = 60 * 60 * 1000
/** A start has more urgent work. */
const FIRST_AFTER_MS = 60 * 1000

/**
 * Creates the function that finds the pages of a user that use an asset. It throws a RetryLaterError (503) if
 * too many documents of an older release have to be searched; the next request goes on where it stopped.
 */
export function createReferenceFinder (database: Database, maxSearchMs = MAX_SEARCH_MS) {
  /** Requests for one account share a search. */
  const searches = new SingleFlight<number>()

  return async (userId: number, assetId: string): Promise<AssetReferences> => {
    const known = await findKnownReferences(database, userId, assetId)
    if (known !== undefined) return known
    const signal = AbortSignal.timeout(maxSearchMs)
    await searches.run(String(userId), async () => await indexPages(database, { userId, signal }))
    return await findReferencesNow(database, userId, assetId)
  }
}

/**
 * Finds the pages of a user that use an asset, without a search.
 *
 * @throws {RetryLaterError} 503 if documents of an older release have to be searched first
 */
export async function findReferencesNow (
  database: Transaction,
  userId: number,
  assetId: string
): Promise<AssetReferences> {
  const found = await findKnownReferences(database, userId, assetId)
  if (found !== undefined) return found
  throw new RetryLaterError(503, 'The pages are still being searched for the file, try again shortly', 2)
}

interface SearchOptions {
  /** Only pages of this user. */
  readonly userId?: number
  /** Stops between two pages. */
  readonly signal?: AbortSignal
}

/**
 * Indexes the documents of pages that an older release wrote.
 *
 * @returns the number of pages that are indexed now
 */
export async function indexPages (
  database: Database,
  { userId, signal }: SearchOptions = {}
): Promise<number> {
  let sum = 0
  for (let after: string | undefined = OLDEST; after !== undefined;) {
    const pages: string[] = await findUnindexedPages(database, after, userId)
    for (const page of pages) {
      if (signal?.aborted === true) return sum
      if (await indexPage(database, page)) sum++
    }
    after = pages.at(-1)
  }
  return sum
}

/** Indexes documents of older releases every hour, in one process. */
export default fp(async (app) => {
  app.decorate('findReferences', createReferenceFinder(app.database))
  const times = { intervalMs: HOUR_MS, extraAfterMs: FIRST_AFTER_MS }
  runInOneProcess(app, { name: 'index_pages', ...times }, async (signal) => {
    const pages = await indexPages(app.database, { signal })
    if (pages > 0) app.log.info({ pages }, 'indexed documents of an older release')
  })
}, { name: 'asset-references', dependencies: ['database'] })
