import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { PrismaClient } from '../generated/prisma/client.ts'
import { counterOf, gaugeOf } from '../plugins/metrics.ts'
import type { FileStore } from './file-store.ts'
import { claimFiles, foreign } from './ownership.ts'
import { referencedKeys } from './repository.ts'

// Removes what crashes leave. Other replicas may be at work in the same place: only what hasn't changed for long goes.

const HOUR_MS = 60 * 60 * 1000
/** Names in one question to the database. */
const BATCH_SIZE = 500

export interface SweepOptions {
  /** From one sweep to the next, in milliseconds. */
  readonly intervalMs?: number
  /** How long an unfinished file must have been left alone. */
  readonly unfinishedAgeMs?: number
  /** How long ago a file must have got its name, before it counts as one whose row will never come. */
  readonly unreferencedAgeMs?: number
  /** Told of each sweep: what it removed, or undefined when it failed. */
  readonly onSwept?: (result: SweepResult | undefined) => void
}

export interface SweepResult {
  readonly unfinished: number
  readonly unreferenced: number
}

/**
 * Sweeps once. Only names that the service gives are touched, whatever else lies beside them.
 *
 * @param signal ends it between two files
 * @throws {Error} when the files belong to another database: none of them is removed then
 */
export async function sweep (
  database: PrismaClient, store: FileStore, { unfinishedAgeMs = HOUR_MS, unreferencedAgeMs = HOUR_MS }: SweepOptions = {}, signal?: AbortSignal
): Promise<SweepResult> {
  const unfinished = await store.removeUnfinished(unfinishedAgeMs, signal)

  let unreferenced = 0
  const removeUnreferenced = async (keys: readonly string[]) => {
    const referenced = await referencedKeys(database, keys)
    if (referenced.size === keys.length) return
    if (!await claimFiles(database, store)) throw new Error(foreign(store))
    for (const key of keys) {
      if (signal?.aborted === true) return
      if (!referenced.has(key) && await removeUnlessReferenced(database, store, key, unreferencedAgeMs)) unreferenced++
    }
  }
  let batch: string[] = []
  for await (const key of store.keys(signal)) {
    batch.push(key)
    if (batch.length < BATCH_SIZE) continue
    await removeUnreferenced(batch)
    batch = []
  }
  if (batch.length > 0) await removeUnreferenced(batch)
  return { unfinished, unreferenced }
}

/** Removes a published file that has no row and is old enough. @returns whether it did */
export async function removeUnlessReferenced (database: PrismaClient, store: FileStore, key: string, ageMs = 0): Promise<boolean> {
  // Age first, row second: a file that is old by now got its name before the question, so its row would be there.
  const info = await store.look(key)
  // Some storages tell times in whole seconds, rounded up.
  if (info === undefined || (ageMs > 0 && Date.now() - info.namedAtMs < ageMs)) return false
  if ((await referencedKeys(database, [key])).has(key)) return false
  return await store.delete(key)
}

/**
 * Sweeps in the background, at once and then every hour, until the app closes. A sweep that fails is logged, and the next
 * one makes up for it.
 *
 * @returns the first sweep, for those who want to wait for it; it never rejects
 */
export function startAssetSweep (app: FastifyInstance, options: SweepOptions = {}): Promise<void> {
  const stop = new AbortController()
  let running = Promise.resolve()
  const run = () => {
    running = running.then(async () => await sweepAndLog(app.database, app.files, options, app.log, stop.signal))
    return running
  }
  const timer = setInterval(run, options.intervalMs ?? HOUR_MS).unref()
  app.addHook('onClose', async () => {
    clearInterval(timer)
    stop.abort()
    await running
  })
  return run()
}

function sweepMetrics ({ metrics }: FastifyInstance): NonNullable<SweepOptions['onSwept']> {
  const sweeps = { ok: 0, failed: 0 }
  const files = { unfinished: 0, unreferenced: 0 }
  let lastAt = 0
  counterOf(metrics, { name: 'landfall_sweeps_total', help: 'Sweeps of the folder of the uploads' }, () => sweeps, 'result')
  counterOf(metrics, { name: 'landfall_swept_files_total', help: 'Files that sweeps removed: of uploads that never ended, or without a row' }, () => files, 'kind')
  gaugeOf(metrics, { name: 'landfall_sweep_last_success_timestamp_seconds', help: 'When the last sweep succeeded; 0 before the first', aggregator: 'max' }, () => lastAt)
  return (result) => {
    sweeps[result === undefined ? 'failed' : 'ok']++
    if (result === undefined) return
    lastAt = Date.now() / 1000
    files.unfinished += result.unfinished
    files.unreferenced += result.unreferenced
  }
}

async function sweepAndLog (
  database: PrismaClient, store: FileStore, options: SweepOptions, log: FastifyBaseLogger, signal: AbortSignal
): Promise<void> {
  if (signal.aborted) return
  try {
    const removed = await sweep(database, store, options, signal)
    options.onSwept?.(removed)
    if (removed.unfinished + removed.unreferenced > 0) log.info(removed, 'swept the folder of the uploads')
  } catch (error) {
    options.onSwept?.(undefined)
    log.warn({ err: error }, 'the folder of the uploads could not be swept; the next try comes by itself')
  }
}

export default fp<SweepOptions>(async (app, options) => {
  const { database, files, log } = app
  try {
    if (!await claimFiles(database, files)) log.warn(foreign(files))
  } catch (error) {
    log.warn({ err: error }, 'whose the uploads are could not be told; the sweep will ask again')
  }
  startAssetSweep(app, { ...options, onSwept: sweepMetrics(app) }).catch(() => {}) // it logs what fails, and nothing waits for it
}, { name: 'asset-sweep', dependencies: ['database', 'file-store', 'metrics'] })
