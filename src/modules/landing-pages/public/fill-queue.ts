import { Batcher } from '../../../infra/system/batcher.ts'
import type { DocumentVersion } from './cached-document.ts'

/** The most documents in one command. */
const MAX_BATCH = 64
/** The most bytes that wait. Further documents are dropped, except that a larger one may wait alone. */
const MAX_WAITING_BYTES = 1024 * 1024
/** Documents are stored while at least one stored copy in this many is found again. Storing costs more. */
const FILLS_PER_HIT = 16
/** The most copies that may be stored before one is found, so that a restart fills an empty Redis. */
const MAX_CREDIT = 2000
/** Without credit, one in this number of documents is stored, to notice when copies are found again. */
const SAMPLE = 16

/** Documents by what became of them. Dropped: too many waited. Skipped: copies are hardly ever found. */
export type FillCounts = Record<'stored' | 'dropped' | 'skipped' | 'failed', number>

/**
 * Returns a queue that stores documents in Redis that were read from PostgreSQL, in batches, while their
 * readers are answered.
 *
 * @param store stores several documents; the result has an element for each
 */
export function createFillQueue (
  store: (documents: readonly DocumentVersion[]) => Promise<readonly unknown[]>
) {
  const counts: FillCounts = { stored: 0, dropped: 0, skipped: 0, failed: 0 }
  let waitingBytes = 0
  let credit = MAX_CREDIT
  let withoutCredit = 0
  const batcher = new Batcher<DocumentVersion, unknown>({
    run: async (documents) => {
      for (const { body } of documents) waitingBytes -= body.bytes.length
      return await store(documents)
    },
    maxKeys: MAX_BATCH,
    maxRunning: 1
  })
  return {
    counts,
    /** Records that a copy was found. */
    hit (): void {
      credit = Math.min(MAX_CREDIT, credit + FILLS_PER_HIT)
    },
    /** Resolves when the document was stored, or not. Never rejects. */
    async fill (document: DocumentVersion): Promise<void> {
      const { length } = document.body.bytes
      const isFull = waitingBytes > 0 && waitingBytes + length > MAX_WAITING_BYTES
      if (isFull) counts.dropped++
      else if (credit === 0 && ++withoutCredit % SAMPLE !== 0) counts.skipped++
      else {
        if (credit > 0) credit--
        waitingBytes += length
        // If Redis is unreachable, a copy is not needed.
        await batcher.load(document).then(() => counts.stored++, () => counts.failed++)
      }
    }
  }
}
