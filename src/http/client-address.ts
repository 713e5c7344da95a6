import { isIP, isIPv4 } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'

declare module 'fastify' {
  interface FastifyInstance {
    /** The client's address: the peer of the socket, or the address that a proxy in TRUST_PROXY reports. */
    addressOf: (request: FastifyRequest) => ClientAddress
  }
}

export interface ClientAddress {
  /** The full address, for logs and for comparison with CIDR ranges. */
  readonly full: string
  /** The result of countedAddress(). */
  readonly counted: string
}

/** Maximum number of cached addresses that aren't plain IPv4. Parsing one takes longer than a limit check. */
const MAX_KNOWN = 50_000
/** Maximum number of cached proxies. */
const MAX_PROXIES = 1000
const MAX_KNOWN_LENGTH = 128
/** Characters parsed at the end of X-Forwarded-For, where proxies append. Clients can send any length. */
const MAX_FORWARDED_LENGTH = 1024

export default fp(async (app) => {
  const trustsProxies = app.config.TRUST_PROXY.length > 0
  const known = new LRUCache<string, ClientAddress>({ max: MAX_KNOWN })
  /** Peers in TRUST_PROXY, so that most addresses of a crowd need neither the cache nor Fastify's parser. */
  const proxies = new LRUCache<string, true>({ max: MAX_PROXIES })
  let hasWarned = false
  /** Warns of the first peer that sends X-Forwarded-For without being trusted. */
  function warn (peer: string): void {
    if (hasWarned) return
    hasWarned = true
    app.log.warn(
      { peer },
      'X-Forwarded-For of an untrusted peer is ignored; if the peer is your proxy, add it to TRUST_PROXY ' +
        '(logged once)'
    )
  }

  function remember (source: string, claimed: string, peer: string): ClientAddress {
    const full = bareAddress(claimed) ?? bareAddress(peer) ?? 'unknown'
    const address = { full, counted: countedAddress(full) }
    if (source.length <= MAX_KNOWN_LENGTH) known.set(source, address)
    return address
  }

  app.decorate('addressOf', (request) => {
    const peer = request.raw.socket.remoteAddress ?? ''
    let forwarded = request.raw.headers['x-forwarded-for'] as string | undefined
    if (forwarded === undefined || !trustsProxies) {
      if (forwarded !== undefined) warn(peer)
      return known.get(peer) ?? remember(peer, peer, peer)
    }
    if (isIPv4(forwarded) && proxies.has(peer)) return { full: forwarded, counted: forwarded }
    const source = `${peer} ${forwarded}`
    const remembered = known.get(source)
    if (remembered !== undefined) return remembered
    if (forwarded.length > MAX_FORWARDED_LENGTH) {
      forwarded = forwarded.slice(forwarded.indexOf(',', forwarded.length - MAX_FORWARDED_LENGTH) + 1)
      request.raw.headers['x-forwarded-for'] = forwarded
    }
    const claimed = (request.ip as string | undefined) ?? '' // undefined if the socket is closed
    if (claimed === forwarded && claimed !== peer) proxies.set(peer, true)
    // The peer isn't a trusted proxy, unless it reports its own address as the client's.
    if (claimed === peer && !forwarded.trimEnd().endsWith(peer)) warn(peer)
    return remember(source, claimed, peer)
  })
}, { name: 'client-address' })

/** The key for rate limits: an IPv4 address, or the /64 of an IPv6 address (usually one customer). */
export function countedAddress (full: string): string {
  if (isIP(full) !== 6) return full
  // normalizeIP() takes 9 µs, so only rare forms, with zeros left out in the first half, are left to it.
  const prefix = full.split(':', 4)
  if (prefix.includes('')) return normalizeIP(full)
  const groups = prefix.map((group) => Number.parseInt(group, 16))
  while (groups.at(-1) === 0) groups.pop()
  return groups.length === 0 ? normalizeIP(full)
    : `${groups.map((group) => group.toString(16)).join(':')}::`
}

/** An address without the port and brackets that some proxies add; undefined if it isn't an address. */
function bareAddress (address: string): string | undefined {
  if (isIP(address) === 4) return address
  const bare = address.replace(/^\[(.+)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1').replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : bare
}
