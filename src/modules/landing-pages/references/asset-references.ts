import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../../../errors.ts'
import { OLDEST } from '../../../http/pagination.ts'
import type { PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { runPeriodically } from '../../../infra/system/periodic-task.ts'
import { SingleFlight } from '../../../infra/system/single-flight.ts'
import { storeReferences, findKnownReferences, findUnknownPages,
  type AssetReferences } from './reference-repository.ts'

// Pages that an older release wrote don't say which assets they reference. A request that needs to know
// searches the pages of its user, and a task in the background searches all.

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
const LOG_EVERY_MS = 10 * 1000

/** Finds the pages that use an asset. */
export class ReferenceFinder {
  readonly #database: PrismaClient
  readonly #maxSearchMs: number
  /** Requests for one account share a search. It may have begun before them, so find() checks the result. */
  readonly #searches = new SingleFlight<boolean>()

  constructor (database: PrismaClient, maxSearchMs = MAX_SEARCH_MS) {
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
    await storeUnknownReferences(this.#database, { userId, signal: timeout })
    return !timeout.aborted
  }
}

interface SearchOptions {
  /** Only pages of this user. */
  readonly userId?: number
  /** Stops between two pages. */
  readonly signal?: AbortSignal
  /** Called after each batch with the number of pages so far. */
  readonly onProgress?: (pages: number) => void
}

/**
 * Searches the documents of pages whose references are unknown.
 *
 * @returns the number of pages whose references are known now
 */
export async function storeUnknownReferences (
  database: PrismaClient,
  { userId, signal, onProgress }: SearchOptions = {}
): Promise<number> {
  let sum = 0
  for (let after: string | undefined = OLDEST; after !== undefined;) {
    const { pages, next } = await findUnknownPages(database, after, userId)
    for (const page of pages) {
      if (signal?.aborted === true) return sum
      if (await storeReferences(database, page)) sum++
    }
    onProgress?.(sum)
    if (signal?.aborted === true) return sum
    after = next
  }
  return sum
}

async function searchAndLog (
  { database, log }: FastifyInstance,
  signal: AbortSignal
): Promise<void> {
  try {
    const pages = await storeUnknownReferences(database, { signal, onProgress: progressLogger(log) })
    if (pages > 0) log.info({ pages }, 'searched documents of an older release for assets')
  } catch (error) {
    log.warn({ err: error }, 'documents could not be searched for assets; trying again in an hour')
  }
}

function progressLogger (log: FastifyBaseLogger): (pages: number) => void {
  let loggedAt = Date.now()
  return (pages) => {
    if (pages === 0 || Date.now() - loggedAt < LOG_EVERY_MS) return
    loggedAt = Date.now()
    log.info({ pages }, 'searching documents of an older release for assets')
  }
}

/** Searches documents of older releases, a minute after the start and every hour. */
export default fp(async (app) => {
  app.decorate('assetReferences', new ReferenceFinder(app.database))
  runPeriodically(app, { intervalMs: HOUR_MS, extraAfterMs: FIRST_AFTER_MS }, async (signal) => {
    await searchAndLog(app, signal)
  })
}, { name: 'asset-references', dependencies: ['database'] })
