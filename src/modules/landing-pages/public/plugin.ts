import fp from 'fastify-plugin'
import { cacheTagHeader } from '../../../http/common-headers.ts'
import { isDatabaseUnavailable } from '../../../infra/postgres/unavailable.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { findPublicPages, type FoundPage, type PublicPage } from '../landing-page-repository.ts'
import { publicVersion, type PublicVersion } from './cached-document.ts'
import { batchReads, LARGE, type BatchedReads } from './batched-reads.ts'
import { DocumentCache } from './document-cache.ts'
import { headerLines } from './prepared-head.ts'
import { documentMetrics } from './read-metrics.ts'
import { SharedDocuments } from './shared-documents.ts'

declare module 'fastify' {
  interface FastifyInstance {
    documents: DocumentCache
  }
}

export default fp<{ channel: string }>(async (app, { channel }) => {
  const { config, redisClient } = app
  const stored = storedDocuments(app.database)
  const shared = redisClient === undefined ? undefined : new SharedDocuments(redisClient, channel)
  const documents = new DocumentCache({
    maxBytes: config.CACHE_MAX_BYTES,
    maxStaleMs: config.CACHE_MAX_STALE_SECONDS * 1000,
    read: (publicId) => stored.read(publicId),
    shared,
    // Only one process uses an embedded database. With Redis, both connections must work, because if this
    // process can't send commands, other processes may be unable to publish their writes.
    hearsAllWrites: () =>
      config.DATABASE_URL === undefined ||
      (redisClient !== undefined && redisClient.subscribed && redisClient.reachable),
    tagLine: (publicId) => headerLines(...cacheTagHeader(config, publicId))
  })
  // The command line has no other way to tell an embedded service what it has changed.
  app.onCommand(() => documents.expireAll())
  redisClient?.on('subscribed', () => documents.expireAll())
  redisClient?.on('unsubscribed', () => documents.expireAll())
  redisClient?.on('unreachable', () => documents.expireAll())
  redisClient?.on('reachable', () => {
    documents.publisher?.publishOutstanding().catch((error: unknown) =>
      app.log.warn({ err: error }, 'outstanding publications failed')
    )
  })
  app.decorate('documents', documents)
  documentMetrics(app.metrics, documents, config.CACHE_MAX_BYTES, stored, shared)
}, { name: 'document-cache', dependencies: ['database', 'redis', 'metrics'] })

/** A statement that takes longer no longer holds up those that read other documents, in milliseconds. */
const MAX_WAIT_MS = 50
/** The largest `integer` of PostgreSQL, so all documents. */
const ANY_SIZE = 2 ** 31 - 1

/** Returns the documents in PostgreSQL. */
function storedDocuments (database: Database): BatchedReads<PublicVersion | undefined> {
  return batchReads<PublicVersion | undefined>({
    async readMany (ids, maxBytes) {
      const pages = await findPublicPages(database, ids, maxBytes)
      const documents = new Map<string, PublicVersion | typeof LARGE>()
      for (const page of pages) {
        documents.set(page.publicId, isWhole(page) ? publicVersion(page) : LARGE)
      }
      return ids.map((publicId) => documents.get(publicId))
    },
    maxBytes: ANY_SIZE,
    missing: undefined,
    maxWaitMs: MAX_WAIT_MS,
    isFaultOfOne: (error) => !isDatabaseUnavailable(error)
  })
}

const isWhole = (page: FoundPage): page is PublicPage => page.currentData !== null || !page.published
