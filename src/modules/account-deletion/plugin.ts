import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter, addGauge } from '../../infra/telemetry/metrics.ts'
import { findBegunDeletions } from '../accounts/index.ts'
import { finishDeletion } from './finish-deletion.ts'

declare module 'fastify' {
  interface FastifyInstance {
    accountDeletions: AccountDeletions
  }
}

const INTERVAL_MS = 60 * 1000
/** A younger deletion is usually still running in the process that began it. */
const MIN_AGE_SECONDS = 60

/** The deletions of accounts by this process. */
export class AccountDeletions {
  readonly counts = { begun: 0, finished: 0, failed: 0 }
  /** The deletions that had to be resumed when this process last looked. */
  unfinished = 0
  readonly #app: FastifyInstance

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /** Finishes a deletion that has begun. Failures are logged, and resumeDeletions() tries again. */
  async finish (userId: number, signal?: AbortSignal): Promise<void> {
    const { database, documents, files, log } = this.#app
    const publish = async (publicIds: readonly string[]): Promise<void> => {
      await Promise.all(publicIds.map(async (publicId) => await documents.publish(publicId, undefined)))
    }
    try {
      const removed = await finishDeletion({ database, files, publish }, userId, signal)
      if (removed.isFinished) this.counts.finished++
      if (removed.failed > 0) throw new Error(`${removed.failed} files could not be removed`)
    } catch (error) {
      this.counts.failed++
      log.warn({ err: error, user: userId }, 'the deletion of an account is not finished; trying again later')
    }
  }
}

/** Finishes deletions that an earlier attempt, of any process, has left unfinished. */
export async function resumeDeletions (
  { accountDeletions, database, log }: FastifyInstance,
  { minAgeSeconds = MIN_AGE_SECONDS, signal }: {
    readonly minAgeSeconds?: number
    readonly signal?: AbortSignal
  } = {}
): Promise<void> {
  try {
    const users = await findBegunDeletions(database, minAgeSeconds)
    accountDeletions.unfinished = users.length
    for (const userId of users) {
      if (signal?.aborted === true) return
      await accountDeletions.finish(userId, signal)
    }
  } catch (error) {
    log.warn({ err: error }, 'unfinished deletions of accounts could not be found; trying again later')
  }
}

/** Finishes interrupted deletions of accounts, every minute. */
export default fp(async (app) => {
  const deletions = new AccountDeletions(app)
  app.decorate('accountDeletions', deletions)
  addCounter(
    app.metrics,
    {
      name: 'landfall_account_deletions_total',
      help:
        'Deletions of accounts by event: begun (by their users), finished, or failed (an attempt; another follows)'
    },
    () => deletions.counts,
    'event'
  )
  addGauge(app.metrics, {
    name: 'landfall_unfinished_account_deletions',
    help: 'Deletions of accounts that began more than a minute before this process last looked for them',
    aggregator: 'max'
  }, () => deletions.unfinished)
  runPeriodically(app, { intervalMs: INTERVAL_MS }, async (signal) => {
    await resumeDeletions(app, { signal })
  })
}, { name: 'account-deletion', dependencies: ['database', 'document-cache', 'file-store', 'metrics'] })
