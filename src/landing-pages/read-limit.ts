import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { AllowedHosts } from '../config.ts'
import { LeasedLimit } from '../counters/leased-limit.ts'
import type { LeaseStore } from '../counters/lease-store.ts'
import type { ClientAddress } from '../plugins/client-address.ts'
import { headerLines } from './prepared-head.ts'
import { noReads, type PublicReads } from './read-metrics.ts'

const WINDOW_MS = 60_000
/** Parsed origins that are remembered; a page that reads much sends the same one each time. */
const MAX_KNOWN_ORIGINS = 1000
/** Of an Origin or Referer, in characters; longer ones are no page's of an allowed host. */
const MAX_PAGE_LENGTH = 2048

/** One of the two budgets that a client address has. */
export interface Tier {
  readonly name: 'public' | 'allowed-host'
  readonly limit: LeasedLimit
  readonly max: number
  /** The line of the RateLimit-Policy field, and the beginning of the RateLimit field's (draft-ietf-httpapi-ratelimit-headers). */
  readonly lines: string
  /** To be raised by whoever answers. */
  readonly reads: PublicReads
}

/** Whether a read comes from an allowed host, by its client address or by the page that it says it is made for. */
class AllowedHostMatcher {
  readonly #names: ReadonlySet<string>
  readonly #suffixes: readonly string[]
  readonly #hasNames: boolean
  readonly #networks: BlockList | undefined
  readonly #known = new Map<string, boolean>()

  constructor ({ names, suffixes, networks }: AllowedHosts) {
    this.#names = new Set(names)
    this.#suffixes = suffixes
    this.#hasNames = names.length + suffixes.length > 0
    if (networks.length > 0) this.#networks = blockListOf(networks)
  }

  matches (request: FastifyRequest, { full }: ClientAddress): boolean {
    if (this.#networks !== undefined) {
      // In full: a range may be narrower than what limits count by.
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
    const matches = this.#names.has(host) || this.#suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
    if (this.#known.size >= MAX_KNOWN_ORIGINS) this.#known.clear()
    this.#known.set(page, matches)
    return matches
  }
}

/** The limit of public reads: a fixed window of 60 s for each client address and tier. */
export class ReadLimit {
  readonly #allowedHosts: AllowedHostMatcher
  readonly #public: Tier
  readonly #allowed: Tier

  constructor (settings: { ALLOWED_HOSTS: AllowedHosts, RATE_LIMIT_PUBLIC: number, RATE_LIMIT_ALLOWED_HOSTS: number }, leases: LeaseStore | undefined) {
    this.#allowedHosts = new AllowedHostMatcher(settings.ALLOWED_HOSTS)
    this.#public = tier('public', settings.RATE_LIMIT_PUBLIC, leases)
    this.#allowed = tier('allowed-host', settings.RATE_LIMIT_ALLOWED_HOSTS, leases)
  }

  /** Which budget a read is counted against. */
  tierOf (request: FastifyRequest, address: ClientAddress): Tier {
    return this.#allowedHosts.matches(request, address) ? this.#allowed : this.#public
  }

  get tiers (): readonly Tier[] {
    return [this.#public, this.#allowed]
  }

  /** Hands unused reads back: at the end of the process. */
  async close (): Promise<void> {
    await Promise.all(this.tiers.map(async ({ limit }) => await limit.close()))
  }
}

const tier = (name: Tier['name'], max: number, leases: LeaseStore | undefined): Tier => ({
  name,
  max,
  limit: new LeasedLimit({ nameSpace: name, max, timeWindow: WINDOW_MS }, leases),
  lines: `${headerLines(['ratelimit-policy', `"${name}";q=${max};w=${WINDOW_MS / 1000}`])}ratelimit: "${name}";r=`,
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
