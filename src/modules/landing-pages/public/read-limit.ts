import type { FastifyRequest } from 'fastify'
import type { AllowedHosts } from '../../../config.ts'
import { LeasedLimit, MAX_WINDOW_MS, type LeaseStore } from '../../rate-limit/index.ts'
import type { ClientAddress } from '../../../http/client-address.ts'
import { AllowedHostMatcher } from './allowed-hosts.ts'
import { headerLines } from './prepared-head.ts'

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
    await this.#leases?.leave()
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
