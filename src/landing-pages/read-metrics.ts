import { Counter, type Registry } from 'prom-client'

/** Public reads by what became of them. Plain numbers: prom-client's own cost more than the limit does. */
export interface PublicReads {
  /** From this process' memory, 304 included. */
  hit: number
  /** From Redis or PostgreSQL. */
  loaded: number
  /** From memory though it was due to be asked for anew, because PostgreSQL is away. */
  stale: number
  notFound: number
  /** Over the limit. */
  refused: number
  /** Neither found nor missing: 503. */
  failed: number
}

/** Counts to be raised by whoever answers; Prometheus reads them as `landfall_public_reads_total`. */
export function publicReadMetrics (registry: Registry): PublicReads {
  const reads: PublicReads = { hit: 0, loaded: 0, stale: 0, notFound: 0, refused: 0, failed: 0 }
  registry.registerMetric(new Counter({
    name: 'landfall_public_reads_total',
    help: 'Public reads: hit (from memory), loaded (from Redis or PostgreSQL), stale, not_found, refused (429), failed (503)',
    labelNames: ['result'],
    registers: [],
    collect () {
      this.reset()
      const { notFound, ...others } = reads
      for (const [result, count] of Object.entries({ ...others, not_found: notFound })) this.inc({ result }, count)
    }
  }))
  return reads
}
