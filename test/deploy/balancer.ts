import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, type Teardown } from '../helpers/servers.ts'
import { PROJECT, temporaryFolder } from '../helpers/service.ts'

// nginx with the project's own configuration, in front of replicas that a test has started.

export const TEMPLATES = join(PROJECT, 'deploy', 'nginx')

/**
 * Puts variables into a template as the entry point of nginx's image does: those that are set and no others, for nginx has
 * variables of its own.
 */
export function substitute (template: string, variables: Readonly<Record<string, string>>): string {
  return template.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced?: string, plain?: string) => variables[braced ?? plain ?? ''] ?? whole)
}

export interface BalancerOptions {
  /** Path of the program. */
  readonly nginx: string
  /** URLs of the two replicas. */
  readonly replicas: readonly [string, string]
  readonly uploads: string
  /** Over those of the tests. */
  readonly variables?: Readonly<Record<string, string>>
  /** Templates beside nginx.conf, such as server.d/tls.conf. */
  readonly more?: readonly string[]
  /** More lines of the server, as a file in server.d. */
  readonly lines?: string
}

export interface Balancer {
  readonly url: string
  /** The lines of its access log so far. */
  log: () => Array<Record<string, string | number>>
  /** What it has said of errors. */
  errors: () => string
}

/** Starts nginx and waits until it listens; it is ended after the test. */
export async function startBalancer (t: Teardown, { nginx, replicas, uploads, variables, more = [], lines = '' }: BalancerOptions): Promise<Balancer> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const values = {
    NGINX_PORT: `127.0.0.1:${port}`,
    NGINX_RUN_DIR: folder,
    NGINX_ACCESS_LOG: '/dev/stdout',
    NGINX_WORKER_PROCESSES: '2',
    NGINX_MAX_BODY_SIZE: '2m',
    NGINX_CONNECTIONS_PER_ADDRESS: '1000',
    REPLICA_1: new URL(replicas[0]).host,
    REPLICA_2: new URL(replicas[1]).host,
    UPLOADS_DIR: uploads,
    BASE_URL: '',
    STRICT_TRANSPORT_SECURITY: '',
    ...variables
  }
  for (const name of ['nginx.conf', ...more]) {
    const file = join(folder, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, substitute(readFileSync(join(TEMPLATES, `${name}.template`), 'utf8'), values))
  }
  mkdirSync(join(folder, 'server.d'), { recursive: true })
  writeFileSync(join(folder, 'server.d', 'more.conf'), lines)
  // As root nginx has its workers be nobody, who reads the uploads but can't enter a temporary folder of somebody else.
  for (const each of [folder, uploads]) chmodSync(each, 0o755)
  const output = openSync(join(folder, 'output'), 'w') // it opens /dev/stdout, which can't be done with a socket
  const errors = openSync(join(folder, 'errors'), 'w')
  const child = spawn(nginx, ['-p', folder, '-c', join(folder, 'nginx.conf'), '-g', 'daemon off;'], { stdio: ['ignore', output, errors] })
  closeSync(output)
  closeSync(errors)
  t.teardown(async () => await ended(child, 'SIGTERM'))
  const said = () => readFileSync(join(folder, 'errors'), 'utf8')
  while (!await listens(port)) {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}:\n${said()}`)
    await sleep(20)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => readFileSync(join(folder, 'output'), 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line) as Record<string, string | number>),
    errors: said
  }
}

async function ended (child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await new Promise((resolve) => child.once('exit', resolve))
}

async function listens (port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })
}
