import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { Guardian } from './guardian.ts'

// Private PostgreSQL and Redis servers: on the loopback address only, behind a random password, in a folder that goes.

/** A running server. */
export interface Instance {
  readonly url: string
  readonly port: number
  /** Of the server's first process; another one after each start. */
  readonly pid: number
  /** Ends the server in an orderly way; its port refuses connections from then on. */
  stop (): Promise<void>
  /** Ends the server as a crash would (SIGKILL). */
  kill (): Promise<void>
  /** Starts it again after `stop` or `kill`, on the same port and with the same settings. */
  start (): Promise<void>
}

interface Account { uid?: number, gid?: number }

interface Kind {
  name: string
  /** Ends the server in an orderly way. */
  signal: 'SIGINT' | 'SIGTERM'
  /** Ends it at once, without leaving shared memory behind. */
  lastSignal: 'QUIT' | 'TERM'
  account: Account
  log: string
  command (port: number): { file: string, args: string[], input?: string }
  url (port: number): string
  /** Rejects while the server doesn't answer to our password. */
  probe (url: string): Promise<void>
}

const READY_TIMEOUT_MS = 60_000
/** What PostgreSQL and Redis say of a port, and PostgreSQL of shared memory, that another process has. */
const IN_USE = /in use/i
const STOP_TIMEOUT_MS = 10_000

/**
 * Creates a PostgreSQL cluster without starting it.
 *
 * @param bin folder of PostgreSQL's programs
 * @returns the cluster's folder, which also holds the password of its account `postgres`
 */
export async function createCluster (bin: string, folder: string): Promise<string> {
  const account = accountOf('postgres')
  const cluster = privateFolder(folder, 'postgres-', account)
  const passwordFile = join(cluster, 'password')
  writeFileSync(passwordFile, randomBytes(18).toString('base64url'), { mode: 0o600 })
  if (account.uid !== undefined) chownSync(passwordFile, account.uid, account.gid ?? account.uid)
  await run(join(bin, 'initdb'), [
    '--pgdata', join(cluster, 'data'), '--no-sync', '--encoding=UTF8', '--no-locale',
    '--username=postgres', '--auth=scram-sha-256', '--pwfile', passwordFile
  ], account)
  return cluster
}

/** Copies a cluster that is not running, in a fraction of the time that creating one takes. */
export async function copyCluster (cluster: string, folder: string): Promise<string> {
  const account = accountOf('postgres')
  const copy = privateFolder(folder, 'postgres-', account)
  await run('cp', ['-Rp', `${cluster}/.`, copy], account)
  return copy
}

/** Starts PostgreSQL on a cluster. Crashes lose nothing that was committed; only the machine's own end would. */
export async function startPostgres (bin: string, cluster: string, guardian: Guardian): Promise<Instance> {
  const data = join(cluster, 'data')
  const password = readFileSync(join(cluster, 'password'), 'utf8')
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 200,
    fsync: 'off',
    full_page_writes: 'off',
    wal_level: 'minimal',
    max_wal_senders: 0,
    shared_buffers: '64MB',
    // Keeps shared memory in the folder, which goes; in /dev/shm a killed server would leave it.
    dynamic_shared_memory_type: 'mmap',
    timezone: 'UTC'
  }
  return await startInstance({
    name: 'PostgreSQL',
    signal: 'SIGINT',
    lastSignal: 'QUIT',
    account: accountOf('postgres'),
    log: join(cluster, 'log'),
    command: (port) => ({
      file: join(bin, 'postgres'),
      args: ['-D', data, ...Object.entries({ ...settings, port }).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
    }),
    url: (port) => `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`,
    async probe (url) {
      const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 })
      client.on('error', () => {})
      try {
        await client.connect()
      } finally {
        await client.end().catch(() => {})
      }
    }
  }, guardian)
}

/** Starts Redis without persistence. `settings` are lines of its configuration, such as `{ maxmemory: '2mb' }`. */
export async function startRedis (program: string, folder: string, guardian: Guardian, settings: Record<string, string | number> = {}): Promise<Instance> {
  const account = accountOf('redis')
  const home = privateFolder(folder, 'redis-', account)
  const password = randomBytes(18).toString('base64url')
  return await startInstance({
    name: 'Redis',
    signal: 'SIGTERM',
    lastSignal: 'TERM',
    account,
    log: join(home, 'log'),
    command: (port) => ({
      file: program,
      // From its input: arguments, and with them the password, would show in every list of processes.
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
      const client = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 2000, commandTimeout: 2000 })
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

/** Starts an object storage that speaks Amazon's protocol: OpenStack Swift. Its URL has key and secret in it. */
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
      // Debian's, for which its packages are; -I, so that nothing else is found.
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
 * A port on the loopback address that nobody listens on. It lies below the ports that systems hand out to outgoing
 * connections, so that none of those takes it while a server is being restarted.
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

async function startInstance (kind: Kind, guardian: Guardian): Promise<Instance> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    try {
      let child = await launch(kind, port, guardian)
      const end = async (signal: NodeJS.Signals) => {
        if (!hasExited(child)) {
          const exited = once(child, 'exit')
          child.ref()
          // A stopped process would take the signal only when it goes on.
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
        get pid () { return child.pid as number },
        stop: async () => await end(kind.signal),
        kill: async () => await end('SIGKILL'),
        async start () {
          // The sessions of a PostgreSQL that was killed take a moment to notice.
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
      // Somebody else may have taken the port in between.
      if (attempt === 5 || !IN_USE.test(String(error))) throw error
    }
  }
}

async function launch (kind: Kind, port: number, guardian: Guardian): Promise<ChildProcess> {
  const { file, args, input } = kind.command(port)
  const log = openSync(kind.log, 'a')
  const child = spawn(file, args, {
    ...kind.account,
    // Neither Ctrl-C nor the end of a test file's process group may hit it: the guardian ends it in an orderly way.
    detached: true,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
    stdio: [input === undefined ? 'ignore' : 'pipe', log, log]
  })
  closeSync(log)
  // Otherwise the event loop of a test that forgot to stop it would never end.
  child.unref()
  let failure: Error | undefined
  child.once('error', (error) => { failure = error })
  if (child.pid !== undefined) guardian.add(child.pid, kind.lastSignal)
  child.once('exit', () => { if (child.pid !== undefined) guardian.forget(child.pid) })
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)

  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    if (failure !== undefined || hasExited(child)) throw new Error(`${kind.name} did not start: ${failure?.message ?? tail(kind.log)}`)
    try {
      await kind.probe(kind.url(port))
      // The answer came from the right server only if it is still there: a stranger's doesn't know the password.
      if (!hasExited(child)) return child
    } catch (error) {
      if (Date.now() > deadline) {
        child.kill('SIGKILL')
        throw new Error(`${kind.name} did not answer within ${READY_TIMEOUT_MS / 1000} s: ${tail(kind.log)}`, { cause: error })
      }
      await sleep(25)
    }
  }
}

function hasExited (child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

async function run (file: string, args: readonly string[], account: Account): Promise<void> {
  const child = spawn(file, args, { ...account, cwd: '/', env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' }, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => { errors += text })
  const [code] = await once(child, 'close') as [number | null]
  if (code !== 0) throw new Error(`${file} failed: ${errors.trim()}`)
}

function privateFolder (parent: string, prefix: string, account: Account): string {
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, prefix))
  if (account.uid !== undefined) chownSync(folder, account.uid, account.gid ?? account.uid)
  return folder
}

/** The account to run a server as: PostgreSQL refuses to run as root, and Redis has no reason to. */
function accountOf (name: string): Account {
  if (process.getuid?.() !== 0) return {}
  const accounts = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':')) : []
  const entry = accounts.find(([account]) => account === name) ?? accounts.find(([account]) => account === 'nobody')
  return entry === undefined ? { uid: 65534, gid: 65534 } : { uid: Number(entry[2]), gid: Number(entry[3]) }
}

function tail (log: string): string {
  return existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' | ') : 'it wrote no log'
}
