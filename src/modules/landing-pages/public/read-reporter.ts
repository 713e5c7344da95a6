import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { clock } from '../../../infra/system/clock.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { storeReads, type ReadReport } from '../read-count-repository.ts'

/** The most pages of one report, whose statement then takes about 0.3 s. */
const MAX_REPORTED_PAGES = 10_000
/** The most counts in memory, 0.2 KB each. A page has one in each report with its reads. */
const MAX_COUNTS = 100_000
const HOUR_MS = 60 * 60 * 1000

/** The reads of one page in one hour, until they are taken. */
export interface PageReads {
  /** The start of the hour, in milliseconds since 1970; 0 once they are taken. */
  hour: number
  /** 200 */
  reads: number
  /** 304 */
  notModified: number
}

/** The count of a document that was not read yet. */
export const NOT_READ: PageReads = { hour: 0, reads: 0, notModified: 0 }

/** What the tally needs of a document. */
export interface CountedDocument {
  readonly publicId: string
  /** The reads of its page; they may be those of an earlier hour, or taken. */
  pageReads: PageReads
}

/** The reads of some pages in an hour. */
export type TakenReads = Omit<ReadReport, 'processId' | 'number'>

/** The counts of one report, by public id. */
interface Batch {
  readonly hour: number
  readonly pages: Map<string, PageReads>
}

/**
 * Counts the reads of each page until they are taken. A document refers to the count of its page, so that
 * most reads only raise a number. Counts don't refer to documents: when a document leaves the cache, nothing
 * is lost, and nothing keeps it in memory.
 */
export class ReadTally {
  readonly #onFull: () => void
  /** The oldest first. The last one takes the next page. */
  readonly #batches: Batch[] = []
  #hour = hourOf(Date.now())
  #size = 0
  readonly #dropped: PageReads = { ...NOT_READ }

  /** @param onFull is called soon after a report is full */
  constructor (onFull: () => void) {
    this.#onFull = onFull
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
    if (page.hour !== this.#hour) page = this.#enter(document)
    if (isNotModified) page.notModified++
    else page.reads++
  }

  /** From now on, reads count for the current hour. */
  updateHour (): void {
    this.#hour = hourOf(Date.now())
  }

  /** Takes the counts of the oldest report; undefined if there are none. */
  take (): TakenReads | undefined {
    const batch = this.#batches.shift()
    if (batch === undefined) return undefined
    const counts = [...batch.pages.values()]
    for (const page of counts) page.hour = 0
    this.#size -= counts.length
    return {
      hour: batch.hour,
      publicIds: [...batch.pages.keys()],
      reads: counts.map(({ reads }) => reads),
      notModified: counts.map(({ notModified }) => notModified)
    }
  }

  /** Returns the count of a document's page in this hour. */
  #enter (document: CountedDocument): PageReads {
    const hour = this.#hour
    const last = this.#batches.at(-1)
    let pages = last?.hour === hour ? last.pages : undefined
    let page = pages?.get(document.publicId)
    if (page === undefined) {
      if (this.#size >= MAX_COUNTS) return this.#dropped
      if (pages === undefined || pages.size === MAX_REPORTED_PAGES) {
        this.#batches.push({ hour, pages: pages = new Map() })
      }
      page = { hour, reads: 0, notModified: 0 }
      pages.set(document.publicId, page)
      this.#size++
      // Later, because this read isn't counted yet.
      if (pages.size === MAX_REPORTED_PAGES) setImmediate(this.#onFull)
    }
    document.pageReads = page
    return page
  }
}

const hourOf = (time: number): number => time - time % HOUR_MS

/** A divisor of an hour, so that a report begins when an hour does. */
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
  readonly tally = new ReadTally(() => this.#startReport())
  readonly #app: FastifyInstance
  readonly #processId = randomUUID()
  readonly #results = { ok: 0, failed: 0 }
  #lastNumber = 0
  #storedReads = 0
  /** The report that is being stored, or whose statement failed. */
  #pending: ReadReport | undefined
  /** Ends when all reads so far are stored, or a report has failed. Never rejects. */
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
      this.tally.updateHour()
      this.#startReport()
    }, INTERVAL_MS - Date.now() % INTERVAL_MS).unref()
  }

  /** Reports all reads so far, unless a report is under way. */
  #startReport (): void {
    this.#underWay ??= this.#storeAll().finally(() => {
      this.#underWay = undefined
    })
  }

  /** Reports the remaining reads. Ends with the first report that fails. */
  async close (): Promise<void> {
    clearTimeout(this.#timer)
    const deadline = clock.now() + MAX_RETRY_MS
    await this.#underWay
    if (!this.#isFailing || clock.now() < deadline) this.#startReport()
    await this.#underWay
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
        'Read counts in memory, one per page and hour',
        () => this.#waitingCounts
      ]
    })
  }

  get #waitingCounts (): number {
    return this.tally.size + (this.#pending?.publicIds.length ?? 0)
  }

  /** Stores again the report that failed, if any, then reports all counts. */
  async #storeAll (): Promise<void> {
    // Only as many counts as there are now: new reads could keep the loop running.
    for (let left = this.#waitingCounts; left > 0;) {
      if (this.#pending === undefined) {
        const taken = this.tally.take()
        if (taken === undefined) return
        this.#pending = { ...taken, processId: this.#processId, number: ++this.#lastNumber }
      }
      if (!await this.#store(this.#pending)) return
      left -= this.#pending.publicIds.length
      this.#pending = undefined
    }
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
