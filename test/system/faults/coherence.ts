import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import type { Test } from 'tap'
import { contentHash } from '../../../src/http/conditional-requests.ts'
import { buildTestApp, documentTag, signUp, testSettings, type Account } from '../../helpers/app.ts'
import { checkHistory, describeViolation, GONE, type Operation, type Outage } from './history.ts'
import { startRedisCluster } from '../../helpers/redis-cluster.ts'
import { slackMs } from '../../helpers/slack.ts'
import { createProxy, query, startRedisServer, type Proxy } from '../../helpers/servers.ts'
import { observeOutages, NetworkFaults, type Wires } from './network-faults.ts'

// Clients write and read on three replicas whose connections have random delays and failures. All operations
// are recorded in a history, which history.ts checks.

export interface CoherenceOptions {
  /** Minimum number of operations. A round of faults that has begun is always finished. */
  readonly operations: number
  /** Uses a Redis Cluster, whose masters fail, instead of a Redis whose connections fail. */
  readonly onCluster?: boolean
}

interface CoherenceRun {
  readonly operations: Operation[]
  readonly outages: Outage[]
  /** Answers that no client may get, such as a 503. */
  readonly unexpected: string[]
  /** Reads that had to load a document, and the Redis commands and statements that loaded them. */
  readonly loads: { readonly reads: number, readonly commands: number, readonly statements: number }
}

const REPLICAS = [0, 1, 2] as const
const CLIENTS = 64
/** Pages that are written, pages that are only read, and deleted pages that are still read. */
const BUSY_PAGES = 12
const QUIET_PAGES = 30
const GONE_PAGES = 30
/** The caches of the replicas: large, so small that documents are evicted, and none. */
const CACHE_MAX_BYTES = ['67108864', '16384', '0'] as const
const JITTER_INTERVAL_MS = 20
/** The service promises this while a replica gets no messages. */
const BOUND_MS = 2000

interface PageState {
  readonly id: string
  readonly publicId: string
  /** ETag of the last version that a writer got. */
  etag: string
  /** Remaining writes, after which the page is only read. */
  writes: number
}

/** An operation that has the hash of its document instead of the version. */
interface Seen extends Omit<Operation, 'version' | 'ifMatch'> {
  readonly hash: string | undefined | typeof GONE
  readonly ifMatch?: string | undefined
}

interface Answer {
  readonly status: number
  readonly tag: string
  readonly text: string
  readonly operation: Pick<Seen, 'replica' | 'page' | 'start' | 'end'>
}

const pick = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T

/** Runs the clients on new servers and replicas, and checks the history. */
export async function testCoherence (t: Test, options: CoherenceOptions): Promise<void> {
  const { operations, outages, unexpected, loads } = await runCoherence(t, options)
  const violations = checkHistory(operations, { boundMs: BOUND_MS + slackMs(), outages })
  t.ok(operations.length >= options.operations)
  t.same(unexpected.slice(0, 10), [], 'no client got an error')
  t.same(violations.slice(0, 10).map(describeViolation), [])
  t.ok(operations.some(({ kind }) => kind === 'refused'), 'conditional writes have competed')
  t.ok(outages.every(({ to }) => to < Infinity), 'every replica uses Redis again')
  // Messages through a cluster are not delayed.
  const isStale = checkHistory(operations, { boundMs: 0, outages }).some(({ rule }) => rule === 'stale')
  if (options.onCluster !== true) t.ok(isStale, 'replicas have been stale at times')
  t.ok(loads.reads > 2 * loads.commands, `reads have shared commands: ${JSON.stringify(loads)}`)
}

async function runCoherence (
  t: Test,
  { operations, onCluster = false }: CoherenceOptions
): Promise<CoherenceRun> {
  const world = await build(t, onCluster)
  const clients = new Clients(world.apps, world.owner)
  const faults = new NetworkFaults(world)
  const outages = observeOutages(world.apps)
  const jitter = setInterval(() => faults.stir(), JITTER_INTERVAL_MS)
  t.teardown(() => clearInterval(jitter))

  let finished = false
  const changing = faults.run(() => finished)
  const working = Array.from({ length: CLIENTS }, async () => {
    while (clients.seen.length < operations || faults.rounds === 0) await clients.doSomething()
  })
  await Promise.all(working)
  finished = true
  await changing
  await sleep(BOUND_MS + slackMs() + 100) // the last versions must be everywhere
  await clients.readEverything()
  return {
    operations: await resolve(clients.seen, world.databaseUrl),
    outages,
    unexpected: clients.unexpected,
    loads: await countLoads(world.apps)
  }
}

async function countLoads (apps: readonly FastifyInstance[]): Promise<CoherenceRun['loads']> {
  const metrics = (await Promise.all(apps.map(async (app) => await app.metrics.metrics()))).join('\n')
  const sum = (line: string): number =>
    [...metrics.matchAll(new RegExp(`^${line} (\\d+)$`, 'gm'))].reduce(
      (total, [, value]) => total + Number(value),
      0
    )
  return {
    reads: sum('landfall_public_read_load_duration_seconds_count\\{source="\\w+"\\}'),
    commands: sum('landfall_document_batches_total\\{store="redis"\\}'),
    statements: sum('landfall_document_batches_total\\{store="database"\\}')
  }
}

interface World extends Wires {
  readonly apps: readonly FastifyInstance[]
  readonly owner: Account
  readonly databaseUrl: string
}

async function build (t: Test, onCluster: boolean): Promise<World> {
  const settings = await testSettings(t)
  const databaseUrl = settings.DATABASE_URL as string
  const cluster = onCluster ? await startRedisCluster(t) : undefined
  const server = cluster?.nodes[0]?.server ?? await startRedisServer(t)
  const redis: Proxy[] = []
  const databases: Proxy[] = []
  const apps: FastifyInstance[] = []
  for (const replica of REPLICAS) {
    const databaseProxy = await createProxy(t, databaseUrl)
    databases.push(databaseProxy)
    if (cluster === undefined) redis.push(await createProxy(t, server.url))
    const app = await buildTestApp(t, {
      ...settings,
      DATABASE_URL: databaseProxy.url,
      REDIS_URL: cluster?.url ?? redis[replica]?.url,
      CACHE_MAX_BYTES: CACHE_MAX_BYTES[replica],
      RATE_LIMIT_PUBLIC: '2000000000',
      ACCESS_TOKEN_TTL: '86400'
    })
    apps.push(app)
  }
  // Records the order of writes in PostgreSQL, because clients can't tell the order of concurrent writes. A
  // deletion is a version with the same document.
  await query(
    databaseUrl,
    `CREATE TABLE written (public_id text, version integer, content_hash text);
    CREATE FUNCTION note_write () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF NEW.deleted_at IS NULL THEN
        INSERT INTO written VALUES (NEW.public_id, NEW.version, NEW.content_hash);
      END IF;
      RETURN NULL;
    END $$;
    CREATE TRIGGER note_write AFTER INSERT OR UPDATE ON landing_pages
      FOR EACH ROW EXECUTE FUNCTION note_write()`
  )
  const admins = cluster?.nodes.map(({ admin }) => admin) ?? [new Redis(server.url)]
  t.teardown(() => admins.forEach((admin) => admin.disconnect()))
  return {
    apps,
    owner: await signUp(apps[0] as FastifyInstance),
    redis,
    databases,
    databaseUrl,
    cluster,
    // Replicas refuse the command and follow their masters.
    flush: async () => await Promise.allSettled(admins.map(async (admin) => await admin.flushall()))
  }
}

/** The clients, and the operations that they have seen. */
class Clients {
  readonly seen: Seen[] = []
  readonly unexpected: string[] = []
  readonly #apps: readonly FastifyInstance[]
  readonly #owner: Account
  readonly #busy: PageState[] = []
  readonly #quiet: PageState[] = []
  readonly #gone: PageState[] = []
  #documents = 0
  #creating = 0

  constructor (apps: readonly FastifyInstance[], owner: Account) {
    this.#apps = apps
    this.#owner = owner
  }

  async doSomething (): Promise<void> {
    const replica = pick(REPLICAS)
    if (this.#busy.length + this.#creating < BUSY_PAGES) return await this.#create(replica)
    const page = pick(this.#busy)
    if (page === undefined) return await sleep(1)
    const chance = Math.random()
    if (chance < 0.1) await this.#update(replica, page)
    else if (chance < 0.115) await this.#compete(page)
    else if (chance < 0.12) await this.#delete(replica, page)
    else if (chance < 0.2) await this.#manage(replica, this.#anyPage())
    else if (chance < 0.22) await this.#readTogether(replica)
    else {
      await this.#read(replica, this.#anyPage())
      await turn() // lets messages arrive, because a read from memory doesn't wait
    }
  }

  /** Reads many pages at once, so that a replica that has none of them in memory reads them in batches. */
  async #readTogether (replica: number): Promise<void> {
    const pages = [...this.#busy, ...this.#quiet, ...this.#gone]
    await Promise.all(pages.map(async (page) => await this.#read(replica, page)))
  }

  /** Reads every page on every replica twice; all writes have reached all replicas by now. */
  async readEverything (): Promise<void> {
    for (const page of [...this.#busy, ...this.#quiet, ...this.#gone]) {
      await Promise.all(REPLICAS.flatMap((replica) => [
        this.#manage(replica, page),
        this.#read(replica, page),
        this.#read(replica, page)
      ]))
    }
  }

  #anyPage (): PageState {
    const chance = Math.random()
    if (chance < 0.2 && this.#gone.length > 0) return pick(this.#gone)
    if (chance < 0.5 && this.#quiet.length > 0) return pick(this.#quiet)
    return pick(this.#busy) ?? pick(this.#quiet)
  }

  async #create (replica: number): Promise<void> {
    this.#creating++
    const body = this.#document()
    const { status, tag, text, operation } = await this.#call(replica, 'POST', '/landing_pages', body)
    this.#creating--
    if (status !== 201) return this.#surprise('create', status, text)
    const { id, public_id: publicId } = JSON.parse(text)
    this.seen.push({ ...operation, page: publicId, kind: 'write', hash: contentHash(body) })
    this.#busy.push({ id, publicId, etag: documentTag(tag), writes: 2 + Math.floor(40 * Math.random()) })
  }

  async #update (replica: number, page: PageState, ifMatch?: string): Promise<void> {
    const body = this.#document()
    const condition: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch }
    const { status, tag, text, operation } = await this.#call(replica, 'PATCH', page, body, condition)
    if (status === 200) {
      this.seen.push({ ...operation, kind: 'write', hash: contentHash(body), ifMatch: hashOf(ifMatch) })
      page.etag = documentTag(tag)
      if (hashOf(tag) !== contentHash(body)) {
        this.unexpected.push(`an update returned the ETag ${tag} of another document`)
      }
      if (--page.writes <= 0) this.#leaveAlone(page)
    } else if (status === 412 && ifMatch !== undefined) {
      this.seen.push({ ...operation, kind: 'refused', hash: hashOf(ifMatch) })
    } else if (status === 404) {
      this.seen.push({ ...operation, kind: 'manage', hash: GONE })
    } else return this.#surprise('update', status, text)
    if (Math.random() < 0.5) await this.#read(replica, page) // in the same tick as the response
  }

  /** Sends conditional writes that all demand the same version. */
  async #compete (page: PageState): Promise<void> {
    const { etag } = page
    await Promise.all(REPLICAS.map(async (replica) => await this.#update(replica, page, etag)))
  }

  async #delete (replica: number, page: PageState): Promise<void> {
    const { status, text, operation } = await this.#call(replica, 'DELETE', page)
    if (status !== 204 && status !== 404) return this.#surprise('delete', status, text)
    this.seen.push({ ...operation, kind: status === 204 ? 'write' : 'manage', hash: GONE })
    for (const pages of [this.#busy, this.#quiet]) {
      if (pages.includes(page)) pages.splice(pages.indexOf(page), 1)
    }
    if (status === 204) this.#gone.push(page)
    if (this.#gone.length > GONE_PAGES) this.#gone.shift()
    await this.#read(replica, page)
  }

  /** Stops writing a page, because only then it shows how long an old version is served. */
  #leaveAlone (page: PageState): void {
    const place = this.#busy.indexOf(page)
    if (place === -1) return
    this.#busy.splice(place, 1)
    this.#quiet.push(page)
    if (this.#quiet.length > QUIET_PAGES) {
      this.#delete(pick(REPLICAS), this.#quiet.shift() as PageState).catch((error: Error) =>
        this.unexpected.push(error.message)
      )
    }
  }

  async #read (replica: number, page: PageState): Promise<void> {
    const condition: Record<string, string> = Math.random() < 0.2 ? { 'if-none-match': page.etag } : {}
    const answer = await this.#call(replica, 'READ', page, undefined, condition)
    this.#saw('read', answer, answer.text)
  }

  async #manage (replica: number, page: PageState): Promise<void> {
    const answer = await this.#call(replica, 'GET', page)
    this.#saw('manage', answer, /"current_data":(\{[^}]*\})/.exec(answer.text)?.[1] ?? '')
  }

  #saw (kind: 'read' | 'manage', { status, tag, text, operation }: Answer, document: string): void {
    if (status === 404) this.seen.push({ ...operation, kind, hash: GONE })
    else if (status === 304) this.seen.push({ ...operation, kind, hash: hashOf(tag) })
    else if (status === 200) {
      this.seen.push({ ...operation, kind, hash: contentHash(document) })
      if (hashOf(tag) !== contentHash(document)) {
        this.unexpected.push(`${kind} of ${operation.page}: the ETag ${tag} is not that of ${document}`)
      }
    } else this.#surprise(kind, status, text)
  }

  /** Sends a request; `READ` is the public read, without a token. */
  async #call (
    replica: number,
    method: 'READ' | 'GET' | 'POST' | 'PATCH' | 'DELETE',
    target: PageState | '/landing_pages',
    document?: string,
    headers: Record<string, string> = {}
  ): Promise<Answer> {
    const start = performance.now()
    const page = typeof target === 'string' ? '' : target.publicId
    const isPublic = method === 'READ'
    const { statusCode: status, headers: answered, body: text } =
      await (this.#apps[replica] as FastifyInstance).inject({
        method: isPublic ? 'GET' : method,
        url: typeof target === 'string' ? target
          : isPublic ? `/landing_pages/${page}` : `/manage/landing_pages/${target.id}`,
        headers: {
          ...isPublic ? {} : this.#owner.headers,
          ...headers,
          ...document === undefined ? {} : { 'content-type': 'application/json' }
        },
        ...document === undefined ? {} : { payload: `{"current_data":${document}}` }
      })
    const operation = { replica, page, start, end: performance.now() }
    return { status, tag: String(answered.etag), text, operation }
  }

  /** Returns a unique document. */
  #document (): string {
    return `{"number":${++this.#documents},"filling":"${'x'.repeat(Math.floor(900 * Math.random()))}"}`
  }

  #surprise (what: string, status: number, text: string): void {
    this.unexpected.push(`${what}: status ${status}: ${text.slice(0, 200)}`)
  }
}

const hashOf = (tag = ''): string | undefined => /^"(.{43})/.exec(tag)?.[1]

/** Replaces the hash of each operation by the version that PostgreSQL assigned to the document. */
async function resolve (seen: readonly Seen[], databaseUrl: string): Promise<Operation[]> {
  const versions = new Map<string, number>()
  for (const { public_id: page, version, content_hash: hash } of await query(databaseUrl, 'TABLE written')) {
    versions.set(`${page} ${hash}`, Number(version))
  }
  const versionOf = (page: string, hash: Seen['hash']) =>
    hash === GONE ? GONE : versions.get(`${page} ${hash}`)
  return seen.map(({ hash, ifMatch, ...operation }) => ({
    ...operation,
    version: versionOf(operation.page, hash),
    ...ifMatch === undefined ? {} : { ifMatch: versionOf(operation.page, ifMatch) }
  }))
}
