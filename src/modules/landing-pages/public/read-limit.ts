import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { AllowedHosts } from '../../../config.ts'
import { LeasedLimit, MAX_WINDOW_MS, type LeaseStore } from '../../rate-limit/index.ts'
import type { ClientAddress } from '../../../http/client-address.ts'
import { headerLines } from './prepared-head.ts'

/** The most cached results. A page sends the same Origin with each read. */
const MAX_KNOWN_ORIGINS = 1000
/** In characters. A longer Origin or Referer is not an allowed host. */
const MAX_ORIGIN_LENGTH = 2048

/** Returns a function that recognises allowed hosts by client address, or by Origin or Referer. */
function allowedHostMatcher ({ names, suffixes, networks }: AllowedHosts) {
  const hasNames = names.length + suffixes.length > 0
  const isInNetworks = networkMatcher(networks)
  const known = new LRUCache<string, boolean>({ max: MAX_KNOWN_ORIGINS })

  function matchesOrigin (origin: string): boolean {
    const before = known.get(origin)
    if (before !== undefined) return before
    const host = URL.canParse(origin) ? new URL(origin).hostname.toLowerCase().replace(/\.$/, '') : ''
    const matches = names.includes(host) ||
      suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
    known.set(origin, matches)
    return matches
  }

  return (request: FastifyRequest, { full }: ClientAddress): boolean => {
    // The full address, because an allowed range may be narrower than the /64 by which reads are counted.
    if (isInNetworks(full)) return true
    if (!hasNames) return false
    const origin = request.headers.origin ?? request.headers.referer
    return origin !== undefined && origin.length <= MAX_ORIGIN_LENGTH && matchesOrigin(origin)
  }
}

/**
 * Returns a function that tells whether one of the networks contains an address; false if it isn't one.
 *
 * @param networks valid addresses (`10.0.0.1`) and ranges (`2001:db8::/32`)
 */
export function networkMatcher (networks: readonly string[]): (address: string) => boolean {
  if (networks.length === 0) return () => false
  /** All networks; asked for IPv6 addresses only, which may be IPv4-mapped (`::ffff:10.0.0.1`). */
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  // IPv4 networks as numbers, for IPv4 addresses: `list` would take 1.2 µs for each read.
  const ranges = networks.filter((network) => !network.includes(':')).map(rangeOf)
  return (address) => {
    const family = isIP(address)
    if (family === 6) return list.check(address, 'ipv6')
    if (family !== 4) return false
    const number = numberOf(address)
    return ranges.some(({ first, last }) => number >= first && number <= last)
  }
}

function rangeOf (network: string): { first: number, last: number } {
  const [address = '', prefix = '32'] = network.split('/')
  const size = 2 ** (32 - Number(prefix))
  const first = Math.floor(numberOf(address) / size) * size
  return { first, last: first + size - 1 }
}

/** The number of an IPv4 address. */
function numberOf (address: string): number {
  let number = 0
  let part = 0
  for (let index = 0; index < address.length; index++) {
    const code = address.charCodeAt(index)
    if (code === 46) { // a dot
      number = number * 256 + part
      part = 0
    } else {
      part = part * 10 + code - 48
    }
  }
  return number * 256 + part
}

/** Responses with documents from one source, by status. */
export interface Served {
  /** 200 */
  sent: number
  /** 304 */
  notModified: number
}

/** Where a document came from. `stale` is an expired one from memory, while PostgreSQL is unreachable. */
type Source = 'process' | 'redis' | 'database' | 'stale'

/** Public reads of one tier by result. Plain numbers, because prom-client's counters are too slow. */
export interface PublicReads extends Record<Source, Served> {
  /** 404 */
  notFound: number
  /** 412 */
  conditionFailed: number
  /** 429 */
  refused: number
  /** 500 and 503 */
  failed: number
}

const noReads = (): PublicReads => ({
  process: { sent: 0, notModified: 0 },
  redis: { sent: 0, notModified: 0 },
  database: { sent: 0, notModified: 0 },
  stale: { sent: 0, notModified: 0 },
  notFound: 0,
  conditionFailed: 0,
  refused: 0,
  failed: 0
})

const WINDOW_MS = MAX_WINDOW_MS

/** One of the two budgets of a client address. */
export interface Tier {
  readonly name: 'public' | 'allowed-host'
  readonly limit: LeasedLimit
  readonly max: number
  /** The RateLimit-Policy line and the start of the RateLimit line (draft-ietf-httpapi-ratelimit-headers). */
  readonly lines: string
  /** Incremented by the route. */
  readonly reads: PublicReads
}

/** The limit of public reads: a fixed window of 60 s per client address and tier. */
export class ReadLimit {
  readonly #isAllowedHost: ReturnType<typeof allowedHostMatcher>
  readonly #public: Tier
  readonly #allowed: Tier
  readonly #leases: LeaseStore | undefined

  constructor (
    settings: { ALLOWED_HOSTS: AllowedHosts, RATE_LIMIT_PUBLIC: number, RATE_LIMIT_ALLOWED_HOSTS: number },
    leases: LeaseStore | undefined
  ) {
    this.#leases = leases
    this.#isAllowedHost = allowedHostMatcher(settings.ALLOWED_HOSTS)
    this.#public = tier('public', settings.RATE_LIMIT_PUBLIC, leases)
    this.#allowed = tier('allowed-host', settings.RATE_LIMIT_ALLOWED_HOSTS, leases)
  }

  /** Returns the budget that a read is counted against. */
  tierOf (request: FastifyRequest, address: ClientAddress): Tier {
    return this.#isAllowedHost(request, address) ? this.#allowed : this.#public
  }

  get tiers (): readonly Tier[] {
    return [this.#public, this.#allowed]
  }

  /**
   * Hands over what this process has counted, so that the other processes needn't reserve its share.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async close (): Promise<void> {
    await Promise.all(this.tiers.map(async ({ limit }) => await limit.close()))
    await this.#leases?.succession.leave()
  }
}

const tier = (name: Tier['name'], max: number, leases: LeaseStore | undefined): Tier => ({
  name,
  max,
  limit: new LeasedLimit({ nameSpace: name, max, timeWindow: WINDOW_MS }, leases),
  lines: `${
    headerLines(['ratelimit-policy', `"${name}";q=${max};w=${WINDOW_MS / 1000}`])
  }ratelimit: "${name}";r=`,
  reads: noReads()
})
