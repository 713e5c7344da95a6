import { BlockList, isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { AllowedHosts } from '../config.ts'
import type { Counters } from '../counters/counters.ts'
import type { Count } from '../counters/local-windows.ts'
import { clientAddress, fullClientAddress } from '../plugins/client-address.ts'

const WINDOW_MS = 60_000
/** Parsed origins that are remembered; a page that reads much sends the same one each time. */
const MAX_KNOWN_ORIGINS = 1000

/** One of the two budgets that a client address has. */
export interface Tier {
  readonly name: 'public' | 'allowed-host'
  readonly limit: number
  /** The RateLimit-Policy field. */
  readonly policy: string
}

/** Whether a read comes from an allowed host, by its client address or by the page that it says it is made for. */
class AllowedHostMatcher {
  readonly #names: ReadonlySet<string>
  readonly #suffixes: readonly string[]
  readonly #networks: BlockList | undefined
  readonly #known = new Map<string, boolean>()

  constructor ({ names, suffixes, networks }: AllowedHosts) {
    this.#names = new Set(names)
    this.#suffixes = suffixes
    if (networks.length > 0) this.#networks = blockListOf(networks)
  }

  matches (request: FastifyRequest): boolean {
    if (this.#networks !== undefined) {
      // In full: a range may be narrower than what limits count by.
      const address = fullClientAddress(request)
      const family = isIP(address)
      if (family !== 0 && this.#networks.check(address, family === 4 ? 'ipv4' : 'ipv6')) return true
    }
    if (this.#names.size === 0 && this.#suffixes.length === 0) return false
    const page = request.headers.origin ?? request.headers.referer
    return page !== undefined && this.#matchesPage(page)
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
  readonly #counters: Counters
  readonly #allowedHosts: AllowedHostMatcher
  readonly #public: Tier
  readonly #allowed: Tier

  constructor (counters: Counters, settings: { ALLOWED_HOSTS: AllowedHosts, RATE_LIMIT_PUBLIC: number, RATE_LIMIT_ALLOWED_HOSTS: number }) {
    this.#counters = counters
    this.#allowedHosts = new AllowedHostMatcher(settings.ALLOWED_HOSTS)
    this.#public = tier('public', settings.RATE_LIMIT_PUBLIC)
    this.#allowed = tier('allowed-host', settings.RATE_LIMIT_ALLOWED_HOSTS)
  }

  /** Which budget a read is counted against. */
  tierOf (request: FastifyRequest): Tier {
    return this.#allowedHosts.matches(request) ? this.#allowed : this.#public
  }

  /** Counts a read; at once when this process can tell by itself. */
  take (request: FastifyRequest, tier: Tier, now: number): Count | Promise<Count> {
    return this.#counters.take(`read:${tier.name}:${clientAddress(request)}`, tier.limit, WINDOW_MS, now)
  }
}

const tier = (name: Tier['name'], limit: number): Tier => ({ name, limit, policy: `"${name}";q=${limit};w=${WINDOW_MS / 1000}` })

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
