import { extname } from 'node:path'
import type { DocumentLimits, PatchProblem } from '#json-text'
import { ConflictError, createUnavailableError, InvalidError, RetryLaterError,
  TooLargeError } from '../../../errors.ts'
import { IsolatedProcess, IsolatedProcessError } from '../../../infra/isolated-process/isolated-process.ts'
import type { PatchKind, PatchOutcome, PatchTask } from './patch-worker.ts'

/** Patches of all accounts that may wait. */
const MAX_WAITING = 32
/** Processor time for one patch. */
const CPU_LIMIT_MS = 2_000
/** Time for one patch on a busy machine. */
const TIME_LIMIT_MS = 10_000
/** An idle child process ends, because it holds some 50 MB. */
const IDLE_MS = 60_000
/** What patches take, roughly: 200 ms for a document of a megabyte, 600 ms for a patch of 64 KiB. */
const DOCUMENT_MS_PER_BYTE = 2e-4
const PATCH_MS_PER_BYTE = 1e-2
const MIB = 1024 * 1024
/** A document of empty objects needs most. */
const HEAP_PER_BYTE = 64
const BASE_HEAP_MIB = 64
/** What Node takes besides its heap. */
const OTHER_MEMORY_MIB = 256

export type { PatchKind }

export interface PatcherOptions extends DocumentLimits {
  /** Processor time for one patch. */
  readonly cpuLimitMs?: number
  readonly heapMib?: number
}

/** Applies patches in a child process, one after the other (docs/adr/0018-patches-on-text.md). */
export class Patcher {
  readonly #limits: DocumentLimits
  readonly #process: IsolatedProcess

  constructor ({ maxBytes, maxLevels, cpuLimitMs = CPU_LIMIT_MS, heapMib }: PatcherOptions) {
    this.#limits = { maxBytes, maxLevels }
    const heap = heapMib ?? BASE_HEAP_MIB + Math.ceil(HEAP_PER_BYTE * maxBytes / MIB)
    this.#process = new IsolatedProcess({
      script: new URL(`./patch-worker${extname(import.meta.url)}`, import.meta.url),
      memoryMib: heap + OTHER_MEMORY_MIB,
      heapMib: heap,
      priority: 'low',
      cpuLimitMs,
      timeLimitMs: TIME_LIMIT_MS,
      idleMs: IDLE_MS,
      maxWaiting: MAX_WAITING,
      createRefusal: () => new RetryLaterError(503, 'Too many patches are waiting, try again shortly', 1)
    })
  }

  /**
   * Applies a patch to a document. Both are valid JSON.
   *
   * @param account whose turn it takes
   * @throws {ConflictError} 409 if a `test` fails
   * @throws {TooLargeError} 413
   * @throws {InvalidError} 422 if the patch can't be applied, or takes too long or too much memory
   * @throws {RetryLaterError} 503 if too many patches are waiting, of accounts that used less time, or the
   *   machine is too busy
   */
  async apply (account: number, kind: PatchKind, document: string, patch: string): Promise<string> {
    const task: PatchTask = { document, patch, limits: this.#limits }
    const expectedMs = document.length * DOCUMENT_MS_PER_BYTE + patch.length * PATCH_MS_PER_BYTE
    try {
      const run = async () => await this.#process.run<PatchOutcome>({ kind, task })
      const outcome = await this.#process.inTurn(account, expectedMs, run)
      if ('problem' in outcome) throw this.#createError(outcome.problem)
      return outcome.document
    } catch (error) {
      throw error instanceof IsolatedProcessError ? createLimitError(error) : error
    }
  }

  /** Ends the child process. Patches that wait or run are refused. */
  close (): void {
    this.#process.close()
  }

  #createError ({ status, messages }: PatchProblem): Error {
    if (status === 413) return new TooLargeError('Document', this.#limits.maxBytes)
    return status === 409 ? new ConflictError(messages) : new InvalidError(messages)
  }
}

/** Returns the error for a patch whose process had to end. */
function createLimitError (error: IsolatedProcessError): Error {
  if (error.reason === 'too_costly') return new InvalidError(['The patch takes too long to apply'])
  // SIGKILL of a process that ended: the system ran out of memory, or was too busy.
  if (error.reason === 'unavailable' || error.signal === 'SIGKILL') return createUnavailableError()
  return error.signal === null ? error : new InvalidError(['The patch takes too much memory to apply'])
}
