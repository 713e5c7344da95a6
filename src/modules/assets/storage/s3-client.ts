import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Readable } from 'node:stream'
import { S3Client, type $Command, type S3ClientConfig, type S3ClientResolvedConfig, type ServiceInputTypes,
  type ServiceOutputTypes } from '@aws-sdk/client-s3'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../../../config.ts'
import { DiskFullError, createUnavailableError } from '../../../errors.ts'

type S3Setting = 'AWS_REGION' | 'AWS_ENDPOINT_URL_S3' | 'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY'
  | 'AWS_SESSION_TOKEN' | 'S3_FORCE_PATH_STYLE' | 'S3_TIMEOUT_MS' | 'MAX_UPLOAD_BYTES'

export type S3Settings = { readonly UPLOADS_URL: string } & Partial<Pick<Config, S3Setting>>

/** The slowest transfer rate. Slower transfers time out. */
const MIN_BYTES_PER_MS = 256
const DEFAULT_TIMEOUT_MS = 5000
/** Attempts for each request. They share one time limit. */
const MAX_ATTEMPTS = 3

const DENIED =
  /^(AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|TokenRefreshRequired|RequestTimeTooSkewed|CredentialsProviderError|AccountProblem)$/
const STORAGE_FULL = /Quota|StorageFull|InsufficientCapacity/

/** The fields of an SDK error that may be logged. Other fields contain the signed request. */
interface SdkError {
  readonly name?: string
  readonly Code?: string
  readonly message?: string
  readonly $metadata?: { readonly httpStatusCode?: number, readonly requestId?: string }
}

type S3Command<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> = $Command<
  Input,
  Output,
  S3ClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes
>

export interface SendOptions {
  /** Size of the body that is sent or received. The time limit grows with it. */
  readonly bytes?: number
  readonly signal?: AbortSignal | undefined
}

/** Sends requests to a bucket, each with a time limit. Object keys begin with the prefix in UPLOADS_URL. */
export class Bucket {
  readonly name: string
  /** The prefix of all object keys, either empty or with a slash at its end. */
  readonly prefix: string
  readonly timeoutMs: number
  readonly #client: S3Client
  readonly #agents: readonly [HttpAgent, HttpsAgent]
  readonly #log: Pick<FastifyBaseLogger, 'error'>

  constructor (settings: S3Settings, log: Pick<FastifyBaseLogger, 'error'>) {
    const { hostname, pathname } = new URL(settings.UPLOADS_URL)
    this.name = hostname
    this.prefix = pathname.replace(/^\/+|\/+$/g, '').replace(/.$/, '$&/')
    this.timeoutMs = settings.S3_TIMEOUT_MS ?? DEFAULT_TIMEOUT_MS
    this.#log = log
    // Each download uses one connection. MAX_CONNECTIONS limits the downloads, so the agents need no limit.
    this.#agents = [
      new HttpAgent({ keepAlive: true, maxSockets: Infinity }),
      new HttpsAgent({ keepAlive: true, maxSockets: Infinity })
    ]
    // The SDK warns that later versions will not support Node 20. This version is pinned and supports it.
    process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
    this.#client = new S3Client(clientConfig(settings, this.timeoutMs, this.#agents))
  }

  /** Returns the bucket and the object key of a file, as the SDK's commands expect them. */
  object (key: string): { Bucket: string, Key: string } {
    return { Bucket: this.name, Key: `${this.prefix}${key}` }
  }

  /**
   * Sends a request. The response must begin within S3_TIMEOUT_MS plus the longest time for `bytes`.
   *
   * @throws the SDK's error
   */
  async send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> (
    command: S3Command<Input, Output>,
    { bytes = 0, signal }: SendOptions = {}
  ): Promise<Output> {
    const stop = new AbortController()
    const timer = setTimeout(() => {
      stop.abort()
      this.#closeIdleConnections()
    }, this.timeoutMs + bytes / MIN_BYTES_PER_MS)
    const abortSignal = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal])
    try {
      return await this.#client.send(command, { abortSignal })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Does the same as `send`, but logs errors and throws them as errors for the client. */
  async request<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> (
    command: S3Command<Input, Output>
  ): Promise<Output> {
    return await this.send(command).catch((error: unknown) => {
      throw this.translate(error)
    })
  }

  /** Does the same as `request`, and returns undefined when the object doesn't exist. */
  async find<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> (
    command: S3Command<Input, Output>
  ): Promise<Output | undefined> {
    return await this.send(command).catch((error: unknown) => {
      if (isAbsent(error)) return undefined
      throw this.translate(error)
    })
  }

  /** Logs the reason for a failure. @returns the error for the client */
  translate (error: unknown): Error {
    const { status, code, message } = reasonOf(error)
    const requestId = (error as SdkError).$metadata?.requestId
    const hint = hintOf(error, this.name)
    this.#log.error(
      { code, status, reason: message, requestId, ...(hint !== undefined && { hint }) },
      'access to the object storage failed'
    )
    return status === 507 || STORAGE_FULL.test(code) ? new DiskFullError() : createUnavailableError()
  }

  close (): void {
    this.#client.destroy()
    for (const agent of this.#agents) agent.destroy()
  }

  /** After a timeout, idle connections may be dead, too. Each would make another request time out. */
  #closeIdleConnections (): void {
    for (const agent of this.#agents) {
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
    }
  }
}

export function reasonOf (error: unknown): { status: number | undefined, code: string, message: string } {
  const { name = 'Error', Code, message = '', $metadata } = error as SdkError
  const status = $metadata?.httpStatusCode
  if (name === 'AbortError' || name === 'TimeoutError') {
    return { status, code: 'TimeoutError', message: 'no response in time' }
  }
  const system = (error as NodeJS.ErrnoException).code
  return { status, code: Code ?? (typeof system === 'string' ? system : name), message }
}

/** Tells whether the object is missing, as opposed to the bucket. */
function isAbsent (error: unknown): boolean {
  const { status, code } = reasonOf(error)
  return code === 'NoSuchKey' || (status === 404 && code === 'NotFound')
}

/** Returns advice for the operator; undefined if the error has no known cause. */
export function hintOf (error: unknown, bucket: string): string | undefined {
  const { status, code } = reasonOf(error)
  if (code === 'NoSuchBucket') {
    return `there is no bucket ${bucket}: check UPLOADS_URL, AWS_REGION and AWS_ENDPOINT_URL_S3`
  }
  if (status === 301 || code === 'PermanentRedirect' || code === 'AuthorizationHeaderMalformed') {
    return 'the bucket is in another region: check AWS_REGION'
  }
  if (status === 403 || status === 401 || DENIED.test(code)) {
    return 'access is denied: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the source of the ' +
      'credentials), the clock, and that the policy allows s3:GetObject, PutObject, DeleteObject, ' +
      `AbortMultipartUpload, ListBucket and ListBucketMultipartUploads on ${bucket}`
  }
  return undefined
}

function clientConfig (
  settings: S3Settings,
  timeoutMs: number,
  [httpAgent, httpsAgent]: readonly [HttpAgent, HttpsAgent]
): S3ClientConfig {
  const {
    AWS_REGION: region,
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken
  } = settings
  return {
    // Most S3-compatible services ignore the region, but the signature needs one.
    ...(region !== undefined ? { region } : endpoint !== undefined && { region: 'us-east-1' }),
    ...(endpoint !== undefined && { endpoint }),
    // Without these settings, the SDK uses its default chain: profiles, container and instance roles.
    ...(accessKeyId !== undefined && secretAccessKey !== undefined &&
      { credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) } }),
    forcePathStyle: settings.S3_FORCE_PATH_STYLE ?? endpoint !== undefined,
    maxAttempts: MAX_ATTEMPTS,
    // Some S3-compatible services don't support the SDK's checksums. The signature covers the body anyway.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      httpAgent,
      httpsAgent,
      connectionTimeout: Math.ceil(timeoutMs / 2),
      requestTimeout: 0,
      socketTimeout: 0
    }
  }
}

/**
 * Returns a stream of an object's body. The stream fails if the storage sends nothing for `idleMs` while the
 * reader is waiting. A slow reader never causes a timeout. Destroying the stream closes the connection.
 */
export function withIdleTimeout (body: Readable, idleMs: number): Readable {
  async function* read (): AsyncGenerator<Uint8Array> {
    for (const chunks = body.iterator() as AsyncIterator<Uint8Array>;;) {
      const timer = setTimeout(() => {
        body.destroy(new Error('The object storage stopped sending a file'))
      }, idleMs)
      const { done, value } = await chunks.next().finally(() => clearTimeout(timer))
      if (done === true) return
      yield value
    }
  }
  body.on('error', () => {}) // read() throws it
  const stream = Readable.from(read(), { objectMode: false, highWaterMark: 64 * 1024 })
  stream.once('close', () => body.destroy()).on('error', () => {}) // it may fail before it is read
  return stream
}
