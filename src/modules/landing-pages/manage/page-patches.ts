import type { FastifyInstance } from 'fastify'
import { RetryLaterError } from '../../../errors.ts'
import { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { MAX_DEPTH } from '../document.ts'
import { Patcher, type PatchKind } from '../patch/patcher.ts'
import { untilWritten } from './write-checks.ts'

/** Patches of one account that may wait in a process. */
const MAX_WAITING_PER_ACCOUNT = 100

/** A patch that an owner has sent: valid JSON. */
export interface SentPatch {
  readonly userId: number
  readonly kind: PatchKind
  readonly text: string
}

/**
 * Reads a document, patches it, and writes the result. Returns null if somebody else has written meanwhile.
 *
 * @param patched returns the patched text of a document; the same text if the patch changes nothing
 */
export type PatchAttempt<Written> = (
  patched: (document: string) => Promise<string>
) => Promise<Written | null>

/** Patches documents. Patches that arrive at once are applied one to the result of the other. */
export class PagePatches {
  readonly #patcher: Patcher
  /**
   * Patches of an account run one at a time, so that they don't compete for a page, and each account has at
   * most one in the queue of the patcher.
   */
  readonly #queue = new KeyedSemaphore<number>({
    maxRunning: 1,
    maxWaiting: MAX_WAITING_PER_ACCOUNT,
    createRefusal: () =>
      new RetryLaterError(503, 'Too many patches of this account are waiting, try again shortly', 1)
  })

  constructor (app: FastifyInstance) {
    this.#patcher = new Patcher({ maxBytes: app.config.MAX_DOCUMENT_BYTES, maxLevels: MAX_DEPTH })
    app.addHook('onClose', async () => this.#patcher.close())
  }

  /**
   * Applies a patch: makes attempts until one has written.
   *
   * @throws the errors of the attempts and of Patcher
   */
  async apply<Written> (
    { userId, kind, text }: SentPatch,
    attempt: PatchAttempt<Written>
  ): Promise<Written> {
    const patched = async (document: string) => await this.#patcher.apply(userId, kind, document, text)
    const settled = await this.#queue.run(
      userId,
      async () => await settle(untilWritten(async () => await attempt(patched)))
    )
    return settled()
  }
}

/**
 * Returns a client's error as a value, so that waiting patches don't fail with it: KeyedSemaphore would pass
 * it on, which is right for a fault of the service only.
 */
async function settle<T> (task: Promise<T>): Promise<() => T> {
  try {
    const value = await task
    return () => value
  } catch (error) {
    const { statusCode } = error as { statusCode?: number }
    if (statusCode === undefined || statusCode >= 500) throw error
    return () => {
      throw error
    }
  }
}
