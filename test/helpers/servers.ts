import { randomBytes } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { ownGuardian } from './guardian.ts'
import { copyCluster, createCluster, startPostgres, startRedis, type Instance } from './instances.ts'
import { providePrograms } from './programs.ts'
import type { Teardown } from './proxy.ts'

// What test files use of the real PostgreSQL and Redis. `npm test` starts one of each for all of them.

export { freePort, type Instance } from './instances.ts'
export { createProxy, type Proxy, type Teardown } from './proxy.ts'

/** A server of one test, which may break it. */
export interface PrivateServer extends Instance {
  /** Freezes it (SIGSTOP): connections stay open and new ones are accepted by the kernel, but nothing is answered. */
  pause (): void
  /** Ends the freeze. */
  resume (): void
}

const RUN = /^[0-9a-f]{8}$/.test(process.env.TEST_RUN_ID ?? '') ? process.env.TEST_RUN_ID as string : randomBytes(4).toString('hex')

/**
 * Creates an empty database; it is dropped after the test, whoever is still connected.
 *
 * @returns its URL
 */
export async function createDatabase (t: Teardown): Promise<string> {
  const server = serverUrl('TEST_DATABASE_URL')
  const name = `landfall_test_${RUN}_${randomBytes(6).toString('hex')}`
  // template0 has no sessions that could be in the way; two creations still meet now and then.
  for (let attempt = 1; ; attempt++) {
    try {
      await query(server, `CREATE DATABASE ${name} TEMPLATE template0`)
      break
    } catch (error) {
      if (attempt === 10 || (error as { code?: string }).code !== '55006') throw error
      await sleep(50 * attempt)
    }
  }
  t.teardown(async () => await query(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/**
 * Claims an empty database of the common Redis server; it is flushed after the test. Channels (PUBLISH) and FLUSHALL
 * reach every database of a server: a test of those wants `startRedisServer`.
 *
 * @returns its URL
 */
export async function claimRedis (t: Teardown): Promise<string> {
  const server = serverUrl('TEST_REDIS_URL')
  // The claims stand in database 0, which is never handed out.
  const claims = await connectRedis(server, 0)
  try {
    const count = await claims.config('GET', 'databases').then((answer) => Number((answer as string[])[1]), () => 16)
    const first = Math.floor(Math.random() * count)
    for (let offset = 0; offset < count; offset++) {
      const number = (first + offset) % count
      if (number === 0 || await claims.set(claimKey(number), RUN, 'EX', 3600, 'NX') !== 'OK') continue
      // What is in it may be somebody's: only empty ones are taken.
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

/** Starts a Redis server for this test alone. `settings` are lines of its configuration, such as `{ maxmemory: '2mb' }`. */
export async function startRedisServer (t: Teardown, settings: Record<string, string | number> = {}): Promise<PrivateServer> {
  const { redis } = providePrograms(['redis'], () => {})
  const { folder } = ownGuardian()
  return own(t, await startRedis(redis as string, folder, ownGuardian(), settings))
}

/** Starts a PostgreSQL server for this test alone, with an empty database. */
export async function startPostgresServer (t: Teardown): Promise<PrivateServer> {
  const bin = providePrograms(['postgres'], () => {}).postgres as string
  const { folder } = ownGuardian()
  const template = process.env.TEST_POSTGRES_CLUSTER
  const cluster = template === undefined ? await createCluster(bin, folder) : await copyCluster(template, folder)
  return own(t, await startPostgres(bin, cluster, ownGuardian()))
}

/** Removes what the test files of a run left on servers that stay: those that were killed could not. */
export async function sweepServers (urls: { database?: string, redis?: string }): Promise<void> {
  if (urls.database !== undefined) {
    const names = await query(urls.database, `SELECT datname FROM pg_database WHERE datname LIKE 'landfall\\_test\\_${RUN}\\_%'`)
    for (const { datname } of names) await query(urls.database, `DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`)
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

function own (t: Teardown, instance: Instance): PrivateServer {
  // By descriptors: a copy would freeze the values of the getters.
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

/** PostgreSQL answers in processes of its own, so that stopping the first one alone does little. */
function signalAll (pid: number, signal: NodeJS.Signals): void {
  const children = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
  for (const target of [pid, ...children.map(([child]) => child as number)]) {
    try {
      process.kill(target, signal)
    } catch (error) {
      // It has ended by itself meanwhile.
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

/** Runs one statement on a connection of its own; gives its rows. */
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
  const client = new Redis(url, { db: database, lazyConnect: true, retryStrategy: null, connectTimeout: 10_000, commandTimeout: 10_000 })
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
