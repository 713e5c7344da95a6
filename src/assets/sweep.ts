import { lstat, opendir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { PrismaClient } from '../generated/prisma/client.ts'
import { isPublicId } from '../identifiers.ts'
import { DiskStore, isMissing } from './disk-store.ts'
import { referencedKeys } from './repository.ts'
import { presentationOf } from './storage-key.ts'

// Removes what crashes leave. Other replicas may be at work in the same folder: only what hasn't changed for long goes.

const HOUR_MS = 60 * 60 * 1000
/** Names in one question to the database. */
const BATCH_SIZE = 500

export interface SweepOptions {
  /** From one sweep to the next, in milliseconds. */
  readonly intervalMs?: number
  /** How long a temporary file must have been left alone. One that grows is changed all the time. */
  readonly unfinishedAgeMs?: number
  /** How long ago a file must have got its name, before it counts as one whose row will never come. */
  readonly unreferencedAgeMs?: number
}

export interface SweepResult {
  readonly unfinished: number
  readonly unreferenced: number
}

/**
 * Sweeps once. Only names that the service gives are touched, whatever else lies in the folder.
 *
 * @param signal ends it between two files
 */
export async function sweep (
  database: PrismaClient, store: DiskStore, { unfinishedAgeMs = HOUR_MS, unreferencedAgeMs = HOUR_MS }: SweepOptions = {}, signal?: AbortSignal
): Promise<SweepResult> {
  let unfinished = 0
  for await (const name of names(store.temporaryFolder, isPublicId, signal)) {
    if (await removeOld(join(store.temporaryFolder, name), unfinishedAgeMs)) unfinished++
  }

  let unreferenced = 0
  const removeUnreferenced = async (keys: readonly string[]) => {
    const referenced = await referencedKeys(database, keys)
    for (const key of keys) {
      if (signal?.aborted === true) return
      if (!referenced.has(key) && await removeUnlessReferenced(database, store, key, unreferencedAgeMs)) unreferenced++
    }
  }
  let batch: string[] = []
  for await (const name of names(store.folder, (name) => presentationOf(name) !== undefined, signal)) {
    batch.push(name)
    if (batch.length < BATCH_SIZE) continue
    await removeUnreferenced(batch)
    batch = []
  }
  if (batch.length > 0) await removeUnreferenced(batch)
  return { unfinished, unreferenced }
}

/** Removes a published file that has no row and is old enough. @returns whether it did */
export async function removeUnlessReferenced (database: PrismaClient, store: DiskStore, key: string, ageMs = 0): Promise<boolean> {
  const path = join(store.folder, key)
  // Age first, row second: a file that is old by now got its name before the question, so its row would be there.
  if (!await isOld(path, ageMs)) return false
  if ((await referencedKeys(database, [key])).has(key)) return false
  return await remove(path)
}

async function removeOld (path: string, ageMs: number): Promise<boolean> {
  return await isOld(path, ageMs) && await remove(path)
}

async function isOld (path: string, ageMs: number): Promise<boolean> {
  try {
    const stats = await lstat(path)
    // The time of change covers files that were copied here with their old times, ahead of their rows.
    return stats.isFile() && Date.now() - Math.max(stats.mtimeMs, stats.ctimeMs) >= ageMs
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function remove (path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false // another replica was faster
    throw error
  }
}

async function * names (folder: string, ours: (name: string) => boolean, signal?: AbortSignal): AsyncGenerator<string> {
  let entries
  try {
    entries = await opendir(folder)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  for await (const entry of entries) {
    if (signal?.aborted === true) return
    if (ours(entry.name)) yield entry.name
  }
}

/**
 * Sweeps in the background, at once and then every hour, until the app closes. A sweep that fails is logged, and the next
 * one makes up for it.
 *
 * @returns the first sweep, for those who want to wait for it; it never rejects
 */
export function startAssetSweep (app: FastifyInstance, options: SweepOptions = {}): Promise<void> {
  const store = new DiskStore(app.config.UPLOADS_DIR, app.log)
  const stop = new AbortController()
  let running = Promise.resolve()
  const run = () => {
    running = running.then(async () => await sweepAndLog(app.database, store, options, app.log, stop.signal))
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

async function sweepAndLog (
  database: PrismaClient, store: DiskStore, options: SweepOptions, log: FastifyBaseLogger, signal: AbortSignal
): Promise<void> {
  if (signal.aborted) return
  try {
    const removed = await sweep(database, store, options, signal)
    if (removed.unfinished + removed.unreferenced > 0) log.info(removed, 'swept the folder of the uploads')
  } catch (error) {
    log.warn({ err: error }, 'the folder of the uploads could not be swept; the next try comes by itself')
  }
}

export default fp<SweepOptions>(async (app, options) => {
  startAssetSweep(app, options).catch(() => {}) // it logs what fails, and nothing waits for it
}, { name: 'asset-sweep', dependencies: ['database'] })
