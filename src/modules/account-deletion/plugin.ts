import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { isDatabaseUnavailable } from '../../infra/postgres/unavailable.ts'
import { runPeriodically, whileRenewing } from '../../infra/system/periodic-task.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { OLDEST } from '../../http/pagination.ts'
import { removeAssetsOf, type FileStore, type RemovedAssets } from '../assets/index.ts'
import { deletePages, listPagesOf } from '../landing-pages/index.ts'
import { claimDeletion, CLAIM_MS, deleteUser, extendClaim,
  findBegunDeletions } from './deletion-repository.ts'

declare module 'fastify' {
  interface FastifyInstance {
    accountDeletions: AccountDeletions
  }
}

/** Interval between checks for unfinished deletions. */
const INTERVAL_MS = 10 * 1000
/** Time until the first look: the process before this one may have died in a deletion. */
const START_DELAY_MS = 1000
/** How long a request waits for the rest when the pages are hidden. */
const MAX_WAIT_MS = 2000
/** Few, because each may have many large versions. */
const PAGES_PER_STATEMENT = 10
/** Pages that are published together as deleted. */
const PUBLISHED_AT_ONCE = 500

export interface RemovedContent extends RemovedAssets {
  readonly pages: number
  /** Whether this call has removed the last of it, the row of the account. */
  readonly isFinished: boolean
}

/**
 * Removes all pages of an account whose deletion has begun from the caches. Readers get a 404 from then on,
 * because the public read finds no pages of such an account.
 *
 * @param publish publishes to all caches that pages are deleted, and must not reject
 */
export async function hidePages (
  database: Database,
  userId: number,
  publish: (publicIds: readonly string[]) => Promise<void>
): Promise<void> {
  for (let after = OLDEST;;) {
    const pages = await listPagesOf(database, userId, after, PUBLISHED_AT_ONCE)
    await publish(pages.map(({ publicId }) => publicId))
    if (pages.length < PUBLISHED_AT_ONCE) return
    after = pages.at(-1)?.id as string
  }
}

/**
 * Removes what belongs to an account whose deletion has begun, and then the account. It may be interrupted at
 * any time, and run again, also by several processes at once. The pages must be hidden.
 *
 * @param signal stops between two batches
 */
export async function finishDeletion (
  { database, files }: { readonly database: Database, readonly files: FileStore },
  userId: number,
  signal?: AbortSignal
): Promise<RemovedContent> {
  let pages = 0
  for (let after = OLDEST; signal?.aborted !== true;) {
    const ids = (await listPagesOf(database, userId, after, PAGES_PER_STATEMENT)).map(({ id }) => id)
    await deletePages(database, ids)
    pages += ids.length
    if (ids.length < PAGES_PER_STATEMENT) break
    after = ids.at(-1) as string
  }
  const assets = await removeAssetsOf(database, files, userId, signal)
  const isEmpty = assets.failed === 0 && signal?.aborted !== true
  const isFinished = isEmpty && await deleteUser(database, userId)
  return { pages, ...assets, isFinished }
}

export class AccountDeletions {
  readonly counts = { begun: 0, finished: 0, failed: 0 }
  /** How many unfinished deletions this process found when it last looked. */
  unfinishedCount = 0
  readonly #app: FastifyInstance
  readonly #running = new Set<Promise<void>>()
  readonly #stop = new AbortController()

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Starts a deletion that has begun. Resolves when it is finished or has failed, and at the latest two
   * seconds after its pages are hidden.
   */
  async start (userId: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const resolveSoon = () => setTimeout(resolve, MAX_WAIT_MS).unref()
      const finished = this.finish(userId, this.#stop.signal, resolveSoon).finally(() => {
        resolve()
        this.#running.delete(finished)
      })
      this.#running.add(finished)
    })
  }

  /** Interrupts the deletions of start(). Another process goes on with them. */
  async close (): Promise<void> {
    this.#stop.abort()
    await Promise.all(this.#running)
  }

  /**
   * Finishes a deletion that has begun, unless another process works on it. Never rejects: failures are
   * logged, and it is tried again later.
   *
   * @param onHidden is called when readers get a 404 for all pages
   */
  async finish (userId: number, signal?: AbortSignal, onHidden?: () => void): Promise<void> {
    const { database } = this.#app
    try {
      if (!await claimDeletion(database, userId)) return
      const renew = async () => await extendClaim(database, userId)
      await whileRenewing(renew, CLAIM_MS / 3, async () => await this.#run(userId, signal, onHidden))
        .finally(async () => await extendClaim(database, userId, null))
    } catch (error) {
      this.#fail(userId, error)
    }
  }

  async #run (userId: number, signal?: AbortSignal, onHidden?: () => void): Promise<void> {
    const { database, documents, files } = this.#app
    await hidePages(database, userId, async (publicIds) => await documents.publishDeletions(publicIds))
    onHidden?.()
    const removed = await finishDeletion({ database, files }, userId, signal)
    if (removed.isFinished) this.counts.finished++
    if (removed.failed > 0) this.#fail(userId, new Error(`${removed.failed} files could not be removed`))
  }

  #fail (userId: number, error: unknown): void {
    this.counts.failed++
    this.#app.log.warn(
      { err: error, user: userId },
      'the deletion of an account is not finished; trying again later'
    )
  }
}

/** Finishes deletions that an earlier attempt, of any process, has left unfinished. */
export async function resumeDeletions (
  { accountDeletions, database, log }: FastifyInstance,
  signal?: AbortSignal
): Promise<void> {
  try {
    const { unfinishedCount, unclaimed } = await findBegunDeletions(database)
    accountDeletions.unfinishedCount = unfinishedCount
    for (const userId of unclaimed) {
      if (signal?.aborted === true) break
      await accountDeletions.finish(userId, signal)
    }
  } catch (error) {
    // An outage is logged elsewhere.
    if (!isDatabaseUnavailable(error)) {
      log.warn({ err: error }, 'unfinished deletions of accounts could not be found; trying again later')
    }
  }
}

/** Finishes interrupted deletions of accounts, soon after the start and every ten seconds. */
export default fp(async (app) => {
  const deletions = new AccountDeletions(app)
  app.decorate('accountDeletions', deletions)
  app.addHook('onClose', async () => await deletions.close())
  addMetrics(app.metrics, {
    landfall_account_deletions_total: [
      'Deletions of accounts by event: begun (by users), finished, or failed (an attempt; another follows)',
      () => deletions.counts,
      { label: 'event' }
    ],
    landfall_unfinished_account_deletions: [
      'Unfinished deletions of accounts that this process found when it last looked',
      () => deletions.unfinishedCount,
      { aggregator: 'max' }
    ]
  })
  runPeriodically(app, { intervalMs: INTERVAL_MS, extraAfterMs: START_DELAY_MS }, async (signal) => {
    await resumeDeletions(app, signal)
  })
}, { name: 'account-deletion', dependencies: ['database', 'document-cache', 'file-store', 'metrics'] })
