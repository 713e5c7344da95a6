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

/** Results that are kept. To parse an address takes longer than to check a limit. */
const MAX_CACHED = 50_000
/** Peers and headers whose result is kept, in characters. Longer ones aren't sent by honest clients. */
const MAX_CACHED_LENGTH = 128
/** Peers that are remembered as trusted. */
const MAX_TRUSTED_PEERS = 1000
/** Characters parsed at the end of X-Forwarded-For, where proxies append. Clients can send any length. */
const MAX_FORWARDED_LENGTH = 1024

export default fp(async (app) => {
  const trustsProxies = app.config.TRUST_PROXY.length > 0
  /** Results by peer, or by peer and X-Forwarded-For. */
  const cache = new LRUCache<string, ClientAddress>({ max: MAX_CACHED })
  /**
   * Peers in TRUST_PROXY, as Fastify's parser found. A plain IPv4 address that one of them reports needs
   * neither the parser nor a place in the cache, which a million clients would overflow.
   */
  const trustedPeers = new LRUCache<string, true>({ max: MAX_TRUSTED_PEERS })
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

  function parse (cacheKey: string, claimed: string, peer: string): ClientAddress {
    const full = bareAddress(claimed) ?? bareAddress(peer) ?? 'unknown'
    const address = { full, counted: countedAddress(full) }
    if (cacheKey.length <= MAX_CACHED_LENGTH) cache.set(cacheKey, address)
    return address
  }

  app.decorate('addressOf', (request) => {
    const peer = request.raw.socket.remoteAddress ?? ''
    let forwarded = request.raw.headers['x-forwarded-for'] as string | undefined
    if (forwarded === undefined || !trustsProxies) {
      if (forwarded !== undefined) warn(peer)
      return cache.get(peer) ?? parse(peer, peer, peer)
    }
    if (isIPv4(forwarded) && trustedPeers.has(peer)) return { full: forwarded, counted: forwarded }
    const cacheKey = `${peer} ${forwarded}`
    const cached = cache.get(cacheKey)
    if (cached !== undefined) return cached
    if (forwarded.length > MAX_FORWARDED_LENGTH) {
      forwarded = forwarded.slice(forwarded.indexOf(',', forwarded.length - MAX_FORWARDED_LENGTH) + 1)
      request.raw.headers['x-forwarded-for'] = forwarded
    }
    const claimed = (request.ip as string | undefined) ?? '' // undefined if the socket is closed
    if (claimed === forwarded && claimed !== peer) trustedPeers.set(peer, true)
    // The peer isn't a trusted proxy, unless it reports its own address as the client's.
    if (claimed === peer && !forwarded.trimEnd().endsWith(peer)) warn(peer)
    return parse(cacheKey, claimed, peer)
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
  return groups.length === 0 ? normalizeIP(full) : `${groups.map((group) => group.toString(16)).join(':')}::`
}

/** An address without the port and brackets that some proxies add; undefined if it isn't an address. */
function bareAddress (address: string): string | undefined {
  if (isIP(address) === 4) return address
  const bare = address.replace(/^\[(.+)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1').replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : bare
}
