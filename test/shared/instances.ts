import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync,
  writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { Guardian } from './guardian.ts'

// Starts private PostgreSQL and Redis servers, on the loopback address, with a random password, and in a
// temporary folder.

/** A running server. */
export interface Instance {
  readonly url: string
  readonly port: number
  /** Process id of the server's main process; changes with each start. */
  readonly pid: number
  /** Shuts the server down; its port then refuses connections. */
  stop(): Promise<void>
  /** Kills the server (SIGKILL). */
  kill(): Promise<void>
  /** Starts the server again after `stop` or `kill`, on the same port and with the same settings. */
  start(): Promise<void>
}

export interface Account {
  uid?: number
  gid?: number
}

/** How a server is started. */
export interface Kind {
  name: string
  /** Shuts the server down. */
  signal: 'SIGINT' | 'SIGTERM'
  /** Ends the server at once without leaving shared memory behind. */
  lastSignal: 'QUIT' | 'TERM'
  account: Account
  log: string
  command(port: number): { file: string, args: string[], input?: string }
  url(port: number): string
  /** Rejects until the server accepts the password. */
  probe(url: string): Promise<void>
}

const READY_TIMEOUT_MS = 60_000
/** Matches the errors about a port, or shared memory of PostgreSQL, that another process uses. */
const IN_USE = /in use/i
const STOP_TIMEOUT_MS = 10_000

/**
 * Creates a PostgreSQL cluster without starting it.
 *
 * @param bin folder of PostgreSQL's programs
 * @returns the cluster's folder, which also contains the password of its account `postgres`
 */
export async function createCluster (bin: string, folder: string): Promise<string> {
  const account = accountOf('postgres')
  const cluster = privateFolder(folder, 'postgres-', account)
  const passwordFile = join(cluster, 'password')
  writeFileSync(passwordFile, randomBytes(18).toString('base64url'), { mode: 0o600 })
  if (account.uid !== undefined) chownSync(passwordFile, account.uid, account.gid ?? account.uid)
  await run(join(bin, 'initdb'), [
    '--pgdata',
    join(cluster, 'data'),
    '--no-sync',
    '--encoding=UTF8',
    '--no-locale',
    '--username=postgres',
    '--auth=scram-sha-256',
    '--pwfile',
    passwordFile
  ], account)
  return cluster
}

/** Copies a cluster that is not running, which is much faster than creating one. */
export async function copyCluster (cluster: string, folder: string): Promise<string> {
  const account = accountOf('postgres')
  const copy = privateFolder(folder, 'postgres-', account)
  await run('cp', ['-Rp', `${cluster}/.`, copy], account)
  return copy
}

/**
 * Starts PostgreSQL on a cluster. Committed data survives SIGKILL, but not a power failure, unless
 * `durability` is `on` (fsync).
 */
export async function startPostgres (
  bin: string,
  cluster: string,
  guardian: Guardian,
  durability: 'on' | 'off' = 'off',
  moreSettings: Record<string, string | number> = {}
): Promise<Instance> {
  const data = join(cluster, 'data')
  const password = readFileSync(join(cluster, 'password'), 'utf8')
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 200,
    fsync: durability,
    full_page_writes: durability,
    wal_level: 'minimal',
    max_wal_senders: 0,
    shared_buffers: '64MB',
    // Shared memory in the temporary folder; in /dev/shm it would stay after a SIGKILL.
    dynamic_shared_memory_type: 'mmap',
    timezone: 'UTC',
    ...moreSettings
  }
  return await startInstance({
    name: 'PostgreSQL',
    signal: 'SIGINT',
    lastSignal: 'QUIT',
    account: accountOf('postgres'),
    log: join(cluster, 'log'),
    command: (port) => ({
      file: join(bin, 'postgres'),
      args: [
        '-D',
        data,
        ...Object.entries({ ...settings, port }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
      ]
    }),
    url: (port) => `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`,
    probe: probePostgres
  }, guardian)
}

/** Connects to PostgreSQL, or to a pooler in front of it. @throws {Error} it can't be reached */
export async function probePostgres (url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 })
  client.on('error', () => {})
  try {
    await client.connect()
  } finally {
    await client.end().catch(() => {})
  }
}

/** Starts Redis without persistence. `settings` are configuration directives: `{ maxmemory: '2mb' }`. */
export async function startRedis (
  program: string,
  folder: string,
  guardian: Guardian,
  settings: Record<string, string | number> = {}
): Promise<Instance> {
  const account = accountOf('redis')
  const home = privateFolder(folder, 'redis-', account)
  const { requirepass: password = randomBytes(18).toString('base64url') } = settings
  return await startInstance({
    name: 'Redis',
    signal: 'SIGTERM',
    lastSignal: 'TERM',
    account,
    log: join(home, 'log'),
    command: (port) => ({
      file: program,
      // The configuration comes from standard input, because arguments would show the password to all users.
      args: ['-'],
      input: Object.entries({
        bind: '127.0.0.1',
        port,
        dir: home,
        save: '""',
        appendonly: 'no',
        databases: 256,
        requirepass: password,
        daemonize: 'no',
        ...settings
      }).map(([name, value]) => `${name} ${value}\n`).join('')
    }),
    url: (port) => `redis://:${password}@127.0.0.1:${port}`,
    async probe (url) {
      const client = new Redis(url, {
        lazyConnect: true,
        retryStrategy: null,
        connectTimeout: 2000,
        commandTimeout: 2000
      })
      client.on('error', () => {})
      try {
        await client.connect()
        await client.ping()
      } finally {
        client.disconnect()
      }
    }
  }, guardian)
}

/** Starts OpenStack Swift, an S3-compatible object storage. Its URL contains key and secret. */
export async function startObjectStorage (folder: string, guardian: Guardian): Promise<Instance> {
  const account = accountOf('swift')
  const home = privateFolder(folder, 'swift-', account)
  const secret = randomBytes(18).toString('base64url')
  return await startInstance({
    name: 'OpenStack Swift',
    signal: 'SIGTERM',
    lastSignal: 'TERM',
    account,
    log: join(home, 'log'),
    command: (port) => ({
      // Debian's Python has the packages of Swift; -I hides all others.
      file: '/usr/bin/python3',
      args: ['-I', join(import.meta.dirname, 'object-storage.py'), join(home, String(port)), String(port)],
      input: `${secret}\n`
    }),
    url: (port) => `http://test%3Aowner:${secret}@127.0.0.1:${port}`,
    async probe (url) {
      const { port } = new URL(url)
      const response = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(5000) })
      if (response.status >= 500) throw new Error(`it answers ${response.status}`)
    }
  }, guardian)
}

/**
 * Returns a free port on the loopback address. It is below the range of outgoing connections, so that none of
 * them takes it while a server restarts.
 */
export async function freePort (): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000)
    const server = createServer()
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (free) {
      server.close()
      await once(server, 'close')
      return port
    }
  }
}

/** Whether a server takes connections on a port of the loopback address. */
export async function listens (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Starts a server on a free port and waits until it answers. */
export async function startInstance (kind: Kind, guardian: Guardian): Promise<Instance> {
  for (let attempt = 1;; attempt++) {
    const port = await freePort()
    try {
      let child = await launch(kind, port, guardian)
      const end = async (signal: NodeJS.Signals) => {
        if (!hasExited(child)) {
          const exited = once(child, 'exit')
          child.ref()
          // A frozen process handles the signal only after SIGCONT.
          child.kill('SIGCONT')
          child.kill(signal)
          const patience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
          await exited
          clearTimeout(patience)
        }
      }
      return {
        url: kind.url(port),
        port,
        get pid () {
          return child.pid as number
        },
        stop: async () => await end(kind.signal),
        kill: async () => await end('SIGKILL'),
        async start () {
          // After a SIGKILL, PostgreSQL's session processes take a moment to exit.
          for (let attempt = 1; hasExited(child); attempt++) {
            try {
              child = await launch(kind, port, guardian)
            } catch (error) {
              if (attempt === 20 || !IN_USE.test(String(error))) throw error
              await sleep(100)
            }
          }
        }
      }
    } catch (error) {
      // Another process may have taken the port in the meantime.
      if (attempt === 5 || !IN_USE.test(String(error))) throw error
    }
  }
}

async function launch (kind: Kind, port: number, guardian: Guardian): Promise<ChildProcess> {
  const { file, args, input } = kind.command(port)
  const log = openSync(kind.log, 'a')
  const child = spawn(file, args, {
    ...kind.account,
    // A group of its own, so that Ctrl-C doesn't reach the server; the guardian shuts it down.
    detached: true,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
    stdio: [input === undefined ? 'ignore' : 'pipe', log, log]
  })
  closeSync(log)
  // Otherwise a test that doesn't stop the server would never exit.
  child.unref()
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = error
  })
  if (child.pid !== undefined) guardian.add(child.pid, kind.lastSignal)
  child.once('exit', () => {
    if (child.pid !== undefined) guardian.forget(child.pid)
  })
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)

  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    if (failure !== undefined || hasExited(child)) {
      throw new Error(`${kind.name} did not start: ${failure?.message ?? tail(kind.log)}`)
    }
    try {
      await kind.probe(kind.url(port))
      // If our server has exited, another one has answered on its port.
      if (!hasExited(child)) return child
    } catch (error) {
      if (Date.now() > deadline) {
        child.kill('SIGKILL')
        throw new Error(
          `${kind.name} did not answer within ${READY_TIMEOUT_MS / 1000} s: ${tail(kind.log)}`,
          { cause: error }
        )
      }
      await sleep(25)
    }
  }
}

function hasExited (child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

async function run (file: string, args: readonly string[], account: Account): Promise<void> {
  const child = spawn(file, args, {
    ...account,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const [code] = await once(child, 'close') as [number | null]
  if (code !== 0) throw new Error(`${file} failed: ${errors.trim()}`)
}

/** Creates a folder that only the account of a server can enter. */
export function privateFolder (parent: string, prefix: string, account: Account): string {
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, prefix))
  if (account.uid !== undefined) chownSync(folder, account.uid, account.gid ?? account.uid)
  return folder
}

/** Returns the account for a server. PostgreSQL refuses to run as root. */
export function accountOf (name: string): Account {
  if (process.getuid?.() !== 0) return {}
  const accounts = existsSync('/etc/passwd')
    ? readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':')) : []
  const entry = accounts.find(([account]) => account === name) ??
    accounts.find(([account]) => account === 'nobody')
  return entry === undefined ? { uid: 65534, gid: 65534 } : { uid: Number(entry[2]), gid: Number(entry[3]) }
}

function tail (log: string): string {
  return existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' | ')
    : 'it wrote no log'
}
