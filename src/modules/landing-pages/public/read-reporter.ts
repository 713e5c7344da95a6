import { randomUUID } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { Registry } from 'prom-client'
import { clock } from '../../../infra/system/clock.ts'
import { addCounter, addGauge } from '../../../infra/telemetry/metrics.ts'
import type { ReadCountRepository, ReadReport } from '../read-count-repository.ts'
import { ReadTally } from './read-tally.ts'

/** An hour is a multiple of it, so that the reports of all hours begin with the hour. */
const INTERVAL_MS = 10_000
/** close() repeats a report that failed only if it failed faster. */
const MAX_RETRY_MS = 1000

export interface ReadReporterOptions {
  readonly counts: ReadCountRepository
  readonly log: FastifyBaseLogger
}

/**
 * Counts public reads and reports them to PostgreSQL every 10 s, in one statement for up to 10,000 pages.
 *
 * A report whose statement failed may have been stored, so it is repeated unchanged until it succeeds, and
 * PostgreSQL ignores a number that it knows. Until then, new reads are counted in memory, up to a limit.
 */
export class ReadReporter {
  /** Counts the reads that are to be reported. */
  readonly tally = new ReadTally({
    onFull: () => {
      this.report().catch(() => {}) // never rejects
    }
  })
  readonly #counts: ReadCountRepository
  readonly #log: FastifyBaseLogger
  readonly #processId = randomUUID()
  readonly #results = { ok: 0, failed: 0 }
  #lastNumber = 0
  #reported = 0
  /** The report that is being stored, or whose statement failed. */
  #report: ReadReport | undefined
  #reporting: Promise<void> | undefined
  #isFailing = false
  #timer: NodeJS.Timeout | undefined

  constructor ({ counts, log }: ReadReporterOptions) {
    this.#counts = counts
    this.#log = log
  }

  /** Begins to report every 10 s. */
  start (): void {
    this.#timer = setTimeout(() => {
      this.start()
      if (this.tally.isOutdated()) this.tally.endPeriod()
      this.report().catch(() => {}) // never rejects
    }, INTERVAL_MS - Date.now() % INTERVAL_MS).unref()
  }

  /** Reports all reads so far, unless a report is under way. Never rejects. */
  async report (): Promise<void> {
    this.#reporting ??= this.#reportAll().finally(() => {
      this.#reporting = undefined
    })
    await this.#reporting
  }

  /** Reports the remaining reads. Ends with the first report that fails. */
  async close (): Promise<void> {
    clearTimeout(this.#timer)
    const deadline = clock.now() + MAX_RETRY_MS
    await this.#reporting
    if (!this.#isFailing || clock.now() < deadline) await this.report()
    const lost = this.#waiting
    if (lost > 0) this.#log.warn({ counts: lost }, 'counts of reads are lost: PostgreSQL has not stored them')
  }

  /** Registers the metrics of the reports. */
  addMetrics (registry: Registry): void {
    addCounter(
      registry,
      {
        name: 'landfall_read_counts_total',
        help:
          'Reads of documents by what became of their count: stored, or dropped because too many were waiting'
      },
      () => ({ stored: this.#reported, dropped: this.tally.dropped }),
      'result'
    )
    addCounter(
      registry,
      { name: 'landfall_read_reports_total', help: 'Statements that store counts of reads, by result' },
      () => this.#results,
      'result'
    )
    addGauge(
      registry,
      { name: 'landfall_read_counts_waiting', help: 'Counts in memory, one per page and hour' },
      () => this.#waiting
    )
  }

  get #waiting (): number {
    return this.tally.size + (this.#report?.publicIds.length ?? 0)
  }

  /** Stores what an earlier attempt has left, then the current period. */
  async #reportAll (): Promise<void> {
    if (!await this.#storeEnded()) return
    this.tally.endPeriod()
    await this.#storeEnded()
  }

  /** Stores the counts of all ended periods. Returns whether it succeeded. */
  async #storeEnded (): Promise<boolean> {
    for (;;) {
      this.#report ??= this.#nextReport()
      if (this.#report === undefined) return true
      if (!await this.#store(this.#report)) return false
      this.#report = undefined
    }
  }

  #nextReport (): ReadReport | undefined {
    const taken = this.tally.take()
    return taken && { ...taken, processId: this.#processId, number: ++this.#lastNumber }
  }

  async #store (report: ReadReport): Promise<boolean> {
    try {
      await this.#counts.store(report)
    } catch (error) {
      this.#results.failed++
      if (!this.#isFailing) this.#log.warn({ err: error }, 'reads could not be reported; they are kept')
      this.#isFailing = true
      return false
    }
    this.#results.ok++
    this.#isFailing = false
    for (const reads of [report.reads, report.notModified]) {
      for (const count of reads) this.#reported += count
    }
    return true
  }
}
