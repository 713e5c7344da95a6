import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { JWT_SECRET } from './app.ts'
import { call, Owner, type Response } from './client.ts'
import { Readers, statuses, type Read } from './readers.ts'
import { createMigratedDatabase, createProxy, freePort, startRedisServer, type Proxy,
  type Teardown } from './servers.ts'
import { startService, temporaryFolder, type Service } from './service.ts'
import { slackMs } from './slack.ts'
import { until } from './until.ts'

// Two replicas on one Redis, or on a Redis Cluster, and a steady load of reads, half of which need Redis.

/** RATE_LIMIT_PUBLIC of the replicas. The load comes from an allowed host and doesn't reach it. */
export const LIMIT = 12
/** CACHE_MAX_BYTES: space for the document that is read all the time and a few others. */
const CACHE_BYTES = 20_000
const COLD_PAGES = 40

export interface Replica extends Service {
  /** URL of the listener with the metrics. */
  readonly ops: string
  /** Returns a metric, named with its labels; NaN if there is none. */
  readonly metric: (name: string) => Promise<number>
}

interface ProxiedReplica extends Replica {
  /** The proxy between this replica and Redis. */
  readonly proxy: Proxy
}

/** A page whose documents contain their version. */
export class Page {
  readonly id: string
  readonly publicId: string
  readonly #owner: Owner
  /** Times at which versions were known to be committed, in milliseconds of `performance.now()`. */
  readonly commits: { readonly version: number, readonly at: number }[] = []

  constructor (owner: Owner, { id, public_id: publicId }: { id: string, public_id: string }) {
    this.#owner = owner
    this.id = id
    this.publicId = publicId
  }

  static async create (owner: Owner, url: string): Promise<Page> {
    const page = new Page(owner, await owner.createPage(url, documentOf(1)))
    page.commits.push({ version: 1, at: performance.now() })
    return page
  }

  get version (): number {
    return this.commits.at(-1)?.version ?? 0
  }

  /** Writes the next version. */
  async write (url: string): Promise<Response> {
    const version = this.version + 1
    const response = await this.#owner.update(url, this.id, documentOf(version))
    this.commits.push({ version, at: performance.now() })
    return response
  }

  async remove (url: string): Promise<Response> {
    return await this.#owner.call('DELETE', `${url}/manage/landing_pages/${this.id}`)
  }

  /** Reads the page on a replica; returns the status and the version. */
  async read (url: string): Promise<{ status: number, version: number }> {
    const { status, text } = await call('GET', `${url}/landing_pages/${this.publicId}`, { headers: LOAD })
    return { status, version: status === 200 ? versionIn(text) : 0 }
  }
}

const LOAD = { origin: 'https://load.example' }
const documentOf = (version: number): string => JSON.stringify({ version, padding: 'x'.repeat(500) })
const versionIn = (body: string): number => (JSON.parse(body) as { version: number }).version

/** Starts a Redis, two replicas with a proxy each in front of it, and the load. */
export async function startReplicas (t: Teardown) {
  const redis = await startRedisServer(t)
  const admin = new Redis(redis.url, { retryStrategy: () => 50, commandTimeout: 5000 })
  admin.on('error', () => {})
  t.teardown(() => admin.disconnect())
  const proxies = await Promise.all([0, 1].map(async () => await createProxy(t, redis.url))) as [Proxy, Proxy]
  const { one, two, ...load } = await startLoadedReplicas(t, [proxies[0].url, proxies[1].url])
  const [first, second]: [ProxiedReplica, ProxiedReplica] = [{ ...one, proxy: proxies[0] }, {
    ...two,
    proxy: proxies[1]
  }]
  return { redis, admin, one: first, two: second, ...load }
}

/** Starts two replicas with the given REDIS_URLs, and the load. */
export async function startLoadedReplicas (t: Teardown, redisUrls: readonly [string, string]) {
  const common = {
    DATABASE_URL: await createMigratedDatabase(t),
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    LOG_LEVEL: 'warn',
    CACHE_MAX_BYTES: String(CACHE_BYTES),
    TRUST_PROXY: '127.0.0.0/8,::1',
    ALLOWED_HOSTS: 'load.example',
    RATE_LIMIT_PUBLIC: String(LIMIT),
    RATE_LIMIT_ALLOWED_HOSTS: '1000000'
  }
  const replicas = await Promise
    .all(redisUrls.map(async (url) => await startReplica(t, { ...common, REDIS_URL: url }))) as [
      Replica,
      Replica
    ]
  const [one, two] = replicas
  const owner = await Owner.signUp(one.url)
  const create = async (): Promise<Page> => await Page.create(owner, one.url)
  const hot = await create()
  const cold: Page[] = []
  for (let n = 0; n < COLD_PAGES; n++) cold.push(await create())
  const readers = new Readers(t, {
    urls: [one.url, two.url],
    publicIds: cold.flatMap(({ publicId }) => [hot.publicId, publicId]),
    intervalMs: 30,
    headers: LOAD
  })
  return { one, two, owner, hot, cold, create, readers }
}

/** Starts a service with a metrics listener. @param isMeasured as for `startService` */
export async function startReplica (
  t: Teardown,
  env: Record<string, string>,
  isMeasured = false
): Promise<Replica> {
  const opsPort = await freePort()
  const service = await startService(t, { ...env, OPS_PORT: String(opsPort) }, undefined, isMeasured)
  const ops = `http://127.0.0.1:${opsPort}`
  const metric = async (name: string): Promise<number> => {
    const { text } = await call('GET', `${ops}/metrics`)
    const line = text.split('\n').find((line) => line.startsWith(`${name} `))
    return Number(line?.slice(name.length))
  }
  return { ...service, ops, metric }
}

/** Waits until all replicas share, or don't share, their limits; returns the time in milliseconds. */
export const untilShared = async (replicas: readonly Replica[], isShared: boolean): Promise<number> =>
  await untilMetric(replicas, 'landfall_limits_shared', Number(isShared))

/** Waits until all replicas receive, or don't receive, messages; returns the time in milliseconds. */
export const untilHearing = async (replicas: readonly Replica[], isHearing: boolean): Promise<number> =>
  await untilMetric(replicas, 'landfall_invalidation_channel_up', Number(isHearing))

async function untilMetric (replicas: readonly Replica[], name: string, value: number): Promise<number> {
  const from = performance.now()
  for (const { metric } of replicas) {
    await until(async () => await metric(name) === value, `${name} is ${value}`)
  }
  return Math.round(performance.now() - from)
}

/** Returns how many commands have run into the time limit of Redis. */
export async function timedOut (replicas: readonly Replica[]): Promise<number> {
  const name = 'landfall_redis_command_duration_seconds'
  const counts = await Promise
    .all(replicas.map(async ({ metric }) =>
      await metric(`${name}_count`) - await metric(`${name}_bucket{le="0.2"}`)
    ))
  return counts.reduce((sum, count) => sum + count, 0)
}

/** Reads as a client until it is refused; returns the number of successful reads. */
export async function spend ({ url }: Service, { publicId }: Page, client: string): Promise<number> {
  for (let passed = 0;; passed++) {
    const { status } = await call('GET', `${url}/landing_pages/${publicId}`, {
      headers: { 'x-forwarded-for': client }
    })
    if (status === 429) return passed
    if (status !== 200) throw new Error(`${status} where 200 or 429 was expected`)
  }
}

/** Reads as a new client from all replicas in turn; returns the number of successful reads. */
export async function spendTogether (replicas: readonly Replica[], page: Page): Promise<number> {
  return await undisturbed(replicas, async () => {
    const client = newClient()
    let passed = 0
    for (const replica of replicas) passed += await spend(replica, page, client)
    return passed
  })
}

/**
 * Runs an action; again if a replica counted alone meanwhile, because Redis was too slow on a busy machine.
 *
 * @returns what the action returned
 */
export async function undisturbed<T> (replicas: readonly Replica[], action: () => Promise<T>): Promise<T> {
  const outages = async (): Promise<string> =>
    String(await Promise.all(replicas.map(async ({ metric }) =>
      await metric('landfall_redis_outages_total')
    )))
  for (;;) {
    const before = await outages()
    await untilShared(replicas, true)
    await untilHearing(replicas, true)
    const result = await action()
    if (await outages() === before) return result
  }
}

let clients = 0

/** Returns a new client address. */
export const newClient = (): string => `192.0.2.${++clients}`

/** Returns the versions that reads returned, in the order of the requests. */
const shown = (reads: readonly Read[]) =>
  reads
    .filter(({ status }) => status === 200)
    .map(({ replica, publicId, sentAt, answeredAt, body }) => ({
      replica,
      publicId,
      sentAt,
      answeredAt,
      version: versionIn(body)
    }))
    .sort((one, other) => one.sentAt - other.sentAt)

/** Returns the reads with an older version than an earlier read on the same replica. */
function turnedBack (reads: readonly Read[]): string[] {
  /** Time of the first read of each version, by replica and page. */
  const firsts = new Map<string, Map<number, number>>()
  return shown(reads).flatMap(({ replica, publicId, version, sentAt, answeredAt }) => {
    const name = `${publicId} on replica ${replica}`
    const first = firsts.get(name) ?? new Map<number, number>()
    firsts.set(name, first.set(version, Math.min(answeredAt, first.get(version) ?? Infinity)))
    const newer = [...first].find(([other, seenAt]) => other > version && seenAt < sentAt)
    return newer === undefined ? [] : [`${version} after ${newer[0]} of ${name}`]
  })
}

/** Returns the longest time for which a version was served after a newer one was committed, in ms. */
function longestStaleness (reads: readonly Read[], pages: readonly Page[]): number {
  const commits = new Map(pages.map((page) => [page.publicId, page.commits]))
  const ages = shown(reads).map(({ publicId, version, sentAt }) => {
    const newer = commits.get(publicId)?.find((commit) => commit.version > version)
    return newer === undefined ? 0 : sentAt - newer.at
  })
  return Math.round(Math.max(0, ...ages))
}

/**
 * Checks that all reads succeeded, that no replica went back to an older version, and that none served one
 * for longer than the service promises.
 */
export function expectCoherentReads (t: Test, reads: readonly Read[], pages: readonly Page[]): void {
  t.same(statuses(reads), { 200: reads.length }, `${reads.length} reads`)
  t.same(turnedBack(reads), [], 'no older version after a newer one')
  const staleMs = longestStaleness(reads, pages)
  t.ok(staleMs < 2000 + slackMs(), `stale for ${staleMs} ms`)
}

/** Repeats a step until an action has ended. */
export async function meanwhile (
  action: () => Promise<unknown>,
  repeated: () => Promise<unknown>,
  pauseMs: number
): Promise<void> {
  const state = { isOver: false }
  const over = action().finally(() => {
    state.isOver = true
  })
  while (!state.isOver) {
    await repeated()
    await sleep(pauseMs)
  }
  await over
}
