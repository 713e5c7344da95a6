import http from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { DEFAULT_CIPHERS } from 'node:tls'
import { timeLimit } from '../infra/system/time-limit.ts'
import { parseHttpDate } from './conditional-requests.ts'

// Requests to servers that owners or operators name. `fetch` isn't used, because it takes no function that
// looks up names, and follows proxies of the environment.

/** Time limit of everything: names, connection, request and response. */
const LIMIT_MS = 15_000

/** The longest time that a Retry-After counts for. */
const MAX_RETRY_AFTER_SECONDS = 60 * 60

/** The `code` of the error when a connection to an address is not allowed. */
export const FORBIDDEN_ADDRESS = 'FORBIDDEN_ADDRESS'

/** The outcome of a request. */
export interface Outcome {
  /** The status of the response; null without one. */
  readonly status: number | null
  /** Why the request failed, in words for users; null after a success. */
  readonly error: string | null
  /** How long the response asks to wait, at most an hour. */
  readonly retryAfterSeconds?: number | undefined
}

export interface OutgoingRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /**
   * Looks up the name of the host, so that private addresses can be refused. By default, Node does. An
   * address isn't looked up.
   */
  readonly lookup?: LookupFunction
  readonly signal: AbortSignal
}

/** Sends a request. Never rejects, follows no redirects, and reads nothing of the response but its head. */
export async function sendRequest (url: URL, request: OutgoingRequest): Promise<Outcome> {
  const signal = AbortSignal.any([request.signal, timeLimit(LIMIT_MS)])
  try {
    return outcomeOf(await responseTo(url, { ...request, signal }))
  } catch (error) {
    return failure(error as NodeJS.ErrnoException)
  }
}

/** In Diffie-Hellman over a finite field, the server may choose numbers that take a second to compute. */
const KEY_EXCHANGE = { ciphers: `${DEFAULT_CIPHERS}:!kDHE`, ecdhCurve: 'X25519:P-256:P-384:P-521' }
/** Responses with 1xx that may come before the final one. */
const MAX_INFORMATIONAL = 10

async function responseTo (
  url: URL,
  { headers, body = '', ...options }: OutgoingRequest
): Promise<http.IncomingMessage> {
  const { request: send, Agent } = url.protocol === 'https:' ? https : http
  // An own agent ignores the proxies of the environment. The environment can't turn off the check either.
  const agent = new Agent({ keepAlive: false, rejectUnauthorized: true, ...KEY_EXCHANGE })
  return await new Promise((resolve, reject) => {
    const request = send(url, {
      ...options,
      agent,
      headers: { ...headers, 'content-length': Buffer.byteLength(body) }
    })
    const finish = (response: http.IncomingMessage): void => {
      request.destroy() // the body is of no use
      resolve(response)
    }
    request.on('response', finish)
    request.on('upgrade', finish) // 101, which nobody asked for
    let informational = 0
    request.on('information', () => {
      if (++informational > MAX_INFORMATIONAL) request.destroy(new Error('too many informational responses'))
    })
    request.on('error', reject)
    request.end(body)
  })
}

function outcomeOf ({ statusCode: status = 0, headers }: http.IncomingMessage): Outcome {
  const isSuccess = status >= 200 && status < 300
  return {
    status,
    error: isSuccess ? null : `The response had the status ${status}`,
    retryAfterSeconds: retryAfterSeconds(headers['retry-after'])
  }
}

/** Returns how long a Retry-After asks to wait, at most an hour; 0 if invalid, undefined without one. */
export function retryAfterSeconds (header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  const date = parseHttpDate(header)
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : ((date ?? 0) - Date.now()) / 1000
  return Math.max(0, Math.min(seconds, MAX_RETRY_AFTER_SECONDS))
}

/** Returns the outcome of a failed request. It hides the error's text, which may name internal addresses. */
export function failure ({ code = '', name }: NodeJS.ErrnoException): Outcome {
  return { status: null, error: describe(code, name) }
}

function describe (code: string, name: string): string {
  if (name === 'AbortError' || name === 'TimeoutError') return `No response within ${LIMIT_MS / 1000} seconds`
  if (code.startsWith('HPE_')) return 'The response is not valid HTTP'
  const reason = REASONS[code] ??
    (/CERT|SIGNATURE|ERR_TLS|ERR_SSL|EPROTO/.test(code) ? 'certificate or TLS not valid' : '')
  return reason === '' ? 'Connection failed' : `Connection failed: ${reason}`
}

const UNTRUSTED = 'certificate is not signed by a trusted authority'
const REASONS: Readonly<Record<string, string>> = {
  [FORBIDDEN_ADDRESS]: 'address not allowed',
  ENOTFOUND: 'host name not found',
  ENODATA: 'host name not found',
  ETIMEOUT: 'host name not found in time',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed',
  EPIPE: 'connection closed',
  EHOSTUNREACH: 'host not reachable',
  ENETUNREACH: 'host not reachable',
  ETIMEDOUT: 'host not reachable',
  CERT_HAS_EXPIRED: 'certificate has expired',
  CERT_NOT_YET_VALID: 'certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate is for another host name'
}
