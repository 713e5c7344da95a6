import { Counter, Histogram, type Registry } from 'prom-client'
import { counterOf, gaugeOf } from '../plugins/metrics.ts'
import type { DocumentCache } from './document-cache.ts'
import type { Tier } from './read-limit.ts'

/** Documents from one place. */
export interface Served {
  /** 200 */
  sent: number
  /** 304 */
  notModified: number
}

/** Where a document came from. `stale`: from memory though it was due to be asked for anew, because PostgreSQL is away. */
export type Source = 'process' | 'redis' | 'database' | 'stale'

/** Public reads of one tier by what became of them. Plain numbers: prom-client's own cost more than the limit does. */
export interface PublicReads extends Record<Source, Served> {
  notFound: number
  /** Over the limit. */
  refused: number
  /** Neither found nor missing: 503, or 500. */
  failed: number
}

export const noReads = (): PublicReads => ({
  process: { sent: 0, notModified: 0 },
  redis: { sent: 0, notModified: 0 },
  database: { sent: 0, notModified: 0 },
  stale: { sent: 0, notModified: 0 },
  notFound: 0,
  refused: 0,
  failed: 0
})

/** In seconds. */
const LOAD_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

/**
 * Has Prometheus read the counts of the tiers.
 *
 * @returns where the reads that had to be loaded note how long that took, in seconds
 */
export function publicReadMetrics (registry: Registry, tiers: readonly Tier[]): Histogram<'source'> {
  // eslint-disable-next-line no-new
  new Counter({
    name: 'landfall_public_reads_total',
    help: 'Public reads by tier of the limit, where the document came from (process, redis, database, stale; none) and status',
    labelNames: ['tier', 'source', 'status'],
    registers: [registry],
    collect () {
      this.reset()
      for (const { name: tier, reads: { notFound, refused, failed, ...served } } of tiers) {
        for (const [source, { sent, notModified }] of Object.entries(served)) {
          this.inc({ tier, source, status: '200' }, sent)
          this.inc({ tier, source, status: '304' }, notModified)
        }
        for (const [status, count] of Object.entries({ 404: notFound, 429: refused, 503: failed })) this.inc({ tier, source: 'none', status }, count)
      }
    }
  })
  leaseMetrics(registry, tiers)
  return new Histogram({
    name: 'landfall_public_read_load_duration_seconds',
    help: 'Public reads whose document was not in memory, by where it came from (none: nowhere): the time until it was there',
    labelNames: ['source'],
    buckets: LOAD_BUCKETS,
    registers: [registry]
  })
}

function leaseMetrics (registry: Registry, tiers: readonly Tier[]): void {
  const byTier = (read: (tier: Tier) => number) => () => Object.fromEntries(tiers.map((tier) => [tier.name, read(tier)]))
  const counter = (name: string, help: string, read: (tier: Tier) => number) => counterOf(registry, { name, help }, byTier(read), 'tier')
  counter('landfall_leases_total', 'Times that this process asked Redis for reads', ({ limit }) => limit.stats.asked)
  counter('landfall_lease_reads_granted_total', 'Reads that Redis granted to this process', ({ limit }) => limit.stats.granted)
  counter('landfall_lease_reads_returned_total', 'Granted reads that this process handed back unspent', ({ limit }) => limit.stats.returned)
  counter('landfall_lease_recalls_total', 'Leases that another process called back from this one', ({ limit }) => limit.stats.recalled)
  counter('landfall_limit_windows_exhausted_total', "Clients' windows that this process found used up", ({ limit }) => limit.stats.exhausted)
  counter('landfall_limit_windows_local_total', "Clients' windows that this process counted alone, because there is no Redis or it is away", ({ limit }) => limit.stats.alone)
  gaugeOf(registry, { name: 'landfall_limit_clients', help: 'Client addresses that the limit remembers, of this minute and the last' }, byTier(({ limit }) => limit.clients), 'tier')
}

/** Has Prometheus look into the document cache of this process. */
export function documentMetrics (registry: Registry, documents: DocumentCache, maxBytes: number): void {
  gaugeOf(registry, { name: 'landfall_document_cache_entries', help: 'Documents in memory' }, () => documents.usage.entries)
  gaugeOf(registry, { name: 'landfall_document_cache_bytes', help: 'Memory that they take' }, () => documents.usage.bytes)
  gaugeOf(registry, { name: 'landfall_document_cache_max_bytes', help: 'Memory that they may take (CACHE_MAX_BYTES)' }, () => maxBytes)
  counterOf(registry, { name: 'landfall_document_cache_evictions_total', help: 'Documents that made room for others' }, () => documents.usage.evictions)
  counterOf(registry, { name: 'landfall_document_compressions_total', help: 'Documents that were compressed, once for each version and encoding' }, () => documents.compressions, 'encoding')
}
