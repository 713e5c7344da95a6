import fp from 'fastify-plugin'
import { LandingPageRepository } from '../landing-page-repository.ts'
import { documentVersion } from './cached-document.ts'
import { DocumentCache } from './document-cache.ts'
import { documentMetrics } from './read-metrics.ts'
import { SharedDocuments } from './shared-documents.ts'

declare module 'fastify' {
  interface FastifyInstance {
    documents: DocumentCache
  }
}

export default fp<{ channel: string }>(async (app, { channel }) => {
  const { config, redisClient } = app
  const repository = new LandingPageRepository(app.database)
  const documents = new DocumentCache({
    maxBytes: config.CACHE_MAX_BYTES,
    maxStaleMs: config.CACHE_MAX_STALE_SECONDS * 1000,
    read: async (publicId) => {
      const page = await repository.findPublic(publicId)
      return page === null ? undefined : documentVersion({ publicId, ...page })
    },
    shared: redisClient === undefined ? undefined : new SharedDocuments(redisClient, channel),
    // Only one process uses an embedded database. With Redis, both connections must work, because if this
    // process can't send commands, other processes may be unable to publish their writes.
    hearsAllWrites: () =>
      config.DATABASE_URL === undefined ||
      (redisClient !== undefined && redisClient.subscribed && redisClient.reachable)
  })
  app.onCommandLineWrite(() => documents.expireAll())
  redisClient?.on('subscribed', () => documents.expireAll())
  redisClient?.on('unsubscribed', () => documents.expireAll())
  redisClient?.on('unreachable', () => documents.expireAll())
  redisClient?.on('reachable', () => {
    documents.publishOutstanding().catch((error: unknown) =>
      app.log.warn({ err: error }, 'outstanding publications failed')
    )
  })
  app.decorate('documents', documents)
  documentMetrics(app.metrics, documents, config.CACHE_MAX_BYTES)
}, { name: 'document-cache', dependencies: ['database', 'redis', 'metrics'] })
