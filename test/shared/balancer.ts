import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { temporaryFolder, type Teardown } from './guardian.ts'
import { freePort, listens } from './instances.ts'

// Starts proxies with the configurations of deploy/ in front of replicas of a test.

const DEPLOY = join(import.meta.dirname, '../../deploy')
export const TEMPLATES = join(DEPLOY, 'nginx')

/**
 * Replaces the given variables in a template, like the entry point of nginx's image. Others are nginx's own.
 */
export function substitute (template: string, variables: Readonly<Record<string, string>>): string {
  return template.replace(
    /\$(?:\{(\w+)\}|(\w+))/g,
    (whole, braced?: string, plain?: string) => variables[braced ?? plain ?? ''] ?? whole
  )
}

/** Completes the variables as the entry point of nginx's image does. */
function complete (variables: Record<string, string>): Record<string, string> {
  const text = execFileSync('sh', ['-c', '. ./settings.envsh && env'], {
    cwd: TEMPLATES,
    env: variables,
    encoding: 'utf8'
  })
  return Object
    .fromEntries([...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value]))
}

export interface BalancerOptions {
  /** Path of the program. */
  readonly nginx: string
  /** URLs of the two replicas. */
  readonly replicas: readonly [string, string]
  readonly uploads: string
  /** Variables of the template; they override those of the tests. */
  readonly variables?: Readonly<Record<string, string>>
  /** Additional templates, such as server.d/tls.conf. */
  readonly more?: readonly string[]
  /** Additional lines of the server, as a file in server.d. */
  readonly lines?: string
}

export interface Balancer {
  readonly url: string
  /** Returns the lines of the access log so far. */
  log: () => Array<Record<string, string | number>>
  /** Returns the error log so far. */
  errors: () => string
}

/** Starts nginx and waits until it listens; the end of the test stops it. */
export async function startBalancer (
  t: Teardown,
  { nginx, replicas, uploads, variables, more = [], lines = '' }: BalancerOptions
): Promise<Balancer> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const values = complete({
    NGINX_PORT: String(port),
    NGINX_RUN_DIR: folder,
    NGINX_ACCESS_LOG: '/dev/stdout',
    NGINX_WORKER_PROCESSES: '2',
    NGINX_MAX_BODY_SIZE: '2m',
    NGINX_CONNECTIONS_PER_ADDRESS: '1000',
    NGINX_REQUESTS_PER_SECOND: '10000',
    NGINX_REQUESTS_BURST: '10000',
    REPLICA_1: new URL(replicas[0]).host,
    REPLICA_2: new URL(replicas[1]).host,
    UPLOADS_DIR: uploads,
    BASE_URL: '',
    STRICT_TRANSPORT_SECURITY: '',
    ...variables
  })
  for (const name of ['nginx.conf', ...more]) {
    const file = join(folder, name)
    mkdirSync(dirname(file), { recursive: true })
    const template = changedFile(
      `nginx/${name}.template`,
      // A busy machine must not look like a replica that is away.
      name === 'nginx.conf' ? [['proxy_connect_timeout 300ms', 'proxy_connect_timeout 30s']] : []
    )
    writeFileSync(file, substitute(template, values))
  }
  mkdirSync(join(folder, 'server.d'), { recursive: true })
  writeFileSync(join(folder, 'server.d', 'more.conf'), lines)
  // Started as root, nginx runs its workers as another user, who can't enter private temporary folders.
  chmodSync(folder, 0o755)
  chmodSync(uploads, 0o711) // as in the image of the service
  return await startServer(
    t,
    nginx,
    ['-p', folder, '-c', join(folder, 'nginx.conf'), '-g', 'daemon off;'],
    port
  )
}

/** Returns a file of deploy/ with the changes that an operator would make. */
export function changedFile (
  name: string,
  changes: ReadonlyArray<readonly [from: string, to: string]>
): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${name} has no ${from}`)
    return text.replaceAll(from, to)
  }, readFileSync(join(DEPLOY, name), 'utf8'))
}

/** Starts HAProxy with a configuration and waits until it listens on `port`. */
export async function startHaproxy (
  t: Teardown,
  program: string,
  config: string,
  port: number
): Promise<Balancer> {
  const file = join(temporaryFolder(t), 'haproxy.cfg')
  writeFileSync(file, config)
  return await startServer(t, program, ['-db', '-f', file], port)
}

/**
 * Starts Varnish with deploy/varnish/default.vcl, and waits until it listens on `port`.
 *
 * @param servicePort the port of the service, or of its load balancer
 * @param changes further changes of the file
 */
export async function startVarnish (
  t: Teardown,
  program: string,
  servicePort: string,
  port: number,
  changes: ReadonlyArray<readonly [from: string, to: string]> = []
): Promise<Balancer> {
  const folder = temporaryFolder(t)
  const file = join(folder, 'default.vcl')
  writeFileSync(
    file,
    changedFile('varnish/default.vcl', [
      ['"3000"', `"${servicePort}"`],
      ['.timeout = 1s', '.timeout = 30s'], // a busy machine must not look like a service that is away
      ...changes
    ])
  )
  // -j none: the folder is private, and as root Varnish would change the user.
  return await startServer(t, program, [
    ...['-F', '-j', 'none', '-T', 'none'],
    ...['-n', join(folder, 'varnish'), '-a', `127.0.0.1:${port}`, '-f', file],
    ...['-s', 'malloc,64m', '-p', 'http_gzip_support=off']
  ], port)
}

/** Starts a program and waits until it listens on `port`; the end of the test stops it. */
export async function startServer (
  t: Teardown,
  program: string,
  args: readonly string[],
  port: number
): Promise<Balancer> {
  const folder = temporaryFolder(t)
  // Files, because nginx opens /dev/stdout, which fails for a socket.
  const output = openSync(join(folder, 'output'), 'w')
  const errors = openSync(join(folder, 'errors'), 'w')
  const child = spawn(program, args, { stdio: ['ignore', output, errors] })
  closeSync(output)
  closeSync(errors)
  t.teardown(async () => await ended(child, 'SIGTERM'))
  const said = () => readFileSync(join(folder, 'errors'), 'utf8')
  while (!await listens(port)) {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}:\n${said()}`)
    await sleep(20)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    log: () =>
      readFileSync(join(folder, 'output'), 'utf8').split('\n').filter((line) => line.startsWith('{')).map((
        line
      ) => JSON.parse(line) as Record<string, string | number>),
    errors: said
  }
}

async function ended (child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await new Promise((resolve) => child.once('exit', resolve))
}
