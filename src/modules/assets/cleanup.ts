import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../../infra/postgres/database.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addCounter, addGauge } from '../../infra/telemetry/metrics.ts'
import type { FileStore } from './storage/file-store.ts'
import { claimFiles, wrongOwnerMessage } from './storage/ownership.ts'
import { referencedKeys } from './asset-repository.ts'

// Removes files that interrupted uploads left behind.

const HOUR_MS = 60 * 60 * 1000
/** Keys per query. */
const BATCH_SIZE = 500

export interface SweepOptions {
  /** Time between two sweeps. */
  readonly intervalMs?: number
  /** Younger files are kept, because an upload to any replica may still be using them. */
  readonly minAgeMs?: number
  /** Called after each sweep with the numbers of removed files, or with undefined when it failed. */
  readonly onSwept?: (result: SweepResult | undefined) => void
}

export interface SweepResult {
  readonly unfinished: number
  readonly unreferenced: number
}

/**
 * Removes unfinished uploads and files without a row. Keeps files whose names the service can't have created.
 *
 * @param signal stops the sweep between two files
 * @throws {Error} when the files belong to another database; files without a row are then kept
 */
export async function sweep (
  database: Database,
  store: FileStore,
  { minAgeMs = HOUR_MS }: SweepOptions = {},
  signal?: AbortSignal
): Promise<SweepResult> {
  const unfinished = await store.removeUnfinished(minAgeMs, signal)
  let unreferenced = 0
  const removeUnreferenced = async (keys: readonly string[]) => {
    const referenced = await referencedKeys(database, keys)
    if (referenced.size === keys.length) return
    if (!await claimFiles(database, store)) throw new Error(wrongOwnerMessage(store))
    for (const key of keys) {
      if (signal?.aborted === true) return
      if (!referenced.has(key) && await removeUnlessReferenced(database, store, key, minAgeMs)) unreferenced++
    }
  }
  let batch: string[] = []
  for await (const key of store.keys()) {
    if (signal?.aborted === true) return { unfinished, unreferenced }
    batch.push(key)
    if (batch.length < BATCH_SIZE) continue
    await removeUnreferenced(batch)
    batch = []
  }
  if (batch.length > 0) await removeUnreferenced(batch)
  return { unfinished, unreferenced }
}

/** Removes a file if it has no row and is at least `minAgeMs` old. @returns whether it was removed */
export async function removeUnlessReferenced (
  database: Database,
  store: FileStore,
  key: string,
  minAgeMs = 0
): Promise<boolean> {
  // The age is checked first. The row of a file that is old enough exists before the query begins.
  const info = await store.stat(key)
  // Without a minimum age, times aren't compared, because some storages round them up by up to a second.
  if (info === undefined || (minAgeMs > 0 && Date.now() - info.publishedAtMs < minAgeMs)) return false
  if ((await referencedKeys(database, [key])).has(key)) return false
  return await store.remove(key)
}

/**
 * Sweeps now and then every hour until the app closes. Failures are logged.
 *
 * @returns a promise for the end of the first sweep; it never rejects
 */
export function startAssetSweep (app: FastifyInstance, options: SweepOptions = {}): Promise<void> {
  const run = runPeriodically(
    app,
    { intervalMs: options.intervalMs ?? HOUR_MS },
    async (signal) => await sweepAndLog(app.database, app.files, options, app.log, signal)
  )
  return run()
}

function sweepMetrics ({ metrics }: FastifyInstance): NonNullable<SweepOptions['onSwept']> {
  const sweeps = { ok: 0, failed: 0 }
  const files = { unfinished: 0, unreferenced: 0 }
  let lastAt = 0
  const sweepsTotal = { name: 'landfall_sweeps_total', help: 'Sweeps of the uploads by their result' }
  addCounter(metrics, sweepsTotal, () => sweeps, 'result')
  const filesTotal = { name: 'landfall_swept_files_total', help: 'Unfinished and unreferenced files removed' }
  addCounter(metrics, filesTotal, () => files, 'kind')
  addGauge(metrics, {
    name: 'landfall_sweep_last_success_timestamp_seconds',
    help: 'Time of the last successful sweep; 0 before the first',
    aggregator: 'max'
  }, () => lastAt)
  return (result) => {
    sweeps[result === undefined ? 'failed' : 'ok']++
    if (result === undefined) return
    lastAt = Date.now() / 1000
    files.unfinished += result.unfinished
    files.unreferenced += result.unreferenced
  }
}

async function sweepAndLog (
  database: Database,
  store: FileStore,
  options: SweepOptions,
  log: FastifyBaseLogger,
  signal: AbortSignal
): Promise<void> {
  try {
    const removed = await sweep(database, store, options, signal)
    options.onSwept?.(removed)
    if (removed.unfinished + removed.unreferenced > 0) log.info(removed, 'removed leftover uploads')
  } catch (error) {
    options.onSwept?.(undefined)
    log.warn({ err: error }, 'the sweep of the uploads failed; the next one will try again')
  }
}

export default fp<SweepOptions>(async (app, options) => {
  const { database, files, log } = app
  try {
    if (!await claimFiles(database, files)) log.warn(wrongOwnerMessage(files))
  } catch (error) {
    log.warn({ err: error }, 'the owner of the uploads could not be checked; the sweep will check again')
  }
  startAssetSweep(app, { ...options, onSwept: sweepMetrics(app) }).catch(() => {}) // never rejects
}, { name: 'asset-sweep', dependencies: ['database', 'file-store', 'metrics'] })
