import { isIP } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'

let warned = false

/**
 * The address that limits count by: the socket's, or what trusted proxies say (Fastify's `trustProxy`).
 * IPv4 in its mapped form counts as IPv4, IPv6 by its /64, which is what one customer of a provider has.
 */
export function clientAddress (request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? ''
  const claimed = request.ip ?? peer
  if (!warned && claimed === peer && request.headers['x-forwarded-for'] !== undefined) {
    warned = true
    request.log.warn({ peer }, 'X-Forwarded-For of an untrusted peer is ignored; if it is your proxy, name it in TRUST_PROXY (said once)')
  }
  return normalizeAddress(claimed) ?? normalizeAddress(peer) ?? 'unknown'
}

/** An address as limits count it, or undefined for what is none. A port behind it, as some proxies write, is cut off. */
export function normalizeAddress (address: string): string | undefined {
  if (isIP(address) === 4) return address
  const bare = address.replace(/^\[(.+)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1').replace(/%.*$/, '')
  return isIP(bare) === 0 ? undefined : normalizeIP(bare)
}
