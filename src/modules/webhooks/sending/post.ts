import { Resolver } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'
import { failure, FORBIDDEN_ADDRESS, sendRequest, type Outcome } from '../../../http/send-request.ts'

// Which addresses the service connects to on behalf of an owner. Without a limit, owners could reach services
// inside the operator's network (server-side request forgery).

/** All public unicast addresses of IPv6 are in this network, none that translates or carries IPv4. */
const PUBLIC_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3')

/** Decides whether an address may be reached. `isEncrypted` is false for `http:`. */
export type IsAllowedAddress = (address: string, isEncrypted: boolean) => boolean

/**
 * Allows public unicast addresses over `https:`, and some networks over both.
 *
 * @param networks addresses and CIDR ranges, which must be valid
 */
export function allowedAddresses (networks: readonly string[]): IsAllowedAddress {
  const ranges = networks.map((network) =>
    network.includes('/') ? ipaddr.parseCIDR(network) : wholeAddress(ipaddr.parse(network))
  )
  return (text, isEncrypted) => {
    if (isIP(text) === 0) return false
    const address = ipaddr.process(text) // an IPv4 address in IPv6 is the IPv4 address
    const isOwn = ranges.some((range) => isIn(address, range))
    return isOwn || (isEncrypted && isPublic(address))
  }
}

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Address, number]

const wholeAddress = (address: Address): Range => [address, address.kind() === 'ipv4' ? 32 : 128]

const isIn = (address: Address, [network, length]: Range): boolean =>
  address.kind() === network.kind() && address.match([network, length] as [ipaddr.IPv4, number])

const isPublic = (address: Address): boolean =>
  address.range() === 'unicast' && (address.kind() === 'ipv4' || isIn(address, PUBLIC_IPV6))

/** The longest URL of a webhook, in UTF-16 code units. */
export const URL_MAX = 2048

/**
 * Returns what is wrong with the URL of a webhook. A host name is checked when the service connects.
 *
 * @param hasNetworks whether any address may be reached over `http:`
 */
export function checkUrl (text: string, isAllowed: IsAllowedAddress, hasNetworks: boolean): string[] {
  if (/[\s\p{C}]/u.test(text) || !URL.canParse(text)) return ['must be an https:// address']
  const { protocol, hostname, username, password } = new URL(text)
  if (protocol === 'http:' && !hasNetworks) {
    return ['must be an https:// address (http:// only in the networks of WEBHOOK_NETWORKS)']
  }
  if (protocol !== 'https:' && protocol !== 'http:') return ['must be an https:// address']
  if (username !== '' || password !== '') return ['must not contain a user name or password']
  const host = isLocalhost(hostname) ? '127.0.0.1' : hostOf(hostname)
  return isIP(host) === 0 || isAllowed(host, protocol === 'https:') ? []
    : ['must not have a private or special address']
}

/** Names that lead to the own machine (RFC 6761). */
const isLocalhost = (hostname: string): boolean => /(^|\.)localhost\.?$/i.test(hostname)

/** The host of a URL, without the brackets of an IPv6 address. */
const hostOf = (hostname: string): string => hostname.replace(/^\[|\]$/g, '')

/** Limits of one question to a DNS server, and how often it is asked. */
const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

/** Sends a body. Never rejects, and reads nothing of the response but its status. */
export type Post = (
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal
) => Promise<Outcome>

/** The host may not be reached. */
class AddressError extends Error {
  readonly code = FORBIDDEN_ADDRESS
}

/** @param dnsServers addresses of DNS servers, by default those of the system */
export function createPost (isAllowed: IsAllowedAddress, dnsServers?: readonly string[]): Post {
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

  return async (text, headers, body, signal) => {
    const url = new URL(text)
    const isEncrypted = url.protocol === 'https:'
    const host = hostOf(url.hostname)
    // An address isn't looked up.
    if (isIP(host) !== 0 && !isAllowed(host, isEncrypted)) return failure(new AddressError())
    return await sendRequest(url, { method: 'POST', headers, body, lookup: lookupFor(isEncrypted), signal })
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
