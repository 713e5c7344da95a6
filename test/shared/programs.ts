import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

// Finds the programs that the tests run, and installs missing ones as root on Debian.

/** Debian's packages, separated by spaces, and the names of the program, or the path of a library. */
const PROGRAMS = {
  /** Its result is the folder with `initdb` and `postgres`. */
  postgres: ['postgresql', 'initdb'],
  redis: ['redis-server', 'redis-server', 'valkey-server'],
  nginx: ['nginx', 'nginx'],
  envsubst: ['gettext-base', 'envsubst'],
  openssl: ['openssl', 'openssl'],
  jq: ['jq', 'jq'],
  /** Chromium without its window needs 40 % less CPU time. */
  chromium: [
    'chromium-headless-shell',
    'chromium-headless-shell',
    'chromium',
    'chromium-browser',
    'google-chrome'
  ],
  /** OpenStack Swift, an S3-compatible object storage. */
  swift: ['swift-proxy swift-account swift-container swift-object', 'swift-proxy-server'],
  /** `promtool` is in the same folder. */
  prometheus: ['prometheus', 'prometheus'],
  /** `amtool` is in the same folder. */
  alertmanager: ['prometheus-alertmanager', 'prometheus-alertmanager', 'alertmanager'],
  haproxy: ['haproxy', 'haproxy'],
  pgbouncer: ['pgbouncer', 'pgbouncer'],
  varnish: ['varnish', 'varnishd'],
  /** A module of Varnish. */
  xkey: ['varnish-modules', 'varnish/vmods/libvmod_xkey.so'],
  /** Modules of nginx. */
  njs: ['libnginx-mod-http-js', 'nginx/modules/ngx_http_js_module.so'],
  cachePurge: ['libnginx-mod-http-cache-purge', 'nginx/modules/ngx_http_cache_purge_module.so'],
  systemd: ['systemd', 'systemd-analyze'],
  /** Its result is `python3`. */
  libseccomp: ['python3 libseccomp2', 'python3']
} as const satisfies Record<string, readonly [packages: string, ...files: string[]]>

export type ProgramName = keyof typeof PROGRAMS

/** A program is missing and could not be installed; `message` is one line that says what to do. */
export class MissingProgramError extends Error {
  constructor (message: string) {
    super(message)
    this.name = 'MissingProgramError'
  }
}

/**
 * Returns the paths of the programs in `wanted`. As root on Debian and its derivatives, it installs missing
 * ones.
 *
 * @param progress called with a line before an installation
 * @throws {MissingProgramError}
 */
export function providePrograms (
  wanted: readonly ProgramName[],
  progress: (line: string) => void
): Record<ProgramName, string> {
  const isMissing = (name: ProgramName) => findProgram(name) === undefined
  const missing = wanted.filter(isMissing)
  if (missing.length > 0) {
    const packages = missing.flatMap((name) => PROGRAMS[name][0].split(' '))
    let said = ''
    if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
      progress(`installing ${packages.join(' and ')} with apt-get …`)
      said = `; apt-get said: ${installPackages(packages) ?? 'nothing of interest'}`
    }
    if (missing.some(isMissing)) {
      throw new MissingProgramError(`The tests need ${
        missing.join(' and ')
      }: install the packages that Debian calls ` +
        `${packages.join(' and ')}${said}`)
    }
  }
  return Object.fromEntries(wanted.map((name) => [name, findProgram(name)])) as Record<ProgramName, string>
}

/**
 * Returns the path of a program that a test file needs. The runner searches the files for `provide('NAME')`
 * and installs the programs before it starts the tests, because concurrent tests can't use apt-get.
 *
 * @throws {MissingProgramError}
 */
export function provide (name: ProgramName): string {
  return providePrograms([name], () => {})[name]
}

/** Returns the programs that a test file requests with `provide('NAME')`. */
export function programsNamedIn (text: string): ProgramName[] {
  return [...text.matchAll(/\bprovide\('(\w+)'\)/g)].map(([, name]) => name as ProgramName).filter((name) =>
    Object.hasOwn(PROGRAMS, name)
  )
}

function findProgram (name: ProgramName): string | undefined {
  const [, ...files] = PROGRAMS[name]
  const folders = foldersOfPrograms()
  const found = files.flatMap((file) => folders.map((folder) => join(folder, file))).find(existsSync)
  // The name of redis-server, which may be a link, decides what it does.
  return name === 'postgres' && found !== undefined ? dirname(realpathSync(found)) : found
}

/** The folders of programs, then those of libraries. */
function foldersOfPrograms (): string[] {
  const namesIn = (folder: string) => existsSync(folder) ? readdirSync(folder) : []
  return [
    ...(process.env.PATH ?? '').split(delimiter).filter(Boolean),
    ...namesIn('/usr/lib/postgresql').sort((one, other) => Number(other) - Number(one))
      .map((version) => `/usr/lib/postgresql/${version}/bin`),
    // Some accounts don't have these on their PATH.
    '/usr/bin',
    '/usr/sbin',
    ...['', ...namesIn('/usr/lib').filter((name) => name.endsWith('-linux-gnu'))].map((name) =>
      join('/usr/lib', name)
    ),
    '/usr/lib64'
  ]
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
