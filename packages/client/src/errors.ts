import { parseRetryAfter } from './retry.ts'

/**
 * An error that the service returned. If there is no response, a call rejects with the error of `fetch`: a
 * `TypeError` for a network error, or the signal's reason for an aborted call.
 */
export class LandfallError extends Error {
  override readonly name: string = 'LandfallError'
  readonly status: number
  /** Readable sentences, one for each problem. */
  readonly errors: readonly string[]
  /** Identifies the request in the logs. */
  readonly requestId: string | undefined
  /** The seconds to wait before a retry, if the response has a `Retry-After` header. */
  readonly retryAfterSeconds: number | undefined

  constructor (response: Response, errors: readonly string[]) {
    super(errors.join('; '))
    this.status = response.status
    this.errors = errors
    this.requestId = response.headers.get('x-request-id') ?? undefined
    const waitMs = parseRetryAfter(response.headers.get('retry-after'), Date.now())
    this.retryAfterSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1000)
  }
}

/** Status 412: the document has changed since its `etag` was read. Read it again before you write. */
export class PreconditionFailedError extends LandfallError {
  override readonly name = 'PreconditionFailedError'
}

/** Status 404: there is no such record, or it belongs to another account. */
export class NotFoundError extends LandfallError {
  override readonly name = 'NotFoundError'
}

/**
 * Status 409: a `test` of a JSON Patch has failed, or a page uses the file that should be deleted only if
 * nothing uses it. Nothing was changed.
 */
export class ConflictError extends LandfallError {
  override readonly name = 'ConflictError'
}

/** Status 403: the API key of the client lacks a scope. Nothing was changed. */
export class InsufficientScopeError extends LandfallError {
  override readonly name = 'InsufficientScopeError'
  /** The missing scope, such as `pages:write`. */
  readonly scope: string

  constructor (response: Response, errors: readonly string[], scope: string) {
    super(response, errors)
    this.scope = scope
  }
}

const CLASSES: Readonly<Record<number, typeof LandfallError>> = {
  404: NotFoundError,
  409: ConflictError,
  412: PreconditionFailedError
}

/** Whether the service has refused a token. */
export const isUnauthorized = (error: unknown): error is LandfallError =>
  error instanceof LandfallError && error.status === 401

/** An API key was used for what only a session may do. No request was sent. */
export const createNoSessionError = (): Error =>
  new Error("A client with an API key can't use the account: create one without apiKey, and sign in")

/** @param body the parsed JSON of the response, or anything else */
export function createError (response: Response, body: unknown): LandfallError {
  const { errors } = (typeof body === 'object' && body !== null ? body : {}) as { errors?: unknown }
  const sentences = Array.isArray(errors) && errors.length > 0
    ? errors.map(String)
    // The response comes from a proxy in front of the service.
    : [`The response was ${response.status} ${response.statusText}`.trimEnd()]
  const scope = getMissingScope(response)
  if (scope !== undefined) return new InsufficientScopeError(response, sentences, scope)
  return new (CLASSES[response.status] ?? LandfallError)(response, sentences)
}

/** Returns the scope in `WWW-Authenticate: Bearer error="insufficient_scope", scope="…"` (RFC 6750, 3.1). */
function getMissingScope (response: Response): string | undefined {
  const challenge = response.headers.get('www-authenticate') ?? ''
  return /\berror="insufficient_scope", *scope="([^"]+)"/i.exec(challenge)?.[1]
}
