import { parseRetryAfter } from './retry.ts'

/**
 * An error that the service returned. If there is no response, a call rejects with the error of `fetch`: a
 * `TypeError` for a network error, or the signal's reason for an aborted call.
 */
export class LandfallError extends Error {
  readonly status: number
  /** Readable sentences, one for each problem. */
  readonly errors: readonly string[]
  /** Identifies the request in the logs. */
  readonly requestId: string | undefined
  /** The seconds to wait before a retry, if the response has a `Retry-After` header. */
  readonly retryAfterSeconds: number | undefined

  constructor (response: Response, errors: readonly string[]) {
    super(errors.join('; '))
    this.name = 'LandfallError'
    this.status = response.status
    this.errors = errors
    this.requestId = response.headers.get('x-request-id') ?? undefined
    const waitMs = parseRetryAfter(response.headers.get('retry-after'), Date.now())
    this.retryAfterSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1000)
  }
}

/** Status 412: the document has changed since its `etag` was read. Read it again before you write. */
export class PreconditionFailedError extends LandfallError {
  constructor (response: Response, errors: readonly string[]) {
    super(response, errors)
    this.name = 'PreconditionFailedError'
  }
}

/** Status 409: a `test` of a JSON Patch has failed, and nothing was changed. */
export class ConflictError extends LandfallError {
  constructor (response: Response, errors: readonly string[]) {
    super(response, errors)
    this.name = 'ConflictError'
  }
}

const CLASSES: Readonly<Record<number, typeof LandfallError>> = {
  409: ConflictError,
  412: PreconditionFailedError
}

/** @param body the parsed JSON of the response, or anything else */
export function createError (response: Response, body: unknown): LandfallError {
  const { errors } = (typeof body === 'object' && body !== null ? body : {}) as { errors?: unknown }
  const sentences = Array.isArray(errors) && errors.length > 0
    ? errors.map(String)
    // The response comes from a proxy in front of the service.
    : [`The answer was ${response.status} ${response.statusText}`.trimEnd()]
  return new (CLASSES[response.status] ?? LandfallError)(response, sentences)
}
