import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { AllowedHosts } from '../../../config.ts'
import { LeasedLimit, type LeaseStore } from '../../rate-limit/index.ts'
import type { ClientAddress } from '../../../http/client-address.ts'
import { headerLines } from './prepared-head.ts'
import { noReads, type PublicReads } from './read-counts.ts'

const WINDOW_MS = 60_000
/** The most cached results. A page sends the same Origin with each read. */
const MAX_KNOWN_ORIGINS = 1000
/** In characters. A longer Origin or Referer is not an allowed host. */
const MAX_PAGE_LENGTH = 2048

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

/** Recognises allowed hosts by client address, or by Origin or Referer. */
class AllowedHostMatcher {
  readonly #names: ReadonlySet<string>
  readonly #suffixes: readonly string[]
  readonly #hasNames: boolean
  readonly #networks: BlockList | undefined
  readonly #known = new LRUCache<string, boolean>({ max: MAX_KNOWN_ORIGINS })

  constructor ({ names, suffixes, networks }: AllowedHosts) {
    this.#names = new Set(names)
    this.#suffixes = suffixes
    this.#hasNames = names.length + suffixes.length > 0
    if (networks.length > 0) this.#networks = blockListOf(networks)
  }

  matches (request: FastifyRequest, { full }: ClientAddress): boolean {
    if (this.#networks !== undefined) {
      // The full address, because an allowed range may be narrower than the /64 by which reads are counted.
      const family = isIP(full)
      if (family !== 0 && this.#networks.check(full, family === 4 ? 'ipv4' : 'ipv6')) return true
    }
    if (!this.#hasNames) return false
    const page = request.headers.origin ?? request.headers.referer
    return page !== undefined && page.length <= MAX_PAGE_LENGTH && this.#matchesPage(page)
  }

  #matchesPage (page: string): boolean {
    const known = this.#known.get(page)
    if (known !== undefined) return known
    const host = URL.canParse(page) ? new URL(page).hostname.toLowerCase().replace(/\.$/, '') : ''
    const matches = this.#names.has(host) ||
      this.#suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
    this.#known.set(page, matches)
    return matches
  }
}

/** The limit of public reads: a fixed window of 60 s per client address and tier. */
export class ReadLimit {
  readonly #allowedHosts: AllowedHostMatcher
  readonly #public: Tier
  readonly #allowed: Tier

  constructor (
    settings: { ALLOWED_HOSTS: AllowedHosts, RATE_LIMIT_PUBLIC: number, RATE_LIMIT_ALLOWED_HOSTS: number },
    leases: LeaseStore | undefined
  ) {
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

  /** Returns unspent reads to Redis. */
  async close (): Promise<void> {
    await Promise.all(this.tiers.map(async ({ limit }) => await limit.close()))
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

function blockListOf (networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return list
}
