import fp from 'fastify-plugin'
import type { Database } from '../../infra/postgres/database.ts'
import { identifyDatabase } from '../../infra/postgres/identity-repository.ts'
import { runPeriodically } from '../../infra/system/periodic-task.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import type { FileStore } from './storage/file-store.ts'
import { areForeign, wrongOwnerMessage } from './storage/owner.ts'
import { possibleOriginals, isPicture, stemOf } from './storage/storage-key.ts'
import { referencedKeys, deleteAssets, listAssetsOf, type OwnedFile } from './asset-repository.ts'
import { queueFilePurge } from '../cdn/index.ts'
import { settleMessages } from '../landing-pages/index.ts'
import { forEachConcurrently } from '../../infra/system/semaphore.ts'

// Removes files that interrupted uploads left behind, and variants of pictures that are gone.

const HOUR_MS = 60 * 60 * 1000
/** Names per query. */
const BATCH_SIZE = 500

export interface SweepResult {
  readonly unfinished: number
  readonly unreferenced: number
  /** Deleted pictures whose variants were still there, and were removed. */
  readonly variants: number
}

/**
 * Removes unfinished uploads, files without a row, and variants without an original. Keeps files whose names
 * the service can't have created.
 *
 * @param minAgeMs younger files are kept, because an upload to any replica may still be using them
 * @param signal stops the sweep between two files
 * @throws {Error} when the files belong to another database; files without a row are then kept
 */
export async function sweep (
  database: Database,
  store: FileStore,
  minAgeMs = HOUR_MS,
  signal?: AbortSignal
): Promise<SweepResult> {
  const unfinished = await store.removeUnfinished(minAgeMs, signal)
  async function removeOrphans (
    names: AsyncIterable<string>,
    keysOf: (name: string) => readonly string[],
    remove: (name: string) => Promise<boolean>
  ): Promise<number> {
    let removed = 0
    for await (const batch of inBatches(names)) {
      const orphans = await withoutRow(database, batch, keysOf)
      if (orphans.length > 0 && !await claimFiles(database, store)) throw new Error(wrongOwnerMessage(store))
      for (const name of orphans) {
        if (signal?.aborted === true) break
        if (await remove(name)) removed++
      }
      if (signal?.aborted === true) break
    }
    return removed
  }
  const unreferenced = await removeOrphans(
    store.keys(),
    (key) => [key],
    async (key) => await removeUnlessReferenced(database, store, key, minAgeMs)
  )
  const variants = await removeOrphans(store.stemsWithVariants(), possibleOriginals, async (stem) => {
    await store.removeVariants(stem)
    return true
  })
  return { unfinished, unreferenced, variants }
}

async function* inBatches (names: AsyncIterable<string>): AsyncGenerator<string[]> {
  let batch: string[] = []
  for await (const name of names) {
    if (batch.push(name) < BATCH_SIZE) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

/** Returns the names none of whose keys has a row. */
async function withoutRow (
  database: Database,
  names: readonly string[],
  keysOf: (name: string) => readonly string[]
): Promise<string[]> {
  const referenced = await referencedKeys(database, names.flatMap(keysOf))
  return names.filter((name) => !keysOf(name).some((key) => referenced.has(key)))
}

/** The storage may still serve a file for a moment after its removal. */
const SETTLED_AFTER_SECONDS = 3

/**
 * Removes a file and its variants, also from the CDN.
 *
 * @returns false if there certainly was no such file
 */
export async function removeFile (database: Database, store: FileStore, key: string): Promise<boolean> {
  const purges = await queueFilePurge(database, key, isPicture(key) ? stemOf(key) : undefined)
  const existed = await store.remove(key)
  // If this fails, the purge follows a minute later.
  if (purges.length > 0) await settleMessages(database, purges, SETTLED_AFTER_SECONDS).catch(() => {})
  return existed
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
  return await removeFile(database, store, key)
}

/**
 * Tells whether the files belong to the database, so that a wrong DATABASE_URL doesn't make the cleanup
 * delete them. Claims an empty storage, and also files without an owner if one of them has a row.
 *
 * @throws {Error} if the database is a standby, which may lack rows
 */
export async function claimFiles (database: Database, store: FileStore): Promise<boolean> {
  const { id, isStandby } = await identifyDatabase(database)
  if (isStandby) throw new Error('the database is a standby')
  const owner = await store.owner()
  if (owner === id) return true
  if (await areForeign(store, owner, async (keys) => await referencedKeys(database, keys))) return false
  await store.setOwner(id)
  return true
}

/** Sweeps at the start and then every hour. Failures are logged. */
export default fp(async (app) => {
  const { database, files, log } = app
  try {
    if (!await claimFiles(database, files)) log.warn(wrongOwnerMessage(files))
  } catch (error) {
    log.warn({ err: error }, 'the owner of the uploads could not be checked; the sweep will check again')
  }
  const sweeps = { ok: 0, failed: 0 }
  const sum = { unfinished: 0, unreferenced: 0, variants: 0 }
  let lastAt = 0
  addMetrics(app.metrics, {
    landfall_sweeps_total: ['Sweeps of the uploads by their result', () => sweeps, { label: 'result' }],
    landfall_swept_files_total: [
      'Unfinished uploads, files without a row and sets of variants removed',
      () => sum,
      { label: 'kind' }
    ],
    landfall_sweep_last_success_timestamp_seconds: [
      'Time of the last successful sweep; 0 before the first',
      () => lastAt,
      { aggregator: 'max' }
    ]
  })
  const run = runPeriodically(app, { intervalMs: HOUR_MS }, async (signal) => {
    try {
      const removed = await sweep(database, files, HOUR_MS, signal)
      sweeps.ok++
      lastAt = Date.now() / 1000
      for (const kind of ['unfinished', 'unreferenced', 'variants'] as const) sum[kind] += removed[kind]
      if (removed.unfinished + removed.unreferenced + removed.variants > 0) {
        log.info(removed, 'removed leftover uploads')
      }
    } catch (error) {
      sweeps.failed++
      log.warn({ err: error }, 'the sweep of the uploads failed; the next one will try again')
    }
  })
  run().catch(() => {}) // never rejects
}, { name: 'asset-sweep', dependencies: ['database', 'file-store', 'metrics'] })

const ASSETS_PER_STATEMENT = 100

/** What became of the assets of an account. */
export interface RemovedAssets {
  /** Assets that were removed, also those with a missing file. */
  readonly assets: number
  /** Files that were gone already. */
  readonly missing: number
  /** Assets whose files could not be removed, as the file store has logged. They keep their rows. */
  readonly failed: number
}

/**
 * Removes the assets of a user, whose account is being deleted. The files go before their rows, so that the
 * rows left by a crash tell which files are left.
 *
 * @param signal stops between two batches
 */
export async function removeAssetsOf (
  database: Database,
  store: FileStore,
  userId: number,
  signal?: AbortSignal
): Promise<RemovedAssets> {
  let [assets, missing, failed] = [0, 0, 0]
  for (let after: string | undefined; signal?.aborted !== true;) {
    const batch = await listAssetsOf(database, userId, { after, limit: ASSETS_PER_STATEMENT })
    const removed: OwnedFile[] = []
    await forEachConcurrently(batch, store.filesAtOnce, async (asset) => {
      const existed = await removeFile(database, store, asset.storageKey).catch(() => undefined)
      if (existed !== undefined) removed.push(asset)
      if (existed === false) missing++
    })
    if (removed.length > 0) await deleteAssets(database, removed.map(({ id }) => id))
    // A variant may have been stored between the removal of its picture and that of the row. The sweep
    // removes what this leaves.
    const pictures = removed.filter(({ storageKey }) => isPicture(storageKey))
    await forEachConcurrently(pictures, store.filesAtOnce, async ({ storageKey }) => {
      await store.removeVariants(stemOf(storageKey)).catch(() => {})
    })
    assets += removed.length
    failed += batch.length - removed.length
    if (batch.length < ASSETS_PER_STATEMENT) break
    after = batch.at(-1)?.id
  }
  return { assets, missing, failed }
}
