import type { ReadReport } from '../read-count-repository.ts'

/** The most pages of one report, whose statement then takes about 0.3 s. */
const MAX_REPORTED_PAGES = 10_000
/** The most counts in memory, 0.2 KB each. A page has one in each period in which it is read. */
const MAX_COUNTS = 100_000
const HOUR_MS = 60 * 60 * 1000

/** The reads of one page in one period. */
export interface PageReads {
  /** The number of the period. */
  readonly period: number
  /** 200 */
  reads: number
  /** 304 */
  notModified: number
}

/** The count of a document that was not read yet. No period has its number. */
export const NOT_READ: PageReads = { period: 0, reads: 0, notModified: 0 }

/** What the tally needs of a document. */
export interface CountedDocument {
  readonly publicId: string
  /** The reads of its page; they may be those of an earlier period. */
  pageReads: PageReads
}

/** The reads of some pages in an hour. */
export type TakenReads = Omit<ReadReport, 'processId' | 'number'>

/** A period lies within an hour, and ends when its counts are to be taken. */
interface Period {
  readonly hour: number
  readonly pages: Map<string, PageReads>
}

export interface ReadTallyOptions {
  /** Called when a report is full. */
  readonly onFull: () => void
  readonly maxCounts?: number
  readonly maxReportedPages?: number
}

/**
 * Counts the reads of each page until they are taken. A document refers to the count of its page in the
 * current period, so that most reads only raise a number. Counts don't refer to documents: when a document
 * leaves the cache, nothing is lost, and nothing keeps it in memory.
 */
export class ReadTally {
  readonly #onFull: () => void
  readonly #maxCounts: number
  readonly #maxReportedPages: number
  #number = 1
  #current: Period = { hour: hourOf(Date.now()), pages: new Map() }
  /** Periods that have counts to be taken, oldest first. */
  readonly #ended: Period[] = []
  #size = 0
  readonly #dropped: PageReads = { ...NOT_READ }

  constructor ({ onFull, maxCounts = MAX_COUNTS, maxReportedPages = MAX_REPORTED_PAGES }: ReadTallyOptions) {
    this.#onFull = onFull
    this.#maxCounts = maxCounts
    this.#maxReportedPages = maxReportedPages
  }

  /** The number of counts in memory. */
  get size (): number {
    return this.#size
  }

  /** The reads that were not counted because there were too many counts. */
  get dropped (): number {
    return this.#dropped.reads + this.#dropped.notModified
  }

  /** Counts a read that was answered with 200 or 304. */
  count (document: CountedDocument, isNotModified: boolean): void {
    let page = document.pageReads
    if (page.period !== this.#number) page = this.#enter(document)
    if (isNotModified) page.notModified++
    else page.reads++
  }

  /** Whether the current period began in an hour that is over. */
  isOutdated (): boolean {
    return hourOf(Date.now()) !== this.#current.hour
  }

  /** Begins a new period, so that the counts of this one can be taken. */
  endPeriod (): void {
    if (this.#current.pages.size > 0) this.#ended.push(this.#current)
    this.#current = { hour: hourOf(Date.now()), pages: new Map() }
    this.#number++
  }

  /** Takes counts of the oldest ended period, at most as many as a report has; undefined if none is left. */
  take (): TakenReads | undefined {
    const [period] = this.#ended
    if (period === undefined) return undefined
    const publicIds: string[] = []
    const reads: number[] = []
    const notModified: number[] = []
    for (const [publicId, page] of period.pages) {
      if (publicIds.length === this.#maxReportedPages) break
      publicIds.push(publicId)
      reads.push(page.reads)
      notModified.push(page.notModified)
      period.pages.delete(publicId)
    }
    if (period.pages.size === 0) this.#ended.shift()
    this.#size -= publicIds.length
    return { hour: period.hour, publicIds, reads, notModified }
  }

  /** Returns the count of a document's page in the current period. */
  #enter (document: CountedDocument): PageReads {
    const { pages } = this.#current
    let page = pages.get(document.publicId)
    if (page === undefined) {
      if (this.#size >= this.#maxCounts) return this.#dropped
      page = { period: this.#number, reads: 0, notModified: 0 }
      pages.set(document.publicId, page)
      this.#size++
      if (pages.size % this.#maxReportedPages === 0) this.#onFull()
    }
    document.pageReads = page
    return page
  }
}

const hourOf = (time: number): number => time - time % HOUR_MS
