import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RetryLaterError } from '../../../errors.ts'
import { checkPreconditions } from '../../../http/conditional-requests.ts'
import { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { MAX_DEPTH } from '../document.ts'
import { documentValidators } from '../etag.ts'
import { replacePage, type LandingPage } from '../landing-page-repository.ts'
import { Patcher, type PatchKind } from '../patch/patcher.ts'
import { findOwnPage, ownPage, type OwnPage, writeAndPublish } from './write-checks.ts'

/** Patches of one account that may wait in a process. */
const MAX_WAITING_PER_ACCOUNT = 100
/** An attempt fails only if somebody else has written in the meantime. All writers have equal chances. */
const MAX_ATTEMPTS = 100

/** Patches documents. Patches that arrive at once are applied one to the result of the other. */
export class PagePatches {
  readonly #app: FastifyInstance
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
    this.#app = app
    this.#patcher = new Patcher({ maxBytes: app.config.MAX_DOCUMENT_BYTES, maxLevels: MAX_DEPTH })
    app.addHook('onClose', async () => this.#patcher.close())
  }

  /**
   * Patches the page that a request names, and publishes the result.
   *
   * @param patch valid JSON
   * @returns the patched page; the current one if the patch changes no byte
   * @throws {NotFoundError} 404
   * @throws {PreconditionFailedError} 412
   * @throws the errors of Patcher
   */
  async apply (request: FastifyRequest, kind: PatchKind, patch: string): Promise<LandingPage> {
    const page = ownPage(request)
    const settled = await this.#queue.run(
      page.userId,
      async () => await settle(this.#applyInTurn(request, page, kind, patch))
    )
    return settled()
  }

  async #applyInTurn (
    request: FastifyRequest,
    { id, userId }: OwnPage,
    kind: PatchKind,
    patch: string
  ): Promise<LandingPage> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const current = await findOwnPage(this.#app.database, request)
      checkPreconditions(request, documentValidators(current))
      const document = await this.#patcher.apply(userId, kind, current.currentData, patch)
      if (document === current.currentData) return current
      const patched = await writeAndPublish(
        this.#app,
        async () =>
          await replacePage(this.#app.database, request.caller, id, document, onlyThisVersion(current))
      )
      if (patched !== null) return patched
    }
    throw new RetryLaterError(503, 'The page is being changed by others, try again shortly', 1)
  }
}

const onlyThisVersion = ({ contentHash, version }: LandingPage) => ({
  ifMatch: [`${contentHash}.${version}`],
  ifNoneMatch: null,
  unmodifiedSince: null
})

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
