import { Counter, Histogram, type Registry } from 'prom-client'
import { clock } from '../../../infra/system/clock.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import type { DocumentCache } from './document-cache.ts'
import type { Tier } from './read-limit.ts'
import type { SharedDocuments } from './shared-documents.ts'

/** In seconds. */
const LOAD_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

/**
 * Registers the metrics of the public read.
 *
 * @returns the histogram in which the route records load times, in seconds
 */
export function publicReadMetrics (registry: Registry, tiers: readonly Tier[]): Histogram<'source'> {
  // eslint-disable-next-line no-new
  new Counter({
    name: 'landfall_public_reads_total',
    help:
      'Public reads by tier of the limit, where the document came from (process, redis, database, stale; ' +
      'none) and status',
    labelNames: ['tier', 'source', 'status'],
    registers: [registry],
    collect () {
      this.reset()
      for (const { name: tier, reads: { notFound, conditionFailed, refused, failed, ...served } } of tiers) {
        for (const [source, { sent, notModified }] of Object.entries(served)) {
          this.inc({ tier, source, status: '200' }, sent)
          this.inc({ tier, source, status: '304' }, notModified)
        }
        const others = { 404: notFound, 412: conditionFailed, 429: refused, 503: failed }
        for (const [status, count] of Object.entries(others)) {
          this.inc({ tier, source: 'none', status }, count)
        }
      }
    }
  })
  leaseMetrics(registry, tiers)
  return new Histogram({
    name: 'landfall_public_read_load_duration_seconds',
    help: 'Time to load a document that was not in memory, by where it came from (none: it does not exist)',
    labelNames: ['source'],
    buckets: LOAD_BUCKETS,
    registers: [registry]
  })
}

/** Registers the metrics of the leases, here because the rate-limit module doesn't know the tiers. */
function leaseMetrics (registry: Registry, tiers: readonly Tier[]): void {
  const label = 'tier'
  const byTier = (read: (tier: Tier) => number) => () =>
    Object.fromEntries(tiers.map((tier) => [tier.name, read(tier)]))
  const sumOf = (count: keyof Tier['limit']['stats']) => byTier(({ limit }) => limit.stats[count])
  addMetrics(registry, {
    landfall_limit_shared_reads_total: [
      'Reads that this process allowed from its share, without asking Redis',
      sumOf('allowedByShare'),
      { label }
    ],
    landfall_leases_total: ['Leases that this process requested from Redis', sumOf('asked'), { label }],
    landfall_lease_reads_granted_total: [
      'Reads that Redis granted to this process',
      sumOf('granted'),
      { label }
    ],
    landfall_lease_reads_returned_total: [
      'Granted reads that this process returned unspent',
      sumOf('returned'),
      { label }
    ],
    landfall_lease_recalls_total: [
      'Leases of this process that another process recalled',
      sumOf('recalled'),
      { label }
    ],
    landfall_limit_windows_exhausted_total: [
      'Client windows in which this process found no reads left',
      sumOf('exhausted'),
      { label }
    ],
    landfall_limit_windows_local_total: [
      'Client windows that this process counted locally, without Redis',
      sumOf('countedLocally'),
      { label }
    ],
    landfall_limit_clients: ['Client addresses in memory', byTier(({ limit }) => limit.clients), { label }],
    landfall_limit_share: [
      'Reads of a client that this process allows in a window without asking Redis',
      byTier(({ limit }) => limit.share(clock.now())),
      { label, aggregator: 'min' }
    ]
  })
}

/** Registers the metrics of cached documents, and of the batches that read others from the stores. */
export function documentMetrics (
  registry: Registry,
  documents: DocumentCache,
  maxBytes: number,
  stored: { readonly batches: number },
  shared: SharedDocuments | undefined
): void {
  addMetrics(registry, {
    landfall_document_cache_entries: ['Documents in memory', () => documents.usage.entries],
    landfall_document_cache_bytes: ['Memory used by documents', () => documents.usage.bytes],
    landfall_document_cache_max_bytes: [
      'Limit of the memory used by documents (CACHE_MAX_BYTES)',
      () => maxBytes
    ],
    landfall_document_cache_evictions_total: [
      'Documents evicted from memory',
      () => documents.usage.evictions
    ],
    landfall_document_compressions_total: [
      'Compressions of documents, at most one per version and encoding',
      () => documents.compressions,
      { label: 'encoding' }
    ],
    landfall_document_batches_total: [
      'Batches of public reads that loaded documents, each in one statement or Redis command',
      () => ({ database: stored.batches, ...shared !== undefined && { redis: shared.usage.batches } }),
      { label: 'store' }
    ]
  })
  if (shared === undefined) return
  addMetrics(registry, {
    landfall_document_fills_total: [
      'Documents read from PostgreSQL, by what became of their copy for Redis (stored, skipped, dropped, ' +
      'failed)',
      () => shared.usage.fills,
      { label: 'result' }
    ]
  })
}
