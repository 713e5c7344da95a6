import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { isDatabaseUnavailable } from '../../infra/postgres/unavailable.ts'
import { clock } from '../../infra/system/clock.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { Semaphore } from '../../infra/system/semaphore.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { findDraft } from './draft-repository.ts'
import { findPage } from './landing-page-repository.ts'
import { untilWritten, writeAndPublish } from './manage/write-checks.ts'
import { clearTime, findSchedule, readDueTimes, type DueTime } from './schedule-repository.ts'
import { changeState, replacePage } from './write-repository.ts'

// Pages are published and unpublished at set times (docs/adr/0030-schedules.md). Every process runs the same
// loop; a conditional statement decides which one makes a change.

/** Interval between checks for times that have come. A change is normally made within half a second. */
const CHECK_INTERVAL_MS = 400

/** How long a page waits after a change that has failed. */
const RETRY_MS = 5_000

/** Accounts whose changes a process makes at the same time. */
const MAX_ACCOUNTS = 3

/** Makes the changes whose times have come. All processes do so at the same time. */
class ScheduleRunner {
  readonly results = { ok: 0, failed: 0 }
  /** How late the oldest change was at the last check, in seconds; 0 if none was. */
  lateSeconds = 0
  readonly #app: FastifyInstance
  /** The accounts whose changes are made now. Those of an account are made one after the other. */
  readonly #runningByAccount = new Map<number, Promise<void>>()
  /** Pages whose last change has failed, and when it is tried again, on the process clock. */
  readonly #retryAt = new Map<string, number>()
  /** Accounts take turns, a change each, so that one with many delays no other. */
  readonly #turns = new Semaphore({
    maxRunning: MAX_ACCOUNTS,
    maxWaiting: Infinity, // one of each account
    createRefusal: () => new Error('Too many accounts have scheduled changes')
  })

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /** Begins to make all changes whose times have come, those of an account in their order. Never rejects. */
  async check (signal: AbortSignal): Promise<void> {
    const now = clock.now()
    for (const [page, retryAt] of this.#retryAt) if (retryAt <= now) this.#retryAt.delete(page)
    try {
      const found = new Map<number, DueTime[]>()
      let lateMs = 0
      for await (const due of readDueTimes(this.#app.database)) {
        lateMs = Math.max(lateMs, due.lateMs)
        if (this.#runningByAccount.has(due.userId) || this.#retryAt.has(due.pageId)) continue
        const changes = found.get(due.userId)
        if (changes === undefined) found.set(due.userId, [due])
        else changes.push(due)
      }
      this.lateSeconds = lateMs / 1000
      for (const [userId, changes] of found) {
        this.#runningByAccount.set(userId, this.#makeAll(userId, changes, signal))
      }
    } catch (error) {
      // An outage of PostgreSQL is logged elsewhere.
      if (!isDatabaseUnavailable(error)) this.#app.log.warn({ err: error }, 'schedules could not be read')
    }
  }

  /** Resolves when no change is under way. */
  async idle (): Promise<void> {
    await Promise.all(this.#runningByAccount.values())
  }

  async #makeAll (userId: number, changes: readonly DueTime[], signal: AbortSignal): Promise<void> {
    try {
      for (const due of changes) {
        if (!signal.aborted) await this.#turns.run(async () => await this.#make(due), userId)
      }
    } catch { // PostgreSQL is unavailable, which is logged elsewhere
    } finally {
      this.#runningByAccount.delete(userId)
    }
  }

  /** Makes a change, unless another process does. One that fails is tried again later. */
  async #make (due: DueTime): Promise<void> {
    try {
      await untilWritten(null, async () => await this.#attempt(due) || null)
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error
      this.results.failed++
      this.#retryAt.set(due.pageId, clock.now() + RETRY_MS)
      this.#app.log.warn({ err: error, page: due.pageId }, 'a scheduled change failed; trying again')
    }
  }

  /** Returns false if somebody else has written meanwhile. */
  async #attempt ({ pageId: id, userId, publishes, at, ...due }: DueTime): Promise<boolean> {
    const { database } = this.#app
    const schedule = await findSchedule(database, id)
    const stands = (publishes ? schedule.publishAt : schedule.unpublishAt)?.getTime() === at.getTime()
    // A page isn't unpublished before a publication that is due and has failed.
    if (!stands || (!publishes && schedule.publishAt !== null)) return true
    const draft = publishes ? await findDraft(database, id) : null
    const read = await findPage(database, userId, id)
    if (read === null || (draft === null && read.published === publishes)) {
      await clearTime(database, id, publishes, at)
      return true
    }
    const author = { type: due.authorType, name: due.authorName }
    const writer = { userId, author, isSchedule: true }
    const page = await writeAndPublish(
      { server: this.#app },
      draft === null
        ? changeState(database, writer, id, publishes ? 'publish' : 'unpublish', null)
        : replacePage(database, writer, id, draft.document, null, { isDraft: true })
    )
    if (page === null) return false
    this.results.ok++
    return true
  }
}

/** Publishes and unpublishes pages at the times of their schedules. */
export default fp(async (app) => {
  const runner = new ScheduleRunner(app)
  app.addHook('onClose', async () => await runner.idle()) // after the last check
  runPeriodically(app, { intervalMs: CHECK_INTERVAL_MS }, async (signal) => await runner.check(signal))

  addMetrics(app.metrics, {
    landfall_scheduled_changes_total: [
      'Pages that this process has published or unpublished at the time of their schedule, by result',
      () => runner.results,
      { label: 'result' }
    ],
    landfall_schedules_late_seconds: [
      'How late the oldest scheduled change was at the last check',
      () => runner.lateSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'schedules', dependencies: ['database', 'metrics', 'document-cache'] })
