import createError from '@fastify/error'

// The errors of the service. What a client sees is always {"errors": […]}; the code stays in the log.

/** Several sentences at once: every rule that a request broke. */
export class InvalidError extends Error {
  readonly statusCode = 422
  readonly messages: readonly string[]

  constructor (messages: readonly string[]) {
    super(messages.join('; '))
    this.name = 'InvalidError'
    this.messages = messages
  }
}

/** An error that tells the client when to come back. */
export class RetryLaterError extends Error {
  readonly statusCode: 429 | 503
  readonly retryAfterSeconds: number

  constructor (statusCode: 429 | 503, message: string, retryAfterSeconds: number) {
    super(message)
    this.name = 'RetryLaterError'
    this.statusCode = statusCode
    this.retryAfterSeconds = Math.max(1, Math.ceil(retryAfterSeconds))
  }
}

export const MalformedJsonError = createError('LANDFALL_MALFORMED_JSON', 'Request body is not valid JSON', 400)
export const MalformedMultipartError = createError('LANDFALL_MALFORMED_MULTIPART', 'Request body is not valid multipart form data', 400)
export const UnauthorizedError = createError('LANDFALL_UNAUTHORIZED', 'Missing or invalid access token', 401)
export const InvalidCredentialsError = createError('LANDFALL_INVALID_CREDENTIALS', 'Invalid email or password', 401)
export const InvalidRefreshTokenError = createError('LANDFALL_INVALID_REFRESH_TOKEN', 'Invalid or expired refresh token', 401)
export const NotFoundError = createError('LANDFALL_NOT_FOUND', 'Not found', 404)
export const MethodNotAllowedError = createError('LANDFALL_METHOD_NOT_ALLOWED', 'Method is not allowed here', 405)
export const RequestTimeoutError = createError('LANDFALL_REQUEST_TIMEOUT', 'Request took too long to arrive', 408)
export const PreconditionFailedError = createError('LANDFALL_PRECONDITION_FAILED', 'The resource has changed: If-Match does not match its current ETag', 412)
export const TooLargeError = createError('LANDFALL_TOO_LARGE', '%s is too large (maximum is %s bytes)', 413)
export const UnsupportedMediaTypeError = createError('LANDFALL_UNSUPPORTED_MEDIA_TYPE', '%s', 415)
export const EncodedBodyError = createError('LANDFALL_ENCODED_BODY', 'Content-Encoding is not supported in requests', 415)
export const DiskFullError = createError('LANDFALL_DISK_FULL', 'There is no room left for uploads', 507)

/** The body of every error. */
export const errorBody = (messages: readonly string[]): string => JSON.stringify({ errors: messages })

/** What a 429 says. */
export const tooManyRequestsMessage = (retryAfterSeconds: number): string => `Too many requests, try again in ${retryAfterSeconds} seconds`

/** 429 with the whole seconds that are really left. */
export const tooManyRequests = (retryAfterSeconds: number): RetryLaterError =>
  new RetryLaterError(429, tooManyRequestsMessage(Math.max(1, Math.ceil(retryAfterSeconds))), retryAfterSeconds)

/** 503: something the request needs is away for now. */
export const unavailable = (): RetryLaterError =>
  new RetryLaterError(503, 'The service is temporarily unavailable, try again shortly', 1)
