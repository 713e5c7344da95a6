import { isIP, isIPv4 } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { clock } from '../infra/system/clock.ts'

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

interface KnownAddress extends ClientAddress {
  /** Whether X-Forwarded-For was ignored because the peer isn't trusted. */
  readonly isIgnored: boolean
}

/** Maximum number of cached addresses that aren't plain IPv4. Parsing one takes longer than a limit check. */
const MAX_KNOWN = 50_000
/** Maximum number of cached proxies. */
const MAX_PROXIES = 1000
const MAX_KNOWN_LENGTH = 128
/** Characters parsed at the end of X-Forwarded-For, where proxies append. Clients can send any length. */
const MAX_FORWARDED_LENGTH = 1024

/** Requests after which the share of an untrusted peer is judged. */
const SAMPLE_REQUESTS = 100
/** The peer's requests minus those of other untrusted peers, as a share of all: nearly all come from it. */
const NEARLY_ALL = 0.8
const WARNING_INTERVAL_MS = 60_000

/**
 * Warns of peers that send X-Forwarded-For without being trusted: once, and again, at most once a minute,
 * while one of them sends nearly all requests. Then a proxy is probably missing in TRUST_PROXY.
 */
class UntrustedPeers {
  /** All requests since the last judgement. The caller counts them. */
  requests = 0
  readonly #warn: (peer: string, isRepeated: boolean) => void
  #warnedAt: number | undefined
  #suspect = ''
  /** The suspect's requests minus those of other untrusted peers (majority vote). */
  #lead = 0

  constructor (warn: (peer: string, isRepeated: boolean) => void) {
    this.#warn = warn
  }

  /** Counts a request whose X-Forwarded-For was ignored. */
  add (peer: string): void {
    if (this.#warnedAt === undefined) {
      this.#warnedAt = clock.now()
      this.#warn(peer, false)
    }
    if (this.#lead === 0) this.#suspect = peer
    this.#lead += this.#suspect === peer ? 1 : -1
    if (this.requests < SAMPLE_REQUESTS) return
    const isProxy = this.#lead >= NEARLY_ALL * this.requests
    this.requests = 0
    this.#lead = 0
    if (!isProxy || clock.now() < this.#warnedAt + WARNING_INTERVAL_MS) return
    this.#warnedAt = clock.now()
    this.#warn(this.#suspect, true)
  }
}

export default fp(async (app) => {
  const trustsProxies = app.config.TRUST_PROXY.length > 0
  const known = new LRUCache<string, KnownAddress>({ max: MAX_KNOWN })
  /** Peers in TRUST_PROXY, so that most addresses of a crowd need neither the cache nor Fastify's parser. */
  const proxies = new LRUCache<string, true>({ max: MAX_PROXIES })
  const untrusted = new UntrustedPeers((peer, isRepeated) =>
    app.log.warn(
      { peer },
      isRepeated
        ? 'X-Forwarded-For of an untrusted peer is ignored, and this peer sends nearly all requests: they ' +
          'share its limits; if it is your proxy, add it to TRUST_PROXY'
        : 'X-Forwarded-For of an untrusted peer is ignored; if the peer is your proxy, add it to ' +
          'TRUST_PROXY (logged once)'
    )
  )

  function remember (source: string, claimed: string, peer: string, isIgnored = false): KnownAddress {
    const full = bareAddress(claimed) ?? bareAddress(peer) ?? 'unknown'
    const address = { full, counted: countedAddress(full), isIgnored }
    if (source.length <= MAX_KNOWN_LENGTH) known.set(source, address)
    return address
  }

  app.decorate('addressOf', (request) => {
    untrusted.requests++
    const peer = request.raw.socket.remoteAddress ?? ''
    let forwarded = request.raw.headers['x-forwarded-for'] as string | undefined
    if (forwarded === undefined || !trustsProxies) {
      if (forwarded !== undefined) untrusted.add(peer)
      return known.get(peer) ?? remember(peer, peer, peer)
    }
    if (isIPv4(forwarded) && proxies.has(peer)) return { full: forwarded, counted: forwarded }
    const source = `${peer} ${forwarded}`
    const remembered = known.get(source)
    if (remembered !== undefined) {
      if (remembered.isIgnored) untrusted.add(peer)
      return remembered
    }
    if (forwarded.length > MAX_FORWARDED_LENGTH) {
      forwarded = forwarded.slice(forwarded.indexOf(',', forwarded.length - MAX_FORWARDED_LENGTH) + 1)
      request.raw.headers['x-forwarded-for'] = forwarded
    }
    const claimed = (request.ip as string | undefined) ?? '' // undefined if the socket is closed
    if (claimed === forwarded && claimed !== peer) proxies.set(peer, true)
    // The peer isn't a trusted proxy, unless it reports its own address as the client's.
    const isIgnored = claimed === peer && !forwarded.trimEnd().endsWith(peer)
    if (isIgnored) untrusted.add(peer)
    return remember(source, claimed, peer, isIgnored)
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
