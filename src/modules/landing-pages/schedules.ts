import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { isDatabaseUnavailable } from '../../infra/postgres/unavailable.ts'
import { clock } from '../../infra/system/clock.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { Semaphore } from '../../infra/system/semaphore.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { findDraft } from './draft-repository.ts'
import { NO_CONDITIONS } from './etag.ts'
import { findPage } from './landing-page-repository.ts'
import { untilWritten, writeAndPublish } from './manage/write-checks.ts'
import { clearTime, findSchedule, readDueTimes, type DueTime } from './schedule-repository.ts'
import { changeState, replacePage } from './write-repository.ts'

// Pages are published and unpublished at set times (docs/adr/0030-schedules.md). Every process runs the same
// loop; a conditional statement decides which one makes a change.

declare module 'fastify' {
  interface FastifyInstance {
    /** Call it after a schedule was set, so that its time is known. Other processes find it within 5 s. */
    wakeSchedules: () => void
  }
}

/** Interval between checks for schedules that other processes have set. */
const CHECK_INTERVAL_MS = 5_000
/** How soon a time has to come to be found: twice the interval of the checks. */
const AHEAD_MS = 10_000
/** Until the next attempt while PostgreSQL is unavailable. */
const RETRY_MS = 1000
/** A change is made up to this much later, at random, so that replicas don't all begin with the same one. */
const MAX_DELAY_MS = 150

/** Accounts whose changes a process makes at the same time. */
const MAX_ACCOUNTS = 3

/** Makes the changes whose times have come. All processes do so at the same time. */
class ScheduleRunner {
  readonly results = { ok: 0, failed: 0 }
  /** How late the oldest change was at the last check, in seconds; 0 if none was. */
  lateSeconds = 0
  readonly #app: FastifyInstance
  readonly #checkIn: (ms: number) => void
  /** The accounts whose changes are made now. Those of an account are made one after the other. */
  readonly #running = new Map<number, Promise<void>>()
  /** Accounts take turns, a change each, so that one with many delays no other. */
  readonly #turns = new Semaphore({
    maxRunning: MAX_ACCOUNTS,
    maxWaiting: Infinity, // one of each account
    createRefusal: () => new Error('Too many accounts have scheduled changes')
  })

  /** @param checkIn has check() called again, after some milliseconds */
  constructor (app: FastifyInstance, checkIn: (ms: number) => void) {
    this.#app = app
    this.#checkIn = checkIn
  }

  /** Begins to make all changes whose times have come, those of an account in their order. Never rejects. */
  async check (signal: AbortSignal): Promise<void> {
    try {
      const found = new Map<number, DueTime[]>()
      let lateMs = 0
      for await (const due of readDueTimes(this.#app.database, AHEAD_MS)) {
        if (due.waitMs > 0) {
          this.#checkIn(due.waitMs + Math.random() * MAX_DELAY_MS)
          break
        }
        lateMs = Math.max(lateMs, -due.waitMs)
        if (this.#running.has(due.userId)) continue
        const changes = found.get(due.userId)
        if (changes === undefined) found.set(due.userId, [due])
        else changes.push(due)
      }
      this.lateSeconds = lateMs / 1000
      for (const [userId, changes] of found) this.#running.set(userId, this.#makeAll(userId, changes, signal))
    } catch (error) {
      // An outage of PostgreSQL is logged elsewhere.
      if (!isDatabaseUnavailable(error)) this.#app.log.warn({ err: error }, 'schedules could not be read')
      this.#checkIn(RETRY_MS)
    }
  }

  /** Resolves when no change is under way. */
  async idle (): Promise<void> {
    await Promise.all(this.#running.values())
  }

  async #makeAll (userId: number, changes: readonly DueTime[], signal: AbortSignal): Promise<void> {
    let areMade = true
    try {
      for (const due of changes) {
        if (signal.aborted) return
        if (!await this.#turns.run(async () => await this.#make(due), userId)) areMade = false
      }
      if (areMade) this.#checkIn(0) // others may have become due
    } catch { // PostgreSQL is unavailable, which is logged elsewhere
      this.#checkIn(RETRY_MS)
    } finally {
      this.#running.delete(userId)
    }
  }

  /** Returns whether the change is made, by this process or another one. A failed one is tried again. */
  async #make (due: DueTime): Promise<boolean> {
    try {
      await untilWritten(null, async () => await this.#attempt(due) || null)
      return true
    } catch (error) {
      if (isDatabaseUnavailable(error)) throw error
      this.results.failed++
      this.#app.log.warn({ err: error, page: due.pageId }, 'a scheduled change failed; trying again')
      return false
    }
  }

  /** Returns false if somebody else has written meanwhile. */
  async #attempt ({ pageId: id, userId, publishes, at, ...due }: DueTime): Promise<boolean> {
    const { database, log } = this.#app
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
        ? changeState(database, writer, id, publishes ? 'publish' : 'unpublish', NO_CONDITIONS)
        : replacePage(database, writer, id, draft.document, NO_CONDITIONS, { isDraft: true })
    )
    if (page === null) return false
    this.results.ok++
    const change = publishes ? 'published' : 'unpublished'
    log.info({ page: id, public_id: page.publicId, change, late_ms: -due.waitMs }, 'scheduled change')
    return true
  }
}

/** Publishes and unpublishes pages at the times of their schedules. */
export default fp(async (app) => {
  let timer: NodeJS.Timeout | undefined
  let checksAt = Infinity
  /** Sets the timer of the next check to `ms` from now, unless one is due sooner. */
  const checkIn = (ms: number) => {
    if (checksAt <= clock.now() + ms) return
    checksAt = clock.now() + ms
    clearTimeout(timer)
    timer = setTimeout(async () => await check(), ms).unref() // never rejects
  }
  const runner = new ScheduleRunner(app, checkIn)
  app.addHook('onClose', async () => await runner.idle()) // after the last check
  const check = runPeriodically(app, { intervalMs: CHECK_INTERVAL_MS }, async (signal) => {
    clearTimeout(timer)
    checksAt = Infinity
    await runner.check(signal)
  })
  app.decorate('wakeSchedules', () => checkIn(0))
  app.addHook('onReady', async () => checkIn(0))

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
