import { Resolver } from 'node:dns/promises'
import http from 'node:http'
import https from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { hostOf, type IsAllowedAddress } from './allowed-addresses.ts'

// Sends a message. `fetch` isn't used, because it takes no function that looks up names, and follows proxies
// of the environment.

/** Time limit of everything: names, connection, request and response. */
const LIMIT_MS = 15_000
/** Limits of one question to a DNS server, and how often it is asked. */
const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

/** The outcome of an attempt. */
export interface Outcome {
  /** The status of the response; null without one. */
  readonly status: number | null
  /** Why the attempt failed, for the owner; null after a success. */
  readonly error: string | null
  readonly retryAfter?: string | undefined
}

export interface Poster {
  /** Sends a body. Never rejects, and reads nothing of the response but its status. */
  post(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
    signal: AbortSignal
  ): Promise<Outcome>
}

/** The host may not be reached. */
class AddressError extends Error {}

/** @param dnsServers addresses of DNS servers, by default those of the system */
export function createPoster (isAllowed: IsAllowedAddress, dnsServers?: readonly string[]): Poster {
  // getaddrinfo() would occupy a thread of the pool until the slowest DNS server answers.
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  if (dnsServers !== undefined) resolver.setServers(dnsServers)

  /** The name is looked up once for each connection, so nothing changes between check and use. */
  const lookupFor = (isEncrypted: boolean): LookupFunction => (hostname, { all }, callback) => {
    resolve(resolver, hostname).then((addresses) => {
      if (!addresses.every(({ address }) => isAllowed(address, isEncrypted))) throw new AddressError()
      if (all === true) callback(null, addresses)
      else callback(null, addresses[0]?.address as string, addresses[0]?.family)
    }).catch((error: NodeJS.ErrnoException) => callback(error, ''))
  }

  return {
    async post (text, headers, body, signal) {
      const url = new URL(text)
      const isEncrypted = url.protocol === 'https:'
      const host = hostOf(url.hostname)
      // An address isn't looked up.
      if (isIP(host) !== 0 && !isAllowed(host, isEncrypted)) return failure(new AddressError())
      const limit = AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)])
      const options = { lookup: lookupFor(isEncrypted), signal: limit }
      try {
        return outcomeOf(await responseTo(url, headers, body, options))
      } catch (error) {
        return failure(error as NodeJS.ErrnoException)
      }
    }
  }
}

/** Returns the addresses of a name. @throws the error of the resolver if there are none */
async function resolve (resolver: Resolver, hostname: string): Promise<{ address: string, family: 4 | 6 }[]> {
  if (/(^|\.)localhost\.?$/i.test(hostname)) return [{ address: '127.0.0.1', family: 4 }] // RFC 6761
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
  const addresses = [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 as const })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 as const }))
  ]
  if (addresses.length === 0 && v4.status === 'rejected') throw v4.reason
  return addresses
}

async function responseTo (
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  options: { readonly lookup: LookupFunction, readonly signal: AbortSignal }
): Promise<http.IncomingMessage> {
  const { request: send, Agent } = url.protocol === 'https:' ? https : http
  // An own agent ignores the proxies of the environment. The environment can't turn off the check either.
  const agent = new Agent({ keepAlive: false, rejectUnauthorized: true })
  return await new Promise((resolve, reject) => {
    const request = send(url, {
      ...options,
      agent,
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) }
    })
    request.on('response', (response) => {
      request.destroy() // the body is of no use
      resolve(response)
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
    retryAfter: headers['retry-after']
  }
}

const failure = (error: NodeJS.ErrnoException): Outcome => ({ status: null, error: describe(error) })

/** The words of libraries aren't shown: they may name addresses of the operator's network. */
function describe (error: NodeJS.ErrnoException): string {
  if (error instanceof AddressError) return 'Connection failed: address not allowed'
  const { code = '', name } = error
  if (name === 'AbortError' || name === 'TimeoutError') return `No response within ${LIMIT_MS / 1000} seconds`
  if (code.startsWith('HPE_')) return 'The response is not valid HTTP'
  const reason = REASONS[code] ??
    (/CERT|SIGNATURE|ERR_TLS|ERR_SSL/.test(code) ? 'certificate or TLS not valid' : '')
  return reason === '' ? 'Connection failed' : `Connection failed: ${reason}`
}

const UNTRUSTED = 'certificate is not signed by a trusted authority'
const REASONS: Readonly<Record<string, string>> = {
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
