import { createNoSessionError } from './errors.ts'
import { abortable, RetryBudget, sendWithRetries, type RetryOptions } from './retry.ts'
import type { ClientSession } from './session.ts'

/** The part of `fetch` that the client uses. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Sends a request that openapi-fetch built. */
export type SendRequest = (request: Request) => Promise<Response>

/**
 * Routes to which no access token is sent. Without it, a public read from a browser needs no preflight.
 * Previews have tokens of their own.
 */
const PUBLIC =
  /^(?:POST \/auth\/(?:sign_up|sign_in|refresh)|(?:POST|DELETE) \/auth\/browser_session|(?:POST|PUT) \/auth\/password_resets|(?:GET|HEAD) \/(?:(?:landing_pages|previews)\/[^/]+|uploads\/.+|health\/.+|openapi\.json))$/

/** Routes of the account, for which an API key is never valid. */
const ACCOUNT = /^\/(?:auth|api_keys)(?:\/|$)/

const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])
/** The old password or the token is invalid afterwards, so a repetition would fail. */
const ONCE = /^(?:PUT \/auth\/(?:password|password_resets|email_confirmations)|DELETE \/auth\/me)$/

const PUBLISHED = /^\/landing_pages\/[^/]+$/

/** Tells whether a route gets no access token. @param path without the base URL; a query is ignored */
export const isPublic = (method: string, path: string): boolean =>
  PUBLIC.test(`${method} ${withoutQuery(path)}`)

const withoutQuery = (path: string): string => path.replace(/\?.*/s, '')

/** A request that keeps its URL and options for retries. `Request.clone()` would keep an upload in memory. */
export class RepeatableRequest extends Request {
  readonly sent: { readonly url: string, readonly init: RequestInit }

  constructor (input: ConstructorParameters<typeof Request>[0], init: RequestInit = {}) {
    super(input, init)
    this.sent = { url: String(input), init }
  }
}

/**
 * Creates the `fetch` for openapi-fetch. It retries requests. With a session, it adds the access token and
 * renews a refused one.
 *
 * @param credentials a session or an API key
 */
export function createTransport (
  baseUrl: string,
  fetch: Fetch,
  retry: RetryOptions,
  credentials?: ClientSession | string
): SendRequest {
  return async (request) => {
    const { sent: { url, init } } = request as RepeatableRequest
    const { method } = request
    const isRepeatable = !(init.body instanceof ReadableStream)
    const path = withoutQuery(url.slice(baseUrl.length))
    const isPublicRead = method === 'GET' && PUBLISHED.test(path)
    const budget = new RetryBudget(isRepeatable ? retry : { maxRetries: 0 })
    const isIdempotent = IDEMPOTENT.has(method) && !ONCE.test(`${method} ${path}`)
    const waitsAtLimit = !isPublicRead || retry.publicReads === true
    const send = async (token?: string): Promise<Response> => {
      const headers = new Headers(init.headers)
      if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
      return await sendWithRetries(
        async () => await fetch(url, { ...init, headers }),
        { isIdempotent, budget, waitsAtLimit, signal: init.signal }
      )
    }
    if (typeof credentials === 'string' && ACCOUNT.test(path)) throw createNoSessionError()
    if (credentials === undefined || isPublic(method, path)) return await send()
    if (typeof credentials === 'string') return await send(credentials)
    return await sendWithSession(credentials, send, isRepeatable, init.signal)
  }
}

/** Sends a request with the access token, and once more if the service refuses that and it is renewed. */
async function sendWithSession (
  session: ClientSession,
  send: (token?: string) => Promise<Response>,
  isRepeatable: boolean,
  signal?: AbortSignal | null
): Promise<Response> {
  while (true) {
    const token = await abortable(session.getAccessToken(), signal)
    const response = await send(token)
    if (response.status !== 401 || token === undefined || !isRepeatable) return response
    const renewal = await abortable(session.renew(token), signal)
    if (renewal === 'ended') return response
    await response.body?.cancel()
    if (renewal === 'refreshed') return await send(await abortable(session.getAccessToken(), signal))
  }
}
