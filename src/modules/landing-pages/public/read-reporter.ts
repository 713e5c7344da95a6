import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { clock } from '../../../infra/system/clock.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { storeReads, type ReadReport } from '../read-count-repository.ts'
import { ReadTally } from './read-tally.ts'

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
