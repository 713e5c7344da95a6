import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { StatementRunner } from '../../infra/postgres/statement.ts'
import { isDatabaseUnavailable } from '../../infra/postgres/unavailable.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter, addGauge } from '../../infra/telemetry/metrics.ts'
import { revokeAccess } from '../accounts/index.ts'
import { removeAssetsOf, type FileStore, type RemovedAssets } from '../assets/index.ts'
import { deletePagesOf } from '../landing-pages/index.ts'
import { deleteUser, findBegunDeletions } from './deletion-repository.ts'

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

/** Few, because each may have many large versions. */
const PAGES_PER_STATEMENT = 10

interface DeletionTools {
  readonly database: StatementRunner
  readonly files: FileStore
  /** Publishes to all caches that pages are deleted. Must not reject. */
  readonly publish: (publicIds: readonly string[]) => Promise<void>
}

/** What was removed with an account. */
export interface RemovedContent extends RemovedAssets {
  readonly pages: number
  /** Whether this call has removed the last of it, the row of the account. */
  readonly isFinished: boolean
}

/**
 * Removes what belongs to an account whose deletion has begun, and then the account. It may be interrupted at
 * any time, and run again, also by several processes at once.
 *
 * @param signal stops between two batches
 */
export async function finishDeletion (
  { database, files, publish }: DeletionTools,
  userId: number,
  signal?: AbortSignal
): Promise<RemovedContent> {
  // A sign-in that was under way when the deletion began may have started a session since.
  await revokeAccess(database, userId)
  let pages = 0
  while (signal?.aborted !== true) {
    const publicIds = await deletePagesOf(database, userId, PAGES_PER_STATEMENT)
    await publish(publicIds)
    pages += publicIds.length
    if (publicIds.length < PAGES_PER_STATEMENT) break
  }
  const assets = await removeAssetsOf(database, files, userId, signal)
  const isEmpty = assets.failed === 0 && signal?.aborted !== true
  const isFinished = isEmpty && await deleteUser(database, userId)
  return { pages, ...assets, isFinished }
}

/** The deletions of accounts by this process. */
class AccountDeletions {
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
