import { abortable, RetryBudget, withRetries, type RetryOptions } from './retry.ts'
import type { Session } from './session.ts'

/** What is used of `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Routes that need no access token, and are sent none: to a browser the public read is a simple request then. */
const PUBLIC = /^(?:POST \/auth\/(?:sign_up|sign_in|refresh)|(?:GET|HEAD) \/(?:landing_pages\/[^/]+|uploads\/.+|health\/.+|openapi\.json))$/

/** @param path without the base URL; a query is ignored */
export const isPublic = (method: string, path: string): boolean => PUBLIC.test(`${method} ${path.replace(/\?.*/s, '')}`)

/**
 * A request that can be sent again. `Request.clone()` would keep what has been sent of an upload in memory until it is
 * sent again; this keeps what the body is made from.
 */
export class RepeatableRequest extends Request {
  readonly sent: { readonly url: string, readonly init: RequestInit }

  constructor (input: ConstructorParameters<typeof Request>[0], init: RequestInit = {}) {
    super(input, init)
    this.sent = { url: String(input), init }
  }
}

/**
 * Makes what openapi-fetch sends its requests with: it repeats, and with a session it sends its access token, has that
 * renewed when it is refused, and sends once more.
 */
export function transport (baseUrl: string, fetch: Fetch, retry: RetryOptions, session?: Session): (request: Request) => Promise<Response> {
  return async (request) => {
    const { sent: { url, init } } = request as RepeatableRequest
    const { method } = request
    const isRepeatable = !(init.body instanceof ReadableStream)
    const budget = new RetryBudget(isRepeatable ? retry : { maxRetries: 0 })
    const send = async (token?: string): Promise<Response> => {
      const headers = new Headers(init.headers)
      if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
      return await withRetries(async () => await fetch(url, { ...init, headers }), method, budget, init.signal)
    }
    if (session === undefined || isPublic(method, url.slice(baseUrl.length))) return await send()

    while (true) {
      const token = await abortable(session.accessToken(), init.signal)
      const response = await send(token)
      if (response.status !== 401 || token === undefined || !isRepeatable) return response
      const renewal = await abortable(session.renew(token), init.signal)
      if (renewal === 'ended') return response
      await response.body?.cancel()
      if (renewal === 'refreshed') return await send(await abortable(session.accessToken(), init.signal))
    }
  }
}
