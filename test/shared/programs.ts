import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, realpathSync, rmSync, statSync,
  writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

// Finds the servers that the tests run on, and installs them as root on Debian.

/** The environment of the search; the default is that of this process. */
export interface Machine {
  path: string
  /** Folders to search after the PATH, in this order. */
  folders: readonly string[]
  isRoot: boolean
  hasApt: boolean
}

interface Program {
  readonly title: string
  /** Package names of Debian, separated by spaces, and of Homebrew. */
  readonly apt: string
  readonly brew: string
  /** The programs that packages of other systems must contain. */
  readonly holds: string
  /** Environment variable that names a running server instead. */
  readonly instead?: string
  readonly find: (folders: readonly string[]) => string | undefined
}

const PROGRAMS = {
  /** Its result is the folder with `initdb` and `postgres`. */
  postgres: {
    title: 'PostgreSQL',
    apt: 'postgresql',
    brew: 'postgresql',
    holds: 'initdb and postgres',
    instead: 'TEST_DATABASE_URL',
    find: findPostgres
  },
  /** `redis-server` or the compatible `valkey-server`. */
  redis: {
    title: 'Redis',
    apt: 'redis-server',
    brew: 'redis',
    holds: 'redis-server',
    instead: 'TEST_REDIS_URL',
    find: named('redis-server', 'valkey-server')
  },
  nginx: { title: 'nginx', apt: 'nginx', brew: 'nginx', holds: 'nginx', find: named('nginx') },
  envsubst: {
    title: 'envsubst',
    apt: 'gettext-base',
    brew: 'gettext',
    holds: 'envsubst',
    find: named('envsubst')
  },
  openssl: { title: 'OpenSSL', apt: 'openssl', brew: 'openssl', holds: 'openssl', find: named('openssl') },
  jq: { title: 'jq', apt: 'jq', brew: 'jq', holds: 'jq', find: named('jq') },
  /** Chromium without its window needs 40 % less CPU time. */
  chromium: {
    title: 'Chromium',
    apt: 'chromium-headless-shell',
    brew: 'chromium',
    holds: 'chromium',
    find: named('chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome')
  },
  /** OpenStack Swift, an S3-compatible object storage. */
  swift: {
    title: 'OpenStack Swift',
    apt: 'swift-proxy swift-account swift-container swift-object',
    brew: 'swift',
    holds: 'swift-proxy-server',
    find: named('swift-proxy-server')
  },
  /** `promtool` is in the same folder. */
  prometheus: {
    title: 'Prometheus',
    apt: 'prometheus',
    brew: 'prometheus',
    holds: 'prometheus and promtool',
    find: named('prometheus')
  },
  /** `amtool` is in the same folder. */
  alertmanager: {
    title: 'Alertmanager',
    apt: 'prometheus-alertmanager',
    brew: 'alertmanager',
    holds: 'alertmanager and amtool',
    find: named('prometheus-alertmanager', 'alertmanager')
  },
  haproxy: { title: 'HAProxy', apt: 'haproxy', brew: 'haproxy', holds: 'haproxy', find: named('haproxy') },
  pgbouncer: {
    title: 'PgBouncer',
    apt: 'pgbouncer',
    brew: 'pgbouncer',
    holds: 'pgbouncer',
    find: named('pgbouncer')
  },
  varnish: { title: 'Varnish', apt: 'varnish', brew: 'varnish', holds: 'varnishd', find: named('varnishd') },
  /** A module of Varnish. */
  xkey: {
    title: 'xkey for Varnish',
    apt: 'varnish-modules',
    brew: 'varnish-modules',
    holds: 'libvmod_xkey.so',
    find: library('varnish/vmods/libvmod_xkey.so')
  },
  /** A module of nginx. */
  njs: {
    title: 'njs for nginx',
    apt: 'libnginx-mod-http-js',
    brew: 'njs',
    holds: 'ngx_http_js_module.so',
    find: library('nginx/modules/ngx_http_js_module.so')
  },
  /** A module of nginx. */
  cachePurge: {
    title: 'cache purge for nginx',
    apt: 'libnginx-mod-http-cache-purge',
    brew: 'ngx_cache_purge',
    holds: 'ngx_http_cache_purge_module.so',
    find: library('nginx/modules/ngx_http_cache_purge_module.so')
  },
  /** Its result is `systemd-analyze`. */
  systemd: {
    title: 'systemd',
    apt: 'systemd',
    brew: 'systemd',
    holds: 'systemd-analyze',
    find: named('systemd-analyze')
  },
  /** Its result is `python3`. */
  libseccomp: {
    title: 'Python and libseccomp',
    apt: 'python3 libseccomp2',
    brew: 'python3',
    holds: 'python3',
    find: named('python3')
  }
} as const satisfies Record<string, Program>

export type ProgramName = keyof typeof PROGRAMS

/** Path of each program; undefined if it is missing. */
export type Programs = Record<ProgramName, string | undefined>

/** A program is missing and could not be installed; `message` is one line that says what to do. */
export class MissingProgramError extends Error {
  constructor (message: string) {
    super(message)
    this.name = 'MissingProgramError'
  }
}

export function thisMachine (): Machine {
  return {
    path: process.env.PATH ?? '',
    folders: usualFolders(),
    isRoot: process.getuid?.() === 0,
    hasApt: existsSync('/usr/bin/apt-get') && existsSync('/usr/bin/dpkg')
  }
}

/** Looks for all, installs nothing. */
export function findPrograms (machine: Machine = thisMachine()): Programs {
  const folders = [...machine.path.split(delimiter).filter((folder) => folder !== ''), ...machine.folders]
  return Object
    .fromEntries(Object.entries(PROGRAMS).map(([name, { find }]) => [name, find(folders)])) as Programs
}

/**
 * Finds the programs in `wanted`; as root on Debian and its derivatives, installs missing ones.
 *
 * @param progress called with a line before an installation
 * @throws {MissingProgramError}
 */
export function providePrograms (
  wanted: readonly ProgramName[],
  progress: (line: string) => void,
  machine: Machine = thisMachine()
): Programs {
  let programs = findPrograms(machine)
  const missing = wanted.filter((name) => programs[name] === undefined)
  if (missing.length === 0) return programs

  const packages = missing.flatMap((name) => PROGRAMS[name].apt.split(' '))
  if (!machine.isRoot || !machine.hasApt) throw new MissingProgramError(advice(missing, machine))
  progress(`installing ${packages.join(' and ')} with apt-get …`)
  const failure = installPackages(packages)
  // The installed version may have a new folder.
  programs = findPrograms({ ...machine, folders: usualFolders() })
  if (wanted.some((name) => programs[name] === undefined)) {
    throw new MissingProgramError(`${advice(missing, machine)}; apt-get said: ${
      failure ?? 'nothing of interest'
    }`)
  }
  return programs
}

/**
 * Returns the path of a program that a test file needs. The runner searches the files for `provide('NAME')`
 * and installs the programs before it starts the tests, because concurrent tests can't use apt-get.
 *
 * @throws {MissingProgramError}
 */
export function provide (name: ProgramName): string {
  return providePrograms([name], () => {})[name] as string
}

/** Returns the programs that a test file requests with `provide('NAME')`. */
export function programsNamedIn (text: string): ProgramName[] {
  return [...text.matchAll(/\bprovide\('(\w+)'\)/g)].map(([, name]) => name as ProgramName).filter((name) =>
    Object.hasOwn(PROGRAMS, name)
  )
}

function advice (missing: readonly ProgramName[], machine: Machine): string {
  const wanted: Program[] = missing.map((name) => PROGRAMS[name])
  const how = machine.hasApt
    ? `sudo apt-get install ${wanted.map(({ apt }) => apt).join(' ')}`
    : process.platform === 'darwin'
    ? `brew install ${wanted.map(({ brew }) => brew).join(' ')}`
    : `the packages with ${wanted.map(({ holds }) => holds).join(' and with ')}`
  const urls = wanted.flatMap(({ instead }) => instead ?? [])
  return `The tests need ${wanted.map(({ title }) => title).join(' and ')}: install with "${how}"${
    urls.length > 0 ? `, or set ${urls.join(' and ')}` : ''
  }`
}

function usualFolders (): string[] {
  const versions = (parent: string, prefix: string): string[] => {
    if (!existsSync(parent)) return []
    return readdirSync(parent)
      .filter((name) => name.startsWith(prefix) && /^\d+(\.\d+)*$/.test(name.slice(prefix.length)))
      .sort((a, b) => parseFloat(b.slice(prefix.length)) - parseFloat(a.slice(prefix.length)))
      .map((name) => join(parent, name, 'bin'))
  }
  const homebrews = ['/opt/homebrew', '/usr/local', '/home/linuxbrew/.linuxbrew']
  return [
    ...versions('/usr/lib/postgresql', ''),
    ...versions('/usr', 'pgsql-'),
    ...homebrews.flatMap((folder) => [
      ...versions(join(folder, 'opt'), 'postgresql@'),
      join(folder, 'opt/postgresql/bin'),
      join(folder, 'opt/redis/bin'),
      join(folder, 'bin')
    ]),
    // Some accounts don't have these on their PATH.
    '/usr/bin',
    '/usr/sbin'
  ]
}

/** Finds a file in the library folders beside the folders of programs. */
function library (file: string): Program['find'] {
  return (folders) => {
    const libraries = folders.flatMap((folder) => {
      const beside = join(folder, '../lib')
      const inside = existsSync(beside)
        ? readdirSync(beside).filter((name) => name.endsWith('-linux-gnu'))
        : []
      return [beside, `${beside}64`, ...inside.map((name) => join(beside, name))]
    })
    return libraries.map((folder) => join(folder, file)).find((path) => existsSync(path))
  }
}

function findPostgres (folders: readonly string[]): string | undefined {
  for (const folder of folders) {
    const initdb = executable(join(folder, 'initdb'))
    // The PATH may have a link to only one of the two programs, so the target's folder is tried, too.
    for (const candidate of initdb === undefined ? [] : [dirname(initdb), folder]) {
      if (
        executable(join(candidate, 'initdb')) !== undefined &&
        executable(join(candidate, 'postgres')) !== undefined
      ) return candidate
    }
  }
}

function named (...names: string[]): Program['find'] {
  return (folders) => {
    for (const name of names) {
      for (const folder of folders) {
        if (executable(join(folder, name)) !== undefined) return join(folder, name)
      }
    }
  }
}

function executable (path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile() ? realpathSync(path) : undefined
  } catch {
    return undefined
  }
}

/** Returns the last line that apt-get printed when it failed. */
function installPackages (packages: readonly string[]): string | undefined {
  // This file keeps Debian from starting the services of installed packages.
  const policy = '/usr/sbin/policy-rc.d'
  const ours = !existsSync(policy)
  const remove = () => {
    if (ours) rmSync(policy, { force: true })
  }
  if (ours) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  process.once('exit', remove)
  try {
    const options = ['-q', '-y', '-o', 'DPkg::Lock::Timeout=120', '-o', 'Acquire::Retries=3']
    // The old package lists may be sufficient after a failed update.
    const update = runAptGet([...options, 'update'])
    return runAptGet([...options, 'install', '--no-install-recommends', ...packages]) ?? update
  } finally {
    process.removeListener('exit', remove)
    remove()
  }
}

function runAptGet (args: readonly string[]): string | undefined {
  const result = spawnSync('/usr/bin/apt-get', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_SUSPEND: '1', LC_ALL: 'C' }
  })
  if (result.status === 0) return undefined
  return (result.error?.message ?? `${result.stdout}\n${result.stderr}`.trim().split('\n').at(-1) ?? '')
    .trim()
}
