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
import { copyCluster, createCluster, startPostgres, startRedis, type Instance } from '../shared/instances.ts'
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

const RUN = /^[0-9a-f]{8}$/.test(process.env.TEST_RUN_ID ?? '') ? process.env.TEST_RUN_ID as string
  : randomBytes(4).toString('hex')
const MIGRATED = `landfall_test_${RUN}_template`

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
  const server = serverUrl('TEST_DATABASE_URL')
  const name = `landfall_test_${RUN}_${randomBytes(6).toString('hex')}`
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

/** Creates the template of `createMigratedDatabase`, once per run. */
export async function createTemplate (server: string): Promise<void> {
  await create(server, MIGRATED, 'template0')
  await applyMigrations(withDatabase(server, MIGRATED), { info () {} })
}

/**
 * Claims an empty database of the common Redis server; the end of the test flushes it. PUBLISH and FLUSHALL
 * affect all databases of a server, so tests that need them use `startRedisServer`.
 *
 * @returns its URL
 */
export async function claimRedis (t: Teardown): Promise<string> {
  const server = serverUrl('TEST_REDIS_URL')
  // Database 0 holds the claims and is never claimed itself.
  const claims = await connectRedis(server, 0)
  try {
    const count = await claims.config('GET', 'databases').then(
      (response) => Number((response as string[])[1]),
      () => 16
    )
    const first = Math.floor(Math.random() * count)
    for (let offset = 0; offset < count; offset++) {
      const number = (first + offset) % count
      if (number === 0 || await claims.set(claimKey(number), RUN, 'EX', 3600, 'NX') !== 'OK') continue
      // A database with data may belong to another program.
      if (await sizeOf(server, number) > 0) {
        await claims.del(claimKey(number))
        continue
      }
      t.teardown(async () => await releaseRedis(server, number))
      const url = new URL(server)
      url.pathname = `/${number}`
      return url.href
    }
    throw new Error(`None of the ${count} databases of the Redis server for the tests is free`)
  } finally {
    claims.disconnect()
  }
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
  const template = process.env.TEST_POSTGRES_CLUSTER
  const cluster = template === undefined ? await createCluster(bin, folder)
    : await copyCluster(template, folder)
  return own(t, await startPostgres(bin, cluster, ownGuardian()))
}

/** Removes the databases that killed test files of this run left on given servers. */
export async function sweepServers (urls: { database?: string, redis?: string }): Promise<void> {
  if (urls.database !== undefined) {
    const names = await query(
      urls.database,
      `SELECT datname FROM pg_database WHERE datname LIKE 'landfall\\_test\\_${RUN}\\_%'`
    )
    for (const { datname } of names) {
      await query(urls.database, `DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`)
    }
  }
  if (urls.redis !== undefined) {
    const claims = await connectRedis(urls.redis, 0)
    try {
      for (const key of await claims.keys(claimKey('*'))) {
        if (await claims.get(key) === RUN) await releaseRedis(urls.redis, Number(key.split(':').at(-1)))
      }
    } finally {
      claims.disconnect()
    }
  }
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

function serverUrl (name: 'TEST_DATABASE_URL' | 'TEST_REDIS_URL'): string {
  const url = process.env[name]
  if (url !== undefined && url !== '') return url
  const file = relative(process.cwd(), process.argv[1] ?? '')
  throw new Error(`${name} is not set: run this with "npm test -- ${file}", which starts the servers`)
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

function claimKey (number: number | '*'): string {
  return `landfall-test:claim:${number}`
}

async function connectRedis (url: string, database: number): Promise<Redis> {
  const client = new Redis(url, {
    db: database,
    lazyConnect: true,
    retryStrategy: null,
    connectTimeout: 10_000,
    commandTimeout: 10_000
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

async function sizeOf (url: string, database: number): Promise<number> {
  const client = await connectRedis(url, database)
  try {
    return await client.dbsize()
  } finally {
    client.disconnect()
  }
}

async function releaseRedis (url: string, database: number): Promise<void> {
  const client = await connectRedis(url, database)
  try {
    await client.flushdb()
    await client.select(0)
    await client.del(claimKey(database))
  } finally {
    client.disconnect()
  }
}
