import { randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { applyMigrations } from '../../src/infra/postgres/migrate.ts'
import { ownGuardian, type Teardown } from '../shared/guardian.ts'
import { copyCluster, startPostgres, startRedis, type Instance } from '../shared/instances.ts'
import { provide } from '../shared/programs.ts'

// Databases on the PostgreSQL and Redis that the runner starts for all tests, and private servers.

export { freePort, type Instance } from '../shared/instances.ts'
export { createProxy, type Proxy } from './proxy.ts'
export type { Teardown } from '../shared/guardian.ts'

/** A server for one test, which may break it. */
export interface PrivateServer extends Instance {
  /** Freezes the server (SIGSTOP): the kernel keeps and accepts connections, but no request is answered. */
  pause(): void
  /** Ends the freeze. */
  resume(): void
}

/** Makes an HTTP server listen on the loopback address; the end of the test closes it. Returns its port. */
export async function listen (t: Teardown, server: HttpServer | HttpsServer): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

/** The database with all migrations, which others are copied from. */
const MIGRATED = 'landfall_template'
/** The set of databases of the common Redis that no test uses. It is in database 0, which none gets. */
const FREE_DATABASES = 'free-databases'

/**
 * Creates an empty database; the end of the test drops it even if connections are open.
 *
 * @returns its URL
 */
export async function createDatabase (t: Teardown): Promise<string> {
  return await createFrom('template0', t)
}

/** Creates a database with all migrations, as a copy of the runner's template. */
export async function createMigratedDatabase (t: Teardown): Promise<string> {
  return await createFrom(MIGRATED, t)
}

async function createFrom (template: string, t: Teardown): Promise<string> {
  const server = fromRunner('TEST_DATABASE_URL')
  const name = `landfall_test_${randomBytes(6).toString('hex')}`
  await create(server, name, template)
  t.teardown(async () => await query(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
  return withDatabase(server, name)
}

async function create (server: string, name: string, template: string): Promise<void> {
  // PostgreSQL refuses to copy a database with connections, and autovacuum may be connected.
  for (let attempt = 1;; attempt++) {
    try {
      await query(server, `CREATE DATABASE ${name} TEMPLATE ${template}`)
      return
    } catch (error) {
      if (attempt === 10 || (error as { code?: string }).code !== '55006') throw error
      await sleep(50 * attempt)
    }
  }
}

function withDatabase (server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Prepares the servers of a run for `createMigratedDatabase` and `claimRedis`. */
export async function prepareServers (database: string, redis: string): Promise<void> {
  await create(database, MIGRATED, 'template0')
  await applyMigrations(withDatabase(database, MIGRATED), { info () {} })
  await onRedis(redis, async (client) => {
    const [, count] = await client.config('GET', 'databases') as [string, string]
    await client.sadd(FREE_DATABASES, Array.from({ length: Number(count) - 1 }, (_, index) => index + 1))
  })
}

/**
 * Empties a free database of the common Redis, which is free again after the test. PUBLISH and FLUSHALL
 * affect all databases of a server, so tests that need them use `startRedisServer`.
 *
 * @returns its URL
 */
export async function claimRedis (t: Teardown): Promise<string> {
  const server = fromRunner('TEST_REDIS_URL')
  const number = await onRedis(server, async (client) => {
    const free = await client.spop(FREE_DATABASES)
    if (free === null) throw new Error('no database of the Redis server of the tests is free')
    await client.select(free)
    await client.flushdb()
    return free
  })
  t.teardown(async () => await onRedis(server, async (client) => await client.sadd(FREE_DATABASES, number)))
  return new URL(`/${number}`, server).href
}

/** Starts a Redis server for one test. `settings` are configuration directives: `{ maxmemory: '2mb' }`. */
export async function startRedisServer (
  t: Teardown,
  settings: Record<string, string | number> = {}
): Promise<PrivateServer> {
  const { folder } = ownGuardian()
  return own(t, await startRedis(provide('redis'), folder, ownGuardian(), settings))
}

/** Starts a PostgreSQL server with an empty database for one test. */
export async function startPostgresServer (t: Teardown): Promise<PrivateServer> {
  const bin = provide('postgres')
  const { folder } = ownGuardian()
  const cluster = await copyCluster(fromRunner('TEST_POSTGRES_CLUSTER'), folder)
  return own(t, await startPostgres(bin, cluster, ownGuardian()))
}

/** Adds what tests do to a server; the end of the test stops it. */
export function own (t: Teardown, instance: Instance): PrivateServer {
  // Inherits from the instance, because a copy would evaluate its getters only once.
  const server = Object.create(instance, {
    pause: { value: () => signalAll(instance.pid, 'SIGSTOP') },
    resume: { value: () => signalAll(instance.pid, 'SIGCONT') }
  }) as PrivateServer
  t.teardown(async () => {
    server.resume()
    await server.stop()
  })
  return server
}

/** Signals a server and its child processes, because PostgreSQL has a process per session. */
function signalAll (pid: number, signal: NodeJS.Signals): void {
  const children = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
  for (const target of [pid, ...children.map(([child]) => child as number)]) {
    try {
      process.kill(target, signal)
    } catch (error) {
      // The process has just exited.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

/** Returns what the runner says about its servers in the environment. */
export function fromRunner (name: string): string {
  const value = process.env[name]
  if (value !== undefined) return value
  const file = relative(process.cwd(), process.argv[1] ?? '')
  throw new Error(`${name} is not set: run this with "npm test -- ${file}", which starts the servers that it provides`)
}

/** Runs a statement on a connection of its own and returns the rows. */
export async function query (url: string, sql: string): Promise<Record<string, string>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

async function onRedis<T> (url: string, action: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url, {
    lazyConnect: true,
    retryStrategy: null,
    connectTimeout: 10_000,
    commandTimeout: 10_000
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return await action(client)
  } finally {
    client.disconnect()
  }
}
