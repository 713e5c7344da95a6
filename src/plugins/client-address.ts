import { isIP } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import fp from 'fastify-plugin'
import type { FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyInstance {
    /** The client's address: the socket's, or what trusted proxies (TRUST_PROXY) say. */
    addressOf: (request: FastifyRequest) => ClientAddress
  }
}

export interface ClientAddress {
  /** In full: what ranges of addresses are compared with. */
  readonly full: string
  /** What limits count by: IPv4 in its mapped form is IPv4, IPv6 its /64, which is what one customer of a provider has. */
  readonly counted: string
}

/** Addresses that are remembered by what they are told from: telling them costs more than the rest of a limit. */
const MAX_KNOWN = 50_000
const MAX_KNOWN_LENGTH = 128
/** Of X-Forwarded-For, in characters: what proxies have added stands at its end, and a thousand hops are an attack. */
const MAX_FORWARDED_LENGTH = 1024

let warned = false

export default fp(async (app) => {
  const trustsProxies = app.config.TRUST_PROXY.length > 0
  const known = new Map<string, ClientAddress>()

  function remember (source: string, claimed: string, peer: string): ClientAddress {
    const full = bareAddress(claimed) ?? bareAddress(peer) ?? 'unknown'
    const address = { full, counted: isIP(full) === 6 ? normalizeIP(full) : full }
    if (known.size >= MAX_KNOWN) known.clear()
    if (source.length <= MAX_KNOWN_LENGTH) known.set(source, address)
    return address
  }

  app.decorate('addressOf', (request) => {
    const peer = request.raw.socket.remoteAddress ?? ''
    let forwarded = request.raw.headers['x-forwarded-for'] as string | undefined
    if (forwarded === undefined || !trustsProxies) {
      if (forwarded !== undefined) warn(request, peer)
      return known.get(peer) ?? remember(peer, peer, peer)
    }
    const source = `${peer} ${forwarded}`
    const remembered = known.get(source)
    if (remembered !== undefined) return remembered
    if (forwarded.length > MAX_FORWARDED_LENGTH) {
      forwarded = forwarded.slice(forwarded.indexOf(',', forwarded.length - MAX_FORWARDED_LENGTH) + 1)
      request.raw.headers['x-forwarded-for'] = forwarded
    }
    const claimed = (request.ip as string | undefined) ?? '' // of a socket that is closed already
    // One that is not believed, unless a believed one names itself.
    if (claimed === peer && !forwarded.trimEnd().endsWith(peer)) warn(request, peer)
    return remember(source, claimed, peer)
  })
}, { name: 'client-address' })

function warn (request: FastifyRequest, peer: string): void {
  if (warned) return
  warned = true
  request.log.warn({ peer }, 'X-Forwarded-For of an untrusted peer is ignored; if it is your proxy, name it in TRUST_PROXY (said once)')
}

/** An address without the port and the brackets that some proxies write; undefined for what is none. */
function bareAddress (address: string): string | undefined {
  if (isIP(address) === 4) return address
  const bare = address.replace(/^\[(.+)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1').replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : bare
}
