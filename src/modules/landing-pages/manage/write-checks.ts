import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest, preValidationHookHandler } from 'fastify'
import { InvalidError, NotFoundError, RetryLaterError, TooLargeError } from '../../../errors.ts'
import { checkPreconditions, hasConditions, type Validators } from '../../../http/conditional-requests.ts'
import { clock } from '../../../infra/system/clock.ts'
import { confirmCaller } from '../../accounts/index.ts'
import { MAX_DEPTH } from '../document.ts'
import { findDraft, type Draft } from '../draft-repository.ts'
import { recordValidators, type PageState } from '../etag.ts'
import { findPage, findPageState, type LandingPage, type ReadVersion } from '../landing-page-repository.ts'
import { removePage, type RemovedPage } from '../trash-repository.ts'
import { changeState, replacePage, type Replacement, type StateChange,
  type WrittenPage } from '../write-repository.ts'
import { settleMessages } from '../outbox-repository.ts'
import { publicVersion } from '../public/cached-document.ts'
import { DELETED } from '../public/shared-documents.ts'
import { settlingSeconds, type Publication } from './receipts.ts'

/** A page in a request: its id, and the caller, who has to be the owner. */
export interface OwnPage {
  readonly userId: number
  readonly id: string
}

/** Returns the ids in a request with the path parameter `id`, without a query. */
export const ownPage = (request: FastifyRequest): OwnPage => ({
  userId: request.caller.userId,
  id: (request.params as { id: string }).id
})

/** Returns the page that a request names. @throws {NotFoundError} 404 */
export async function findOwnPage (request: FastifyRequest): Promise<LandingPage> {
  const { userId, id } = ownPage(request)
  const page = await findPage(request.server.database, userId, id)
  if (page === null) throw new NotFoundError()
  return page
}

/** Returns the page that a request names, and its draft if it has one. @throws {NotFoundError} 404 */
export async function findOwnPageAndDraft (
  request: FastifyRequest
): Promise<{ page: LandingPage, draft: Draft | null }> {
  const draft = await findDraft(request.server.database, ownPage(request).id)
  // Read after the draft: a publication in between removes the draft and changes the page.
  return { page: await findOwnPage(request), draft }
}

/**
 * Returns the document of a request exactly as it was sent; undefined if there is none, as PATCH allows.
 *
 * @throws {InvalidError} 422
 * @throws {TooLargeError} 413
 */
export function checkedDocument ({ document, server }: FastifyRequest): string | undefined {
  if (document === undefined) return undefined
  const { MAX_DOCUMENT_BYTES: maxBytes } = server.config
  if (document.byteSize > maxBytes) throw new TooLargeError(document.label, maxBytes)
  if (document.depth > MAX_DEPTH) {
    throw new InvalidError([`${document.label} is nested too deeply (maximum is ${MAX_DEPTH} levels)`])
  }
  return document.text
}

/**
 * Like checkedDocument(), for a route with `attachValidation`. Only the owner gets the error of an invalid
 * body; everybody else gets a 404.
 */
export async function documentOfOwner (request: FastifyRequest): Promise<string | undefined> {
  try {
    if (request.validationError !== undefined) throw request.validationError
    return checkedDocument(request)
  } catch (error) {
    if (!(error instanceof NotFoundError)) await findOwnPage(request)
    throw error
  }
}

/** A request without a body is treated like one with an empty object. */
export const allowNoBody: preValidationHookHandler = (request, _reply, done) => {
  if (request.body === undefined) request.body = {}
  done()
}

/** These take about a second. An attempt fails only if somebody else has written in the meantime. */
const MAX_ATTEMPTS = 100
/** The longest wait before another attempt. Waits are random, so that writers don't collide again. */
const MAX_WAIT_MS = 20

/**
 * Makes attempts until one succeeds.
 *
 * @param request the one whose caller writes; null for a write of the service itself
 * @param attempt returns null if somebody else has written meanwhile
 * @throws {RetryLaterError} 503
 * @throws the errors of confirmCaller()
 */
export async function untilWritten<Result> (
  request: FastifyRequest | null,
  attempt: () => Promise<Result | null>
): Promise<Result> {
  for (let attempts = 1; attempts <= MAX_ATTEMPTS; attempts++) {
    if (request !== null) await confirmCaller(request)
    const result = await attempt()
    if (result !== null) return result
    await sleep(Math.random() * Math.min(attempts, MAX_WAIT_MS))
  }
  throw new RetryLaterError(503, 'The page is being changed by others, try again shortly', 1)
}

/**
 * Reads a document, patches it, and writes the result. Returns null if somebody else has written meanwhile.
 *
 * @param applyPatch returns the patched text of a document; the same text if the patch changes nothing
 */
export type PatchAttempt<Written> = (
  applyPatch: (document: string) => Promise<string>
) => Promise<Written | null>

/**
 * Writes the page that a request names. A request without preconditions replaces any version.
 *
 * @param validatorsOf returns the tag and time that a 412 reports: those of the page or of its document
 * @param write gets the version that it has to replace; returns null if it has written nothing
 * @param isDeleted whether the page has to be in the trash
 * @throws {NotFoundError} 404
 * @throws {PreconditionFailedError} 412
 */
export async function writeOwnPage<Written> (
  request: FastifyRequest,
  validatorsOf: (page: PageState) => Validators,
  write: (read: ReadVersion) => Promise<Written | null>,
  isDeleted = false
): Promise<Written> {
  if (!hasConditions(request.headers)) {
    const written = await write(null)
    if (written === null) throw new NotFoundError()
    return written
  }
  const { userId, id } = ownPage(request)
  return await untilWritten(request, async () => {
    const page = await findPageState(request.server.database, userId, id, isDeleted)
    if (page === null) throw new NotFoundError()
    checkPreconditions(request, validatorsOf(page))
    return await write(page)
  })
}

/** Replaces the document of the page that a request names, as writeOwnPage() does, and publishes it. */
export const replaceDocument = async (
  request: FastifyRequest,
  document: string,
  validatorsOf: (page: PageState) => Validators,
  fields?: Replacement
): Promise<LandingPage> =>
  await writeOwnPage(
    request,
    validatorsOf,
    async (read) => await replaceAndPublish(request, ownPage(request).id, document, read, fields)
  )

/** Puts the page that a request names into the trash, or removes it if the service has no trash. */
export async function deletePage (request: FastifyRequest): Promise<void> {
  const hasTrash = request.server.config.TRASH_DAYS > 0
  await writeOwnPage(
    request,
    recordValidators,
    async (read) =>
      hasTrash ? await changeStateAndPublish(request, 'delete', read)
        : await removeAndPublish(request, false, read)
  )
}

/** Replaces the document of a page, as replacePage() does, and publishes it. */
export const replaceAndPublish = async (
  request: FastifyRequest,
  id: string,
  document: string,
  read: ReadVersion,
  fields?: Replacement
): Promise<WrittenPage | null> =>
  await writeAndPublish(
    request,
    replacePage(request.server.database, request.caller, id, document, read, fields)
  )

/** Changes the page that a request names, as changeState() does, and publishes it. */
export const changeStateAndPublish = async (
  request: FastifyRequest,
  change: StateChange,
  read: ReadVersion
): Promise<WrittenPage | null> =>
  await writeAndPublish(
    request,
    changeState(request.server.database, request.caller, ownPage(request).id, change, read)
  )

/**
 * Removes the page that a request names for good, as removePage() does, and publishes that.
 *
 * @param wasDeleted whether the page has to be in the trash
 */
export const removeAndPublish = async (
  request: FastifyRequest,
  wasDeleted: boolean,
  read: ReadVersion
): Promise<RemovedPage | null> =>
  await writeAndPublish(
    request,
    removePage(request.server.database, request.caller, ownPage(request).id, read, wasDeleted)
  )

/** A request, or the part of one that a write without a request needs. */
interface Writing {
  readonly server: FastifyInstance
  publication?: Publication | null
}

/**
 * Waits for a write of a page that has just begun, and publishes it to the caches. If Redis was told, the
 * messages about the change leave soon.
 *
 * @param write resolves to null if it has written nothing
 * @returns the result of `write`
 */
export async function writeAndPublish<Written extends WrittenPage | RemovedPage | null> (
  request: Writing,
  write: Promise<Written>
): Promise<Written> {
  const { database, documents } = request.server
  const startedAt = clock.now()
  const page: WrittenPage | RemovedPage | null = await write
  if (page === null) return page as Written
  const { publicId, queued } = page
  const published = 'version' in page ? publicVersion(page) : { publicId, version: DELETED }
  const isAnnounced = await documents.publish(published, startedAt)
  const announcedAt = isAnnounced ? clock.now() : undefined
  request.publication = { publicId, version: published.version, announcedAt, purges: { keys: queued ?? [] } }
  if (queued !== null && isAnnounced) {
    // If this fails, the messages leave a minute later.
    settleMessages(database, queued, settlingSeconds(request.server)).catch(() => {})
  }
  return page as Written
}

/** Returns a page that a request leaves as it is. Its receipt waits, as the version may be a moment old. */
export function keepUnchanged (request: FastifyRequest, page: LandingPage): LandingPage {
  const { id, publicId, version } = page
  request.publication = { publicId, version: Number(version), announcedAt: undefined, purges: { pageId: id } }
  return page
}
