import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { clock } from '../../../infra/system/clock.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { storeReads, type ReadReport } from '../read-count-repository.ts'

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

interface ReadTallyOptions {
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

/** An hour is a multiple of it, so that the reports of all hours begin with the hour. */
const INTERVAL_MS = 10_000
/** close() repeats a report that failed only if it failed faster. */
const MAX_RETRY_MS = 1000

/**
 * Counts public reads and reports them to PostgreSQL every 10 s, in one statement for up to 10,000 pages.
 *
 * A report whose statement failed may have been stored, so it is repeated unchanged until it succeeds, and
 * PostgreSQL ignores a report whose number isn't greater than the last one. Until then, new reads are counted
 * in memory, up to a limit.
 */
export class ReadReporter {
  /** Counts the reads that are to be reported. */
  readonly tally = new ReadTally({
    onFull: () => {
      this.reportNow().catch(() => {}) // never rejects
    }
  })
  readonly #app: FastifyInstance
  readonly #processId = randomUUID()
  readonly #results = { ok: 0, failed: 0 }
  #lastNumber = 0
  #storedReads = 0
  /** The report that is being stored, or whose statement failed. */
  #pending: ReadReport | undefined
  /** The work of reportNow(). */
  #underWay: Promise<void> | undefined
  #isFailing = false
  #timer: NodeJS.Timeout | undefined

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /** Begins to report every 10 s. */
  start (): void {
    this.#timer = setTimeout(() => {
      this.start()
      if (this.tally.isOutdated()) this.tally.endPeriod()
      this.reportNow().catch(() => {}) // never rejects
    }, INTERVAL_MS - Date.now() % INTERVAL_MS).unref()
  }

  /** Reports all reads so far, unless a report is under way. Never rejects. */
  async reportNow (): Promise<void> {
    this.#underWay ??= this.#storeAll().finally(() => {
      this.#underWay = undefined
    })
    await this.#underWay
  }

  /** Reports the remaining reads. Ends with the first report that fails. */
  async close (): Promise<void> {
    clearTimeout(this.#timer)
    const deadline = clock.now() + MAX_RETRY_MS
    await this.#underWay
    if (!this.#isFailing || clock.now() < deadline) await this.reportNow()
    const lost = this.#waitingCounts
    if (lost > 0) this.#app.log.warn({ counts: lost }, 'read counts were lost at shutdown')
  }

  /** Registers the metrics of the reports. */
  addMetrics (registry: Registry): void {
    addMetrics(registry, {
      landfall_counted_reads_total: [
        'Reads of documents that were counted (stored), or not, because too many were waiting (dropped)',
        () => ({ stored: this.#storedReads, dropped: this.tally.dropped }),
        { label: 'result' }
      ],
      landfall_read_reports_total: [
        'Statements that store read counts, by result',
        () => this.#results,
        { label: 'result' }
      ],
      landfall_waiting_read_counts: [
        'Read counts in memory, one per page and period',
        () => this.#waitingCounts
      ]
    })
  }

  get #waitingCounts (): number {
    return this.tally.size + (this.#pending?.publicIds.length ?? 0)
  }

  /** Stores what an earlier attempt has left, then the current period. */
  async #storeAll (): Promise<void> {
    if (!await this.#storeEnded()) return
    this.tally.endPeriod()
    await this.#storeEnded()
  }

  /** Stores the counts of all ended periods. Returns whether it succeeded. */
  async #storeEnded (): Promise<boolean> {
    for (;;) {
      this.#pending ??= this.#nextReport()
      if (this.#pending === undefined) return true
      if (!await this.#store(this.#pending)) return false
      this.#pending = undefined
    }
  }

  #nextReport (): ReadReport | undefined {
    const taken = this.tally.take()
    return taken && { ...taken, processId: this.#processId, number: ++this.#lastNumber }
  }

  async #store (report: ReadReport): Promise<boolean> {
    try {
      await storeReads(this.#app.database, report)
    } catch (error) {
      this.#results.failed++
      if (!this.#isFailing) {
        this.#app.log.warn({ err: error }, 'read counts could not be stored; trying again every 10 s')
      }
      this.#isFailing = true
      return false
    }
    this.#results.ok++
    this.#isFailing = false
    for (const reads of [report.reads, report.notModified]) {
      for (const count of reads) this.#storedReads += count
    }
    return true
  }
}
