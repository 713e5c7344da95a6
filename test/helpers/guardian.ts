import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, statSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { once } from 'node:events'

/**
 * Ends the servers that it was told of and removes its folder as soon as its input ends: when it is asked to, or when
 * this process dies in whatever way. It runs in a session of its own, so that Ctrl-C in a terminal passes it by.
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
  /** The folder of everything that the servers write; only the owner can list it, every account can pass through. */
  readonly folder: string
  /** `signal` ends the process, or with a negative number the process group, without leaving anything behind. */
  add (pid: number, signal: 'QUIT' | 'TERM' | 'KILL'): void
  /** The process has ended by itself: its number may soon be another's. */
  forget (pid: number): void
  /** Ends the servers, removes the folder; resolves when both are done. */
  end (): Promise<void>
}

/** Start of the names of the folders that guardians remove. */
export const FOLDER_PREFIX = 'landfall-servers-'

/** Many databases are created and thrown away: on a disk, writing them takes a fifth of the time of all tests. */
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
    add: (pid, signal) => { child.stdin.write(`add ${signal} ${pid}\n`) },
    forget: (pid) => { child.stdin.write(`forget - ${pid}\n`) },
    async end () {
      child.ref()
      child.stdin.end()
      await exited
    }
  }
}

let own: Guardian | undefined

/** The one of this process: it outlives it for as long as it takes to stop what the process left running. */
export function ownGuardian (): Guardian {
  own ??= startGuardian()
  return own
}

/** The folder for temporary files, or another one when the account of a server can't get there. */
function reachableFolder (): string {
  const isRoot = process.getuid?.() === 0
  const candidates = [...process.env.TMPDIR === undefined && isRoomy(MEMORY_FOLDER) ? [MEMORY_FOLDER] : [], tmpdir(), '/tmp', '/var/tmp']
  return candidates.find((folder) => existsSync(folder) && (!isRoot || isReachable(folder))) ?? tmpdir()
}

/** Whether a folder is in memory, programs can be run there, and there is far more room than tests take. */
function isRoomy (folder: string): boolean {
  if (!existsSync('/proc/mounts')) return false
  const [, type, options] = readFileSync('/proc/mounts', 'utf8').split('\n').map((line) => line.split(' ').slice(1)).findLast(([path]) => path === folder) ?? []
  if (type !== 'tmpfs' || options?.split(',').includes('noexec') !== false) return false
  const { bavail, bsize } = statfsSync(folder)
  return Math.min(bavail * bsize, freemem(), process.constrainedMemory() || Infinity) >= ROOMY_BYTES
}

function isReachable (folder: string): boolean {
  if ((statSync(folder).mode & 0o001) === 0) return false
  return dirname(folder) === folder || isReachable(dirname(folder))
}
