import { format } from 'node:util'

// The errors of the service. Clients receive {"errors": […]}.

/** An error that has its own response. */
export abstract class ResponseError extends Error {
  abstract readonly statusCode: number
  /** Sentences for the client. */
  readonly messages: readonly string[]
  readonly headers: Readonly<Record<string, string | number>>

  constructor (messages: readonly string[], headers: Readonly<Record<string, string | number>> = {}) {
    super(messages.join('; '))
    this.name = new.target.name || 'ResponseError' // the classes of define() have no names
    this.messages = messages
    this.headers = headers
  }
}

/** 422: the request breaks one or more rules. `messages` has one sentence per broken rule. */
export class InvalidError extends ResponseError {
  readonly statusCode = 422
}

/** 409: the request doesn't fit the current state of the resource. `messages` says why. */
export class ConflictError extends ResponseError {
  readonly statusCode = 409
}

/** 403: the API key of the request may not do this. */
export class InsufficientScopeError extends ResponseError {
  readonly statusCode = 403

  /** @param scope the missing one */
  constructor (scope: string) {
    const challenge = `Bearer error="insufficient_scope", scope="${scope}"` // RFC 6750, 3.1
    super([`API key lacks the scope ${scope}`], { 'www-authenticate': challenge })
  }
}

const FAILED_PRECONDITIONS = {
  'If-Match': 'The resource has changed: If-Match does not match its current ETag',
  'If-None-Match': 'If-None-Match matches the current ETag of the resource',
  'If-Unmodified-Since': 'The resource has changed after the date in If-Unmodified-Since'
} as const
/** For what doesn't exist, or has no ETag. */
const NOTHING_TO_MATCH = 'There is nothing here that If-Match could match'
/** For `*`, if the resource has no ETag. */
const EXISTS = 'The resource exists, so If-None-Match is false'

/** 412: a precondition of the request is false. */
export class PreconditionFailedError extends ResponseError {
  readonly statusCode = 412

  /** @param etag the current one, with its quotes; undefined if there is none */
  constructor (failed: keyof typeof FAILED_PRECONDITIONS, etag: string | undefined) {
    if (etag === undefined) super([failed === 'If-Match' ? NOTHING_TO_MATCH : EXISTS])
    else super([FAILED_PRECONDITIONS[failed]], { etag })
  }
}

/** 429 or 503 with a Retry-After header. The seconds are rounded up to at least 1. */
export class RetryLaterError extends ResponseError {
  readonly statusCode: 429 | 503

  constructor (statusCode: 429 | 503, message: string, retryAfterSeconds: number) {
    super([message], { 'retry-after': Math.max(1, Math.ceil(retryAfterSeconds)) })
    this.statusCode = statusCode
  }
}

/** Creates a class of errors with one sentence. `%s` in it stands for an argument of the constructor. */
const define = (statusCode: number, sentence: string) =>
  class extends ResponseError {
    readonly statusCode = statusCode

    constructor (...values: readonly (string | number)[]) {
      super([format(sentence, ...values)])
    }
  }

/** 400: nobody receives it. It is only logged. */
export const ClientGoneError = define(400, 'The client has closed the connection')
export const MalformedJsonError = define(400, 'Request body is not valid JSON (%s)')
export const MalformedMultipartError = define(400, 'Request body is not valid multipart form data')
export const UnauthorizedError = define(401, 'Missing or invalid access token')
export const InvalidKeyError = define(401, 'API key is mistyped, deleted or expired')
/** 401: the route takes access tokens only. */
export const KeyNotAcceptedError = define(401, 'API keys are not accepted here, use an access token')
/** 401: however the token of a preview link fails, so that it tells nothing about pages and links. */
export const InvalidPreviewTokenError = define(401, 'Missing, invalid or expired preview token')
export const InvalidCredentialsError = define(401, 'Invalid email or password')
export const InvalidRefreshTokenError = define(401, 'Invalid or expired refresh token')
/** 403: the request comes from a page that isn't the service's. */
export const ForeignOriginError = define(
  403,
  "Cookie sessions are accepted only from this service's own pages; open it at %s"
)
export const SignUpClosedError = define(
  403,
  'Sign-up is closed; ask the operator of this service for an account'
)
export const EmailUnconfirmedError = define(
  403,
  'Confirm your email address first: POST /auth/email_confirmations mails another link'
)
export const NotFoundError = define(404, 'Not found')
export const NoDraftError = define(404, 'The page has no draft')
/** 404: the address `/`. The argument is the URL of the documentation. */
export const NoStartPageError = define(404, 'There is no page here; the API is described at %s')
/** 404: the files of the console are missing. */
export const ConsoleNotBuiltError = define(
  404,
  'The console is not built; run "npm run build", then start the service again'
)
export const MethodNotAllowedError = define(405, 'Method is not allowed here')
export const RequestTimeoutError = define(408, 'Request took too long to arrive')
export const TooLargeError = define(413, '%s is too large (maximum is %s bytes)')
export const TooManyHeadersError = define(431, 'Request has too many headers (maximum is %s)')
export const UnsupportedMediaTypeError = define(415, '%s')
export const EncodedBodyError = define(415, 'Content-Encoding is not supported in requests')
export const DiskFullError = define(507, 'There is no storage space left for uploads')

export const formatErrorBody = (messages: readonly string[]): string => JSON.stringify({ errors: messages })

/** The message of a 429 response. */
export const formatTooManyRequests = (retryAfterSeconds: number, what = 'requests'): string =>
  `Too many ${what}, try again in ${retryAfterSeconds} seconds`

/** Creates the error for a 429 response. The seconds are rounded up to at least 1. */
export function createTooManyRequestsError (retryAfterSeconds: number, what?: string): RetryLaterError {
  const seconds = Math.max(1, Math.ceil(retryAfterSeconds))
  return new RetryLaterError(429, formatTooManyRequests(seconds, what), seconds)
}

/** Creates the error for a 503 response: a dependency, such as PostgreSQL, cannot be reached. */
export const createUnavailableError = (): RetryLaterError =>
  new RetryLaterError(503, 'The service is temporarily unavailable, try again shortly', 1)
