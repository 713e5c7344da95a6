import { once } from 'node:events'
import { extname } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { ConflictError, createUnavailableError, InvalidError, RetryLaterError,
  TooLargeError } from '../../../errors.ts'
import { FairQueue } from '../../../infra/system/fair-queue.ts'
import type { PatchOutcome, PatchTask } from './patch-worker.ts'
import type { PatchProblem } from './patch-error.ts'
import type { DocumentLimits } from './patched-document.ts'

// Applies patches in a worker thread (docs/adr/0018-patches-on-text.md).

/** Patches of all accounts that may wait for the thread. */
const MAX_WAITING = 32
const TIME_LIMIT_MS = 2_000
/** The first patch waits for the thread, which takes long on a machine without a free processor. */
const START_LIMIT_MS = 30_000
/** An idle thread ends, because it holds some 10 MB. */
const IDLE_MS = 60_000
/** What patches take at worst: 100 ms for a document of a megabyte, 600 ms for a patch of 64 KiB. */
const DOCUMENT_MS_PER_BYTE = 1e-4
const PATCH_MS_PER_BYTE = 1e-2
const MIB = 1024 * 1024
/**
 * More than any patch needs: if one large piece does not fit into the heap, Node ends the whole process. Most
 * is needed for the document as a string, before and after.
 */
const HEAP_PER_BYTE = 8
const BASE_HEAP_MB = 64

export type PatchKind = PatchTask['kind']

export interface PatcherOptions extends DocumentLimits {
  /** Milliseconds for one patch, without waiting. */
  readonly timeLimitMs?: number
  /** Heap of the thread, in MiB. */
  readonly maxHeapMb?: number
}

/** Applies patches one after the other in a thread, which starts with the first one. */
export class Patcher {
  readonly #limits: DocumentLimits
  readonly #timeLimitMs: number
  readonly #pool: Piscina<PatchTask, PatchOutcome>
  /** By account. The pool's own queue knows no turns, and has no limit for tasks that can be aborted. */
  readonly #queue = new FairQueue<number>({
    maxWaiting: MAX_WAITING,
    createRefusal: () => new RetryLaterError(503, 'Too many patches are waiting, try again shortly', 1)
  })
  #isClosed = false

  constructor ({ maxBytes, maxLevels, timeLimitMs = TIME_LIMIT_MS, maxHeapMb }: PatcherOptions) {
    this.#limits = { maxBytes, maxLevels }
    this.#timeLimitMs = timeLimitMs
    const extension = extname(import.meta.url) // .ts when the service runs from its sources
    this.#pool = new Piscina({
      filename: new URL(`./patch-worker${extension}`, import.meta.url).href,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE_MS,
      recordTiming: false,
      resourceLimits: {
        maxOldGenerationSizeMb: maxHeapMb ?? BASE_HEAP_MB + Math.ceil(HEAP_PER_BYTE * maxBytes / MIB)
      }
    })
    this.#pool.on('error', () => {}) // an idle thread that fails must not end the process
  }

  /**
   * Applies a patch to a document. Both are valid JSON.
   *
   * @param account whose turn it takes
   * @throws {ConflictError} 409 if a `test` fails
   * @throws {TooLargeError} 413
   * @throws {InvalidError} 422 if the patch can't be applied, or takes too long or too much memory
   * @throws {RetryLaterError} 503 if too many patches are waiting, of accounts that used less time, or the
   *   thread doesn't start
   */
  async apply (account: number, kind: PatchKind, document: string, patch: string): Promise<string> {
    const task = { kind, document, patch, limits: this.#limits }
    const expectedMs = document.length * DOCUMENT_MS_PER_BYTE + patch.length * PATCH_MS_PER_BYTE
    const outcome = await this.#queue.run(account, expectedMs, async () => await this.#run(task))
    if ('problem' in outcome) throw this.#createError(outcome.problem)
    return outcome.document
  }

  /** Ends the thread. Patches that wait or run are refused. */
  async close (): Promise<void> {
    this.#isClosed = true
    this.#queue.refuseWaiting(createUnavailableError())
    await this.#pool.destroy()
  }

  async #run (task: PatchTask): Promise<PatchOutcome> {
    if (this.#isClosed) throw createUnavailableError()
    const pool = this.#pool
    const abort = new AbortController()
    const limit = (milliseconds: number) => setTimeout(() => abort.abort(), milliseconds)
    let hasStarted = pool.threads.length > 0
    let timer = limit(hasStarted ? this.#timeLimitMs : START_LIMIT_MS)
    const onStarted = () => {
      hasStarted = true
      clearTimeout(timer)
      timer = limit(this.#timeLimitMs)
    }
    // The pool emits the error of a thread that fails while it starts.
    let failure: Error | undefined
    const onFailed = (error: Error) => {
      failure = error
      abort.abort()
    }
    pool.once('workerCreate', onStarted).once('error', onFailed)
    const outcome = pool.run(task, { signal: abort.signal })
    const [thread] = pool.threads
    try {
      return await outcome
    } catch (error) {
      const limitError = createLimitError(error as Error)
      if (thread !== undefined && limitError !== undefined) await waitForExit(thread)
      if (this.#isClosed) throw createUnavailableError()
      throw failure ?? (hasStarted ? limitError ?? error : createUnavailableError())
    } finally {
      clearTimeout(timer)
      pool.off('workerCreate', onStarted).off('error', onFailed)
    }
  }

  #createError ({ status, messages }: PatchProblem): Error {
    if (status === 413) return new TooLargeError('Document', this.#limits.maxBytes)
    return status === 409 ? new ConflictError(messages) : new InvalidError(messages)
  }
}

/** Returns the error for a patch whose thread had to end. */
function createLimitError (error: Error & { code?: string }): Error | undefined {
  if (error.name === 'AbortError') return new InvalidError(['The patch takes too long to apply'])
  if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return new InvalidError(['The patch takes too much memory to apply'])
  }
  return undefined
}

/** Waits for the end of a thread, so that there is never more than one. */
async function waitForExit (thread: Worker): Promise<void> {
  if (thread.threadId !== ENDED) await once(thread, 'exit')
}

/** The id of a thread that has ended. */
const ENDED = -1
