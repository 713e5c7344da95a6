/** Responses with documents from one source, by status. */
export interface Served {
  /** 200 */
  sent: number
  /** 304 */
  notModified: number
}

/** Where a document came from. `stale` is an expired one from memory, while PostgreSQL is unreachable. */
export type Source = 'process' | 'redis' | 'database' | 'stale'

/** Public reads of one tier by result. Plain numbers, because prom-client's counters are too slow. */
export interface PublicReads extends Record<Source, Served> {
  /** 404 */
  notFound: number
  /** 412 */
  conditionFailed: number
  /** 429 */
  refused: number
  /** 500 and 503 */
  failed: number
}

export const noReads = (): PublicReads => ({
  process: { sent: 0, notModified: 0 },
  redis: { sent: 0, notModified: 0 },
  database: { sent: 0, notModified: 0 },
  stale: { sent: 0, notModified: 0 },
  notFound: 0,
  conditionFailed: 0,
  refused: 0,
  failed: 0
})
