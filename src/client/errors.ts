import { retryAfterMs } from './retry.ts'

/**
 * An answer of the service that is no success. What never got an answer stays what `fetch` rejects with: a TypeError
 * for the network, the signal's reason for what was aborted.
 */
export class LandfallError extends Error {
  readonly status: number
  /** Sentences for a person, each naming one thing that is wrong. */
  readonly errors: readonly string[]
  /** Under which the service's log knows the request. */
  readonly requestId: string | undefined
  /** When to come again, if the service said so. */
  readonly retryAfterSeconds: number | undefined

  constructor (response: Response, errors: readonly string[]) {
    super(errors.join('; '))
    this.name = 'LandfallError'
    this.status = response.status
    this.errors = errors
    this.requestId = response.headers.get('x-request-id') ?? undefined
    const waitMs = retryAfterMs(response.headers.get('retry-after'), Date.now())
    this.retryAfterSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1000)
  }
}

/** 412: somebody else has changed the document since its `etag` was read. Read it again, then decide. */
export class PreconditionFailedError extends LandfallError {
  constructor (response: Response, errors: readonly string[]) {
    super(response, errors)
    this.name = 'PreconditionFailedError'
  }
}

/** @param body of the answer, parsed where it was JSON */
export function errorOf (response: Response, body: unknown): LandfallError {
  const { errors } = (typeof body === 'object' && body !== null ? body : {}) as { errors?: unknown }
  const sentences = Array.isArray(errors) && errors.length > 0
    ? errors.map(String)
    // No answer of Landfall itself: what stands in front of it has answered.
    : [`The answer was ${response.status} ${response.statusText}`.trimEnd()]
  return response.status === 412 ? new PreconditionFailedError(response, sentences) : new LandfallError(response, sentences)
}
