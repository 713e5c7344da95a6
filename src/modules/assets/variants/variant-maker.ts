import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { createUnavailableError, DiskFullError, RetryLaterError } from '../../../errors.ts'
import type { Asset } from '../../../infra/postgres/generated/prisma/client.ts'
import { IsolatedProcessError,
  type IsolatedProcess } from '../../../infra/isolated-process/isolated-process.ts'
import type { RedisClient } from '../../../infra/redis/redis-client.ts'
import { whileRenewing } from '../../../infra/system/periodic-task.ts'
import { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { SingleFlight } from '../../../infra/system/single-flight.ts'
import { countVariantFailure, findOriginal, referencedKeys, updatePicture } from '../asset-repository.ts'
import type { StagedFile } from '../storage/file-store.ts'
import { stemOf, variantName } from '../storage/storage-key.ts'
import { maxPixelsOf, variantsOf, type PictureResult, type PictureTask, type Variant,
  type VariantSettings } from './variant.ts'

// Makes missing variants (docs/adr/0024-variants.md).

/** How long a request waits. A variant that nobody waits for any more is not begun, so that others are. */
const MAX_WAIT_MS = 10_000
/** Requests of one client address that may wait. */
const MAX_WAITING_PER_ADDRESS = 4
/** The Retry-After of a 503. Most variants are made by then. */
const RETRY_AFTER_SECONDS = 2
/** What a variant takes, roughly: a second for 10 million pixels. */
const MS_PER_PIXEL = 1e-4
/** Failed attempts after which a picture has no variants. */
const MAX_FAILURES = 3
/** Interval of looking whether another replica has made a variant. */
const RECHECK_MS = 250
/** Short, so that a variant is made again soon after a crash of the replica that holds the lock. */
const LOCK_MS = 5_000
const RENEWAL_MS = 1_500

/** `again`: the row of the original has changed. `elsewhere`: another replica is making the variant. */
type Outcome = 'made' | 'missing' | 'again' | 'elsewhere'

/** The result of one attempt. `missing`: the original has no file. */
type Attempt =
  | Exclude<PictureResult, { outcome: 'made' }>
  | { readonly outcome: 'staged', readonly file: StagedFile }
  | { readonly outcome: 'missing' }

/** Makes variants one after the other. Replicas that share a Redis make each of them once. */
export class VariantMaker {
  /** Attempts by their result; `unavailable` counts requests that got an error. */
  readonly counts = { made: 0, refused: 0, failed: 0, unavailable: 0 }
  readonly #app: FastifyInstance
  readonly #process: IsolatedProcess
  readonly #settings: VariantSettings
  readonly #flights = new SingleFlight<boolean>()
  /** How many requests wait for each variant, by its name. What nobody waits for isn't made. */
  readonly #requestsByVariant = new Map<string, number>()
  /** A place for each waiting request of a client address. Without a free one, a request is refused. */
  readonly #placesByAddress = new KeyedSemaphore<string>({
    maxRunning: MAX_WAITING_PER_ADDRESS,
    maxWaiting: 0,
    createRefusal: createBusyError
  })
  #isClosed = false

  constructor (app: FastifyInstance, process: IsolatedProcess, settings: VariantSettings) {
    this.#app = app
    this.#process = process
    this.#settings = settings
  }

  /**
   * Makes a variant whose file is missing.
   *
   * @param name a valid name of a variant
   * @param address the client's, which is limited
   * @returns whether its file exists now; false if the original has no such variant
   * @throws {RetryLaterError} 503
   */
  async make (name: string, address: string): Promise<boolean> {
    return await this.#placesByAddress.run(address, async () => {
      this.#requestsByVariant.set(name, (this.#requestsByVariant.get(name) ?? 0) + 1)
      const tooLate = sleep(MAX_WAIT_MS, undefined, { ref: false }).then(() => {
        throw createBusyError()
      })
      try {
        return await Promise.race([tooLate, this.#flights.run(name, async () => await this.#ensure(name))])
      } catch (error) {
        this.counts.unavailable++
        throw error
      } finally {
        const others = (this.#requestsByVariant.get(name) as number) - 1
        if (others > 0) this.#requestsByVariant.set(name, others)
        else this.#requestsByVariant.delete(name)
      }
    })
  }

  /** Refuses everything that waits, and ends the child process. */
  close (): void {
    this.#isClosed = true
    this.#process.close()
  }

  async #ensure (name: string): Promise<boolean> {
    while (!this.#isClosed) {
      const original = await findOriginal(this.#app.database, stemOf(name))
      const variant = original &&
        variantsOf(original, this.#settings).find((each) => variantName(each) === name)
      if (original === undefined || variant === undefined) return false
      const expectedMs = MS_PER_PIXEL * (original.width as number) * (original.height as number)
      const outcome = await this.#process.inTurn(
        original.userId,
        expectedMs,
        async () => await this.#makeLocked(original, variant)
      )
      if (outcome === 'made' || outcome === 'missing') return outcome === 'made'
      if (outcome === 'elsewhere') await sleep(RECHECK_MS, undefined, { ref: false })
    }
    throw createUnavailableError()
  }

  async #makeLocked (original: Asset, variant: Variant): Promise<Outcome> {
    const name = variantName(variant)
    if (!this.#requestsByVariant.has(name)) throw createBusyError()
    const made = await withLock(this.#app.redisClient, name, async () => {
      // Another replica may have made it while this one waited.
      if (await this.#app.files.stat(name) !== undefined) return 'made'
      return await this.#make(original, variant)
    }).catch((error: unknown) => {
      // A 507 would say that the reader's request is too large.
      throw error instanceof DiskFullError ? createUnavailableError() : error
    })
    return made ?? 'elsewhere'
  }

  async #make (original: Asset, variant: Variant): Promise<Outcome> {
    const { database, files, log } = this.#app
    const { id: asset, storageKey } = original
    const response = await this.#ask(original, variant)
    const { outcome } = response
    if (outcome === 'missing') return outcome
    if (outcome === 'staged') return await this.#publish(storageKey, response.file)
    if (outcome === 'mismatch') {
      await updatePicture(database, storageKey, response.original)
      return 'again'
    }
    log.warn({ asset, outcome, reason: response.reason }, 'a variant of a picture could not be made')
    if (outcome === 'too_costly') {
      this.counts.failed++
      const isLast = await countVariantFailure(database, storageKey, MAX_FAILURES)
      if (isLast) await files.removeVariants(stemOf(storageKey))
      throw createBusyError()
    }
    this.counts.refused++
    await updatePicture(database, storageKey, { noVariantsReason: outcome })
    await files.removeVariants(stemOf(storageKey))
    return 'again'
  }

  /** Asks the child process. If the picture makes it end, the picture counts as too costly. */
  async #ask (original: Asset, variant: Variant): Promise<Attempt> {
    const { files, log } = this.#app
    const file = await files.open(original.storageKey, true)
    if (file === undefined) return { outcome: 'missing' }
    const task: PictureTask = {
      contentType: original.contentType,
      original: { width: original.width as number, height: original.height as number },
      maxPixels: maxPixelsOf(original.contentType, this.#settings),
      width: variant.width,
      height: variant.height,
      extension: variant.extension
    }
    let staging: Promise<StagedFile> | undefined
    try {
      return await this.#process.run<PictureResult, Attempt>({
        kind: 'variant',
        task,
        input: await file.read(),
        byteSize: file.byteSize,
        async take (result, bytes) {
          if (result.outcome !== 'made') return result
          staging = files.receive(bytes, async () => ({ key: variantName(variant) }))
          return { outcome: 'staged', file: await staging }
        }
      })
    } catch (error) {
      // The process may end after its last byte, while the file is being stored.
      staging?.then(async (staged) => await staged.discard(), () => {})
      if (error instanceof IsolatedProcessError && ['ended', 'too_costly'].includes(error.reason)) {
        return { outcome: 'too_costly', reason: error.message }
      }
      if (error instanceof RetryLaterError || error instanceof DiskFullError) throw error
      log.error({ err: error, asset: original.id }, 'a variant of a picture could not be made')
      throw createUnavailableError()
    }
  }

  async #publish (storageKey: string, file: StagedFile): Promise<Outcome> {
    const { database, files } = this.#app
    let failure: unknown
    await file.publish().catch((error: unknown) => {
      failure = error
    })
    if ((await referencedKeys(database, [storageKey])).has(storageKey)) {
      if (failure !== undefined) throw failure
      this.counts.made++
      return 'made'
    }
    // The asset was deleted in the meantime, perhaps before this variant was there.
    await files.removeVariants(stemOf(storageKey))
    return 'missing'
  }
}

export function createBusyError (): RetryLaterError {
  return new RetryLaterError(503, 'The picture is not ready yet, try again shortly', RETRY_AFTER_SECONDS)
}

/**
 * Runs an action unless another replica is making the variant. Without Redis, it always runs.
 *
 * @returns undefined if another replica is making it
 */
async function withLock<T> (
  redisClient: RedisClient | undefined,
  name: string,
  action: () => Promise<T>
): Promise<T | undefined> {
  if (redisClient === undefined) return await action()
  const key = `landfall:variant:2:${name}`
  const taken = await redisClient.run(async (redis) => await redis.set(key, '1', 'PX', LOCK_MS, 'NX'))
    .catch(() => 'OK')
  if (taken === null) return undefined
  const renew = async () => await redisClient.run(async (redis) => await redis.pexpire(key, LOCK_MS))
  return await whileRenewing(renew, RENEWAL_MS, action)
    .finally(async () => await redisClient.run(async (redis) => await redis.del(key)).catch(() => {}))
}
