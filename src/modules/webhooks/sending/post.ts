import { Resolver } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { failure, FORBIDDEN_ADDRESS, sendRequest, type Outcome } from '../../../http/send-request.ts'
import { hostOf, isLocalhost, type IsAllowedAddress } from './allowed-addresses.ts'

/** Limits of one question to a DNS server, and how often it is asked. */
const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

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
class AddressError extends Error {
  readonly code = FORBIDDEN_ADDRESS
}

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
      return await sendRequest(url, { method: 'POST', headers, body, lookup: lookupFor(isEncrypted), signal })
    }
  }
}

/** Returns the addresses of a name. @throws the error of the resolver if there are none */
async function resolve (resolver: Resolver, hostname: string): Promise<{ address: string, family: 4 | 6 }[]> {
  if (isLocalhost(hostname)) return [{ address: '127.0.0.1', family: 4 }]
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
  const addresses = [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 as const })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 as const }))
  ]
  if (addresses.length === 0 && v4.status === 'rejected') throw v4.reason
  return addresses
}
