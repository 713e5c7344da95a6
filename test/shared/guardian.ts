import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { once } from 'node:events'

// Ends servers and removes files when a test process ends, even by SIGKILL.

/** The part of a tap test that helpers use. */
export interface Teardown {
  teardown(action: () => unknown): unknown
}

/** Creates a folder that the end of the test removes. */
export function temporaryFolder (t: Teardown): string {
  const folder = mkdtempSync(join(tmpdir(), 'landfall-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

/**
 * Ends its servers and removes its folder when its input ends, that is when this process asks for it or ends.
 * It runs in a session of its own, so that Ctrl-C in a terminal doesn't reach it.
 */
const SCRIPT = `
trap '' HUP INT TERM
folder=$1
servers=
while read -r verb signal pid; do
  case $verb in
    add) servers="$servers $signal:$pid" ;;
    forget)
      left=
      for server in $servers; do [ "\${server#*:}" = "$pid" ] || left="$left $server"; done
      servers=$left ;;
  esac
done
for server in $servers; do
  kill -CONT "\${server#*:}"; kill "-\${server%%:*}" "\${server#*:}"
done 2>/dev/null
for server in $servers; do
  tries=0
  while kill -0 "\${server#*:}" && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
  kill -KILL "\${server#*:}"
done 2>/dev/null
# A PostgreSQL that was killed outright leaves its System V segment behind; line 7 of this file has the id.
for file in "$folder"/*/data/postmaster.pid; do
  [ -f "$file" ] || continue
  segment=$(sed -n 7p "$file"); [ -z "$segment" ] || ipcrm -m "\${segment##* }"
done 2>/dev/null
tries=0
until rm -rf -- "$folder" 2>/dev/null || [ $tries -gt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
`

export interface Guardian {
  /** Folder for the files of the servers. All accounts may enter it, and only the owner can list it. */
  readonly folder: string
  /** Adds a process, or a process group if `pid` is negative. `signal` has to end it cleanly. */
  add(pid: number, signal: 'QUIT' | 'TERM' | 'KILL'): void
  /** Removes a process that has ended, because its pid may be used again. */
  forget(pid: number): void
  /** Ends the servers and removes the folder. */
  end(): Promise<void>
}

/** Prefix of the folders that guardians remove. */
export const FOLDER_PREFIX = 'landfall-servers-'

/** Tests create many databases, and writing them to a disk takes 20 % of the time of all tests. */
const MEMORY_FOLDER = '/dev/shm'
const ROOMY_BYTES = 8 * 1024 ** 3

export function startGuardian (): Guardian {
  const folder = mkdtempSync(join(reachableFolder(), FOLDER_PREFIX))
  chmodSync(folder, 0o711)
  const child = spawn('/bin/sh', ['-c', SCRIPT, 'landfall-test-guardian', folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/'
  })
  const exited = once(child, 'exit')
  exited.catch(() => {})
  child.stdin.on('error', () => {})
  child.unref()
  const pipe = child.stdin as typeof child.stdin & { unref?: () => void }
  pipe.unref?.()
  return {
    folder,
    add: (pid, signal) => {
      child.stdin.write(`add ${signal} ${pid}\n`)
    },
    forget: (pid) => {
      child.stdin.write(`forget - ${pid}\n`)
    },
    async end () {
      child.ref()
      child.stdin.end()
      await exited
    }
  }
}

let own: Guardian | undefined

/** Returns the guardian of this process, which ends the remaining servers after the process has ended. */
export function ownGuardian (): Guardian {
  own ??= startGuardian()
  return own
}

/** Returns the folder for temporary files, or another one if the servers' accounts can't enter it. */
function reachableFolder (): string {
  const isRoot = process.getuid?.() === 0
  const candidates = [
    ...process.env.TMPDIR === undefined && isRoomy(MEMORY_FOLDER) ? [MEMORY_FOLDER] : [],
    tmpdir(),
    '/tmp',
    '/var/tmp'
  ]
  return candidates.find((folder) => existsSync(folder) && (!isRoot || isReachable(folder))) ?? tmpdir()
}

/** Whether a folder is in memory, allows running programs, and has far more space than tests need. */
function isRoomy (folder: string): boolean {
  if (!existsSync('/proc/mounts')) return false
  const [, type, options] =
    readFileSync('/proc/mounts', 'utf8').split('\n').map((line) => line.split(' ').slice(1)).findLast((
      [path]
    ) => path === folder) ?? []
  if (type !== 'tmpfs' || options?.split(',').includes('noexec') !== false) return false
  const { bavail, bsize } = statfsSync(folder)
  return Math.min(bavail * bsize, freemem(), process.constrainedMemory() || Infinity) >= ROOMY_BYTES
}

function isReachable (folder: string): boolean {
  if ((statSync(folder).mode & 0o001) === 0) return false
  return dirname(folder) === folder || isReachable(dirname(folder))
}
