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

/** Stores documents in Redis that were read from PostgreSQL, in batches, while their readers are answered. */
export class FillQueue {
  readonly counts: FillCounts = { stored: 0, dropped: 0, skipped: 0, failed: 0 }
  readonly #batcher: Batcher<DocumentVersion, unknown>
  #waitingBytes = 0
  #credit = MAX_CREDIT
  #withoutCredit = 0

  /** @param store stores several documents; the result has an element for each */
  constructor (store: (documents: readonly DocumentVersion[]) => Promise<readonly unknown[]>) {
    this.#batcher = new Batcher({
      run: async (documents) => {
        for (const { body } of documents) this.#waitingBytes -= body.bytes.length
        return await store(documents)
      },
      maxKeys: MAX_BATCH,
      maxRunning: 1
    })
  }

  /** Records that a copy was found. */
  hit (): void {
    if (this.#credit < MAX_CREDIT) this.#credit = Math.min(MAX_CREDIT, this.#credit + FILLS_PER_HIT)
  }

  /** Resolves when the document was stored, or not. Never rejects. */
  fill (document: DocumentVersion): Promise<void> {
    const { length } = document.body.bytes
    if (this.#waitingBytes > 0 && this.#waitingBytes + length > MAX_WAITING_BYTES) {
      this.counts.dropped++
      return DONE
    }
    if (this.#credit > 0) this.#credit--
    else if (++this.#withoutCredit % SAMPLE !== 0) {
      this.counts.skipped++
      return DONE
    }
    this.#waitingBytes += length
    return this.#batcher.load(document).then(() => {
      this.counts.stored++
    }, () => {
      this.counts.failed++ // Redis is unreachable, and a copy is not needed
    })
  }
}

const DONE = Promise.resolve()
