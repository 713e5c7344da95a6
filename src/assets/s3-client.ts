import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { S3Client, type $Command, type S3ClientConfig, type S3ClientResolvedConfig, type ServiceInputTypes, type ServiceOutputTypes } from '@aws-sdk/client-s3'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../config.ts'
import { DiskFullError, unavailable } from '../errors.ts'

// Requests to the object storage: how long they may take, and what their failures mean.

/** The settings of an object storage. */
export type S3Settings = { readonly UPLOADS_URL: string } & Partial<Pick<Config,
  'AWS_REGION' | 'AWS_ENDPOINT_URL_S3' | 'AWS_ACCESS_KEY_ID' | 'AWS_SECRET_ACCESS_KEY' | 'AWS_SESSION_TOKEN' | 'S3_FORCE_PATH_STYLE' | 'S3_TIMEOUT_MS' | 'MAX_UPLOAD_BYTES'>>

/** Slower than this no connection to the storage is worth waiting for, in bytes per millisecond. */
const LEAST_SPEED = 256
const DEFAULT_TIMEOUT_MS = 5000
/** Tries of a request that fails fast; the time for all of them together is bounded. */
const ATTEMPTS = 3

const DENIED = /^(AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|TokenRefreshRequired|RequestTimeTooSkewed|CredentialsProviderError|AccountProblem)$/
const FULL = /Quota|StorageFull|InsufficientCapacity/

/** What is read of an error of the SDK; its other fields quote what was signed. */
interface Failure {
  readonly name?: string
  readonly Code?: string
  readonly message?: string
  readonly $metadata?: { readonly httpStatusCode?: number, readonly requestId?: string }
}

type S3Command<Input extends ServiceInputTypes, Output extends ServiceOutputTypes> = $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>

export interface SendOptions {
  /** Of the body, either way: they may take their time. */
  readonly bytes?: number
  readonly signal?: AbortSignal | undefined
}

/** A bucket, or the part of it under a prefix. */
export class Bucket {
  readonly name: string
  /** Start of the keys of all objects: empty, or with a slash at the end. */
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
    // Each reader of a file has a connection for as long as it reads: MAX_CONNECTIONS is what bounds them.
    this.#agents = [new HttpAgent({ keepAlive: true, maxSockets: Infinity }), new HttpsAgent({ keepAlive: true, maxSockets: Infinity })]
    // The version that the lock file holds runs on Node 20; that later ones won't is said here, not to each log and command.
    process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
    this.#client = new S3Client(clientConfig(settings, this.timeoutMs, this.#agents))
  }

  /**
   * Sends a request. In all it may take S3_TIMEOUT_MS until the answer begins, and what `bytes` may take. Errors come
   * out as the SDK's.
   */
  async send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: S3Command<Input, Output>, { bytes = 0, signal }: SendOptions = {}
  ): Promise<Output> {
    const stop = new AbortController()
    const timer = setTimeout(() => {
      stop.abort()
      this.#forgetConnections()
    }, this.timeoutMs + bytes / LEAST_SPEED)
    const abort = () => stop.abort()
    signal?.addEventListener('abort', abort)
    if (signal?.aborted === true) abort()
    try {
      return await this.#client.send(command, { abortSignal: stop.signal })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** The error that the service answers with; the reason is logged. */
  translate (error: unknown): Error {
    const { status, code, message } = reasonOf(error)
    const requestId = (error as Failure).$metadata?.requestId
    const hint = hintOf(error, this.name)
    this.#log.error({ code, status, reason: message, requestId, ...(hint !== undefined && { hint }) }, 'the object storage of the uploads failed')
    return status === 507 || FULL.test(code) ? new DiskFullError() : unavailable()
  }

  close (): void {
    this.#client.destroy()
    for (const agent of this.#agents) agent.destroy()
  }

  /** When one connection is dead, those that lie idle may be too, and each would cost a request as long to find out. */
  #forgetConnections (): void {
    for (const agent of this.#agents) for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
  }
}

export function reasonOf (error: unknown): { status: number | undefined, code: string, message: string } {
  const { name = 'Error', Code, message = '', $metadata } = error as Failure
  const status = $metadata?.httpStatusCode
  if (name === 'AbortError' || name === 'TimeoutError') return { status, code: 'TimeoutError', message: 'no answer in time' }
  const system = (error as NodeJS.ErrnoException).code
  return { status, code: Code ?? (typeof system === 'string' ? system : name), message }
}

/** Whether the object, not the bucket, is missing. */
export function isAbsent (error: unknown): boolean {
  const { status, code } = reasonOf(error)
  return code === 'NoSuchKey' || (status === 404 && code === 'NotFound')
}

/** What whoever runs the service should look at. */
export function hintOf (error: unknown, bucket: string): string | undefined {
  const { status, code } = reasonOf(error)
  if (code === 'NoSuchBucket') return `there is no bucket ${bucket}: check UPLOADS_URL, AWS_REGION and AWS_ENDPOINT_URL_S3`
  if (status === 301 || code === 'PermanentRedirect' || code === 'AuthorizationHeaderMalformed') return 'the bucket is in another region: check AWS_REGION'
  if (status === 403 || status === 401 || DENIED.test(code)) {
    return `access is denied: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or where the credentials come from), the clock, and that the policy allows s3:GetObject, PutObject, DeleteObject, AbortMultipartUpload, ListBucket and ListBucketMultipartUploads on ${bucket}`
  }
  return undefined
}

function clientConfig (settings: S3Settings, timeoutMs: number, [httpAgent, httpsAgent]: readonly [HttpAgent, HttpsAgent]): S3ClientConfig {
  const { AWS_REGION: region, AWS_ENDPOINT_URL_S3: endpoint, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken } = settings
  return {
    // Storages other than Amazon's mostly don't care, but the signature needs one.
    ...(region !== undefined ? { region } : endpoint !== undefined && { region: 'us-east-1' }),
    ...(endpoint !== undefined && { endpoint }),
    // Without a key of its own, the SDK looks where all programs for AWS look: profiles, containers, instances.
    ...(accessKeyId !== undefined && secretAccessKey !== undefined && { credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) } }),
    forcePathStyle: settings.S3_FORCE_PATH_STYLE ?? endpoint !== undefined,
    maxAttempts: ATTEMPTS,
    // The signature covers the bytes of each request. The SDK's own checksums beside it are not known to every storage.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { httpAgent, httpsAgent, connectionTimeout: Math.ceil(timeoutMs / 2), requestTimeout: 0, socketTimeout: 0 }
  }
}
