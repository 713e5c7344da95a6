import { isIP } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'

let warned = false

/**
 * The address that limits count by: IPv4 in its mapped form counts as IPv4, IPv6 by its /64, which is what one customer
 * of a provider has.
 */
export function clientAddress (request: FastifyRequest): string {
  const address = fullClientAddress(request)
  return isIP(address) === 6 ? normalizeIP(address) : address
}

/** The client's address in full: the socket's, or what trusted proxies say (Fastify's `trustProxy`). */
export function fullClientAddress (request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? ''
  const claimed = request.ip ?? peer
  if (!warned && claimed === peer && request.headers['x-forwarded-for'] !== undefined) {
    warned = true
    request.log.warn({ peer }, 'X-Forwarded-For of an untrusted peer is ignored; if it is your proxy, name it in TRUST_PROXY (said once)')
  }
  return bareAddress(claimed) ?? bareAddress(peer) ?? 'unknown'
}

/** An address without the port and the brackets that some proxies write; undefined for what is none. */
function bareAddress (address: string): string | undefined {
  if (isIP(address) === 4) return address
  const bare = address.replace(/^\[(.+)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1').replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : bare
}
