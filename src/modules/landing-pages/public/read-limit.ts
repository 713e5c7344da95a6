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

/** Recognises allowed hosts by client address, or by Origin or Referer. */
export class AllowedHostMatcher {
  readonly #names: ReadonlySet<string>
  readonly #suffixes: readonly string[]
  readonly #hasNames: boolean
  readonly #networks: Networks | undefined
  readonly #known = new LRUCache<string, boolean>({ max: MAX_KNOWN_ORIGINS })

  constructor ({ names, suffixes, networks }: AllowedHosts) {
    this.#names = new Set(names)
    this.#suffixes = suffixes
    this.#hasNames = names.length + suffixes.length > 0
    if (networks.length > 0) this.#networks = new Networks(networks)
  }

  matches (request: FastifyRequest, { full }: ClientAddress): boolean {
    // The full address, because an allowed range may be narrower than the /64 by which reads are counted.
    if (this.#networks?.contains(full) === true) return true
    if (!this.#hasNames) return false
    const origin = request.headers.origin ?? request.headers.referer
    return origin !== undefined && origin.length <= MAX_ORIGIN_LENGTH && this.#matchesOrigin(origin)
  }

  #matchesOrigin (origin: string): boolean {
    const known = this.#known.get(origin)
    if (known !== undefined) return known
    const host = URL.canParse(origin) ? new URL(origin).hostname.toLowerCase().replace(/\.$/, '') : ''
    const matches = this.#names.has(host) ||
      this.#suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
    this.#known.set(origin, matches)
    return matches
  }
}

/** Addresses and CIDR ranges. */
export class Networks {
  /** All networks; asked for IPv6 addresses only, which may be IPv4-mapped (`::ffff:10.0.0.1`). */
  readonly #list = new BlockList()
  /** The IPv4 networks as numbers, for IPv4 addresses: `#list` would take 1.2 µs for each read. */
  readonly #ranges: readonly { readonly first: number, readonly last: number }[]

  /** @param networks valid addresses (`10.0.0.1`) and ranges (`2001:db8::/32`) */
  constructor (networks: readonly string[]) {
    for (const network of networks) {
      const [address = '', prefix] = network.split('/')
      const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
      if (prefix === undefined) this.#list.addAddress(address, family)
      else this.#list.addSubnet(address, Number(prefix), family)
    }
    this.#ranges = networks.filter((network) => !network.includes(':')).map(rangeOf)
  }

  /** Whether one of the networks contains the address; false if it isn't an address. */
  contains (address: string): boolean {
    const family = isIP(address)
    if (family === 6) return this.#list.check(address, 'ipv6')
    if (family !== 4) return false
    const number = numberOf(address)
    return this.#ranges.some(({ first, last }) => number >= first && number <= last)
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
  readonly #allowedHosts: AllowedHostMatcher
  readonly #public: Tier
  readonly #allowed: Tier
  readonly #leases: LeaseStore | undefined

  constructor (
    settings: { ALLOWED_HOSTS: AllowedHosts, RATE_LIMIT_PUBLIC: number, RATE_LIMIT_ALLOWED_HOSTS: number },
    leases: LeaseStore | undefined
  ) {
    this.#leases = leases
    this.#allowedHosts = new AllowedHostMatcher(settings.ALLOWED_HOSTS)
    this.#public = tier('public', settings.RATE_LIMIT_PUBLIC, leases)
    this.#allowed = tier('allowed-host', settings.RATE_LIMIT_ALLOWED_HOSTS, leases)
  }

  /** Returns the budget that a read is counted against. */
  tierOf (request: FastifyRequest, address: ClientAddress): Tier {
    return this.#allowedHosts.matches(request, address) ? this.#allowed : this.#public
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
