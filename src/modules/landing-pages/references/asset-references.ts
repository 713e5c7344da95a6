import fp from 'fastify-plugin'
import { RetryLaterError } from '../../../errors.ts'
import { OLDEST } from '../../../http/pagination.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { runInOneProcess } from '../../../infra/postgres/shared-work.ts'
import { SingleFlight } from '../../../infra/system/single-flight.ts'
import { findKnownReferences, findUnindexedPages, indexPage,
  type AssetReferences } from './reference-repository.ts'

// Pages that an older release wrote don't say which assets they reference. A request that needs to know
// indexes the pages of its user, and a task in the background indexes all.

declare module 'fastify' {
  interface FastifyInstance {
    assetReferences: ReferenceFinder
  }
}

/** How long a request looks at documents, in milliseconds. */
const MAX_SEARCH_MS = 3_000
/** Searches after which a request gives up, because pages were being written, or an older release wrote. */
const MAX_ATTEMPTS = 5
const HOUR_MS = 60 * 60 * 1000
/** A start has more urgent work. */
const FIRST_AFTER_MS = 60 * 1000

/** Finds the pages that use an asset. */
export class ReferenceFinder {
  readonly #database: Database
  readonly #maxSearchMs: number
  /** Requests for one account share a search. It may have begun before them, so find() checks the result. */
  readonly #searches = new SingleFlight<boolean>()

  constructor (database: Database, maxSearchMs = MAX_SEARCH_MS) {
    this.#database = database
    this.#maxSearchMs = maxSearchMs
  }

  /**
   * Finds the pages of a user that use an asset.
   *
   * @throws {RetryLaterError} 503 if too many documents of an older release have to be searched. The next
   *   request goes on where this one stopped.
   */
  async find (userId: number, assetId: string): Promise<AssetReferences> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const references = await findKnownReferences(this.#database, userId, assetId)
      if (references !== undefined) return references
      const isDone = await this.#searches.run(String(userId), async () => await this.#search(userId))
      if (!isDone) break
    }
    throw new RetryLaterError(503, 'The pages are still being searched for the file, try again shortly', 2)
  }

  /** @returns whether all pages have been searched in time */
  async #search (userId: number): Promise<boolean> {
    const timeout = AbortSignal.timeout(this.#maxSearchMs)
    await indexPages(this.#database, { userId, signal: timeout })
    return !timeout.aborted
  }
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
  app.decorate('assetReferences', new ReferenceFinder(app.database))
  const times = { intervalMs: HOUR_MS, extraAfterMs: FIRST_AFTER_MS }
  runInOneProcess(app, { name: 'index_pages', ...times }, async (signal) => {
    const pages = await indexPages(app.database, { signal })
    if (pages > 0) app.log.info({ pages }, 'indexed documents of an older release')
  })
}, { name: 'asset-references', dependencies: ['database'] })
