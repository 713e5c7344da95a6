import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { isDatabaseUnavailable } from '../../infra/postgres/unavailable.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter, addGauge } from '../../infra/telemetry/metrics.ts'
import { findBegunDeletions } from './deletion-repository.ts'
import { finishDeletion } from './finish-deletion.ts'

declare module 'fastify' {
  interface FastifyInstance {
    accountDeletions: AccountDeletions
  }
}

const INTERVAL_MS = 30 * 1000
/** A younger deletion is usually still running in the process that began it. */
const MIN_AGE_SECONDS = 30
/** Time until the first look, at deletions of any age: the process before this one may have died in one. */
const START_DELAY_MS = 1000
/** Interval of attempts after an error in this process. */
const RETRY_MS = 5000

/** The deletions of accounts by this process. */
export class AccountDeletions {
  readonly counts = { begun: 0, finished: 0, failed: 0 }
  /** The deletions that this process found unfinished when it last looked. */
  unfinished = 0
  readonly #app: FastifyInstance
  /** The users whose deletion an error has interrupted in this process. Their pages may still be public. */
  readonly #interrupted = new Set<number>()

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /** Finishes a deletion that has begun. Failures are logged, and it is tried again later. */
  async finish (userId: number, signal?: AbortSignal): Promise<void> {
    const { database, documents, files } = this.#app
    const publish = async (publicIds: readonly string[]): Promise<void> => {
      await Promise.all(publicIds.map(async (publicId) => await documents.publish(publicId, undefined)))
    }
    try {
      const removed = await finishDeletion({ database, files, publish }, userId, signal)
      if (removed.isFinished) this.counts.finished++
      if (removed.failed > 0) this.#fail(userId, new Error(`${removed.failed} files could not be removed`))
      this.#interrupted.delete(userId)
    } catch (error) {
      this.#fail(userId, error)
      this.#interrupted.add(userId)
    }
  }

  /** Goes on with the deletions that an error has interrupted in this process. */
  async retryInterrupted (signal: AbortSignal): Promise<void> {
    for (const userId of [...this.#interrupted]) await this.finish(userId, signal)
  }

  #fail (userId: number, error: unknown): void {
    this.counts.failed++
    if (this.#interrupted.has(userId)) return // is logged already
    this.#app.log.warn(
      { err: error, user: userId },
      'the deletion of an account is not finished; trying again later'
    )
  }
}

/**
 * Finishes deletions that an earlier attempt, of any process, has left unfinished.
 *
 * @returns whether it could look for them
 */
export async function resumeDeletions (
  { accountDeletions, database, log }: FastifyInstance,
  { minAgeSeconds = MIN_AGE_SECONDS, signal }: {
    readonly minAgeSeconds?: number
    readonly signal?: AbortSignal
  } = {}
): Promise<boolean> {
  try {
    const users = await findBegunDeletions(database, minAgeSeconds)
    accountDeletions.unfinished = users.length
    for (const userId of users) {
      if (signal?.aborted === true) break
      await accountDeletions.finish(userId, signal)
    }
    return true
  } catch (error) {
    // An outage is logged elsewhere.
    if (!isDatabaseUnavailable(error)) {
      log.warn({ err: error }, 'unfinished deletions of accounts could not be found; trying again later')
    }
    return false
  }
}

/** Finishes interrupted deletions of accounts, soon after the start and every 30 seconds. */
export default fp(async (app) => {
  const deletions = new AccountDeletions(app)
  app.decorate('accountDeletions', deletions)
  addCounter(
    app.metrics,
    {
      name: 'landfall_account_deletions_total',
      help: 'Deletions of accounts by event: begun (by their users), finished, or failed (an attempt; ' +
        'another follows)'
    },
    () => deletions.counts,
    'event'
  )
  addGauge(app.metrics, {
    name: 'landfall_unfinished_account_deletions',
    help: 'Unfinished deletions of accounts that this process found when it last looked',
    aggregator: 'max'
  }, () => deletions.unfinished)
  let minAgeSeconds = 0
  runPeriodically(app, { intervalMs: INTERVAL_MS, extraAfterMs: START_DELAY_MS }, async (signal) => {
    if (await resumeDeletions(app, { minAgeSeconds, signal })) minAgeSeconds = MIN_AGE_SECONDS
  })
  runPeriodically(app, { intervalMs: RETRY_MS }, async (signal) => await deletions.retryInterrupted(signal))
}, { name: 'account-deletion', dependencies: ['database', 'document-cache', 'file-store', 'metrics'] })
