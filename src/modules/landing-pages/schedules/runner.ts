import type { FastifyInstance } from 'fastify'
import { OLDEST } from '../../../http/pagination.ts'
import { isDatabaseUnavailable } from '../../../infra/postgres/unavailable.ts'
import { clock } from '../../../infra/system/clock.ts'
import { findDraft } from '../draft-repository.ts'
import { changeState, findPage, publishDraft } from '../landing-page-repository.ts'
import { untilWritten, writeAndPublish } from '../manage/write-checks.ts'
import { clearTime, findDueTimes, findSchedule, MAX_DUE, type DueTime } from '../schedule-repository.ts'

/** How soon a time has to come to be found: twice the interval of the checks. */
const AHEAD_MS = 10_000
/** Until the next attempt while PostgreSQL is unavailable. */
const RETRY_MS = 1000
/** A change is made up to this much later, at random, so that replicas don't all begin with the same one. */
const MAX_DELAY_MS = 150

const FIRST = { at: new Date(0), pageId: OLDEST }
const UNCONDITIONAL = { ifMatch: null, ifNoneMatch: null, unmodifiedSince: null }

/** Makes the changes whose times have come. All processes do so at the same time. */
export class ScheduleRunner {
  readonly results = { ok: 0, failed: 0 }
  /** How late the oldest change is that has failed, in seconds; 0 if none has. */
  lateSeconds = 0
  readonly #app: FastifyInstance

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Makes all changes whose times have come, in the order of their times. Never rejects.
   *
   * @returns milliseconds until the next time, if that comes soon
   */
  async run (signal: AbortSignal): Promise<number | undefined> {
    try {
      return await this.#runAll(signal)
    } catch (error) {
      // An outage of PostgreSQL is logged elsewhere.
      if (!isDatabaseUnavailable(error)) this.#app.log.warn({ err: error }, 'schedules could not be read')
      return RETRY_MS
    }
  }

  async #runAll (signal: AbortSignal): Promise<number | undefined> {
    let lateMs = 0
    let after: Pick<DueTime, 'at' | 'pageId'> = FIRST
    let found: DueTime[]
    let next: number | undefined
    do {
      const foundAt = clock.now()
      found = await findDueTimes(this.#app.database, AHEAD_MS, after)
      for (const due of found) {
        if (signal.aborted) return undefined
        if (due.waitMs > 0) {
          next = Math.max(0, due.waitMs - (clock.now() - foundAt)) + Math.random() * MAX_DELAY_MS
          break
        }
        if (!await this.#change(due)) lateMs = Math.max(lateMs, -due.waitMs)
        after = due
      }
    } while (next === undefined && found.length === MAX_DUE)
    this.lateSeconds = lateMs / 1000
    return next
  }

  /** Returns whether the change is made, by this process or another one. A failed one is tried again. */
  async #change (due: DueTime): Promise<boolean> {
    try {
      await untilWritten(async () => await this.#attempt(due) || null)
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
    // A publication that has failed comes first.
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
      this.#app,
      async () =>
        draft === null
          ? await changeState(database, writer, id, publishes ? 'publish' : 'unpublish', UNCONDITIONAL)
          : await publishDraft(database, writer, id, draft.document, UNCONDITIONAL)
    )
    if (page === null) return false
    this.results.ok++
    const change = publishes ? 'published' : 'unpublished'
    log.info({ page: id, public_id: page.publicId, change, late_ms: -due.waitMs }, 'scheduled change')
    return true
  }
}
