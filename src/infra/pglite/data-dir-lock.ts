import { link, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { lock } from 'proper-lockfile'
import { createUnusableError, DataDirError, writeDurably, type DataDirLog } from './data-dir.ts'

// Locks DATA_DIR. proper-lockfile writes a heartbeat. lock-owner.json names the process, so that a start
// after a crash doesn't have to wait until the heartbeat is stale.

interface DataDirLock {
  release(): Promise<void>
}

/** Another process uses the folder. */
export class DataDirBusyError extends DataDirError {}

/** A lock without a heartbeat for this long is stale. */
const STALE_MS = 10_000
const HEARTBEAT_MS = 2_000
/** How long a process may take to write lock-owner.json after it has taken the lock. */
const CLAIM_MS = 100

interface Owner {
  hostname: string
  pid: number
  /** Start time in clock ticks since the boot, because process ids are reused. */
  started?: string | undefined
  /** PID namespace and boot id. Containers may share a host name and a folder, but not process ids. */
  pidNamespace?: string | undefined
}

/** Folders that this process has locked. */
const held = new Set<string>()

/**
 * Locks the folder for this process. The lock of a dead process is taken over at once if the process ran on
 * this machine, and after 10 s without a heartbeat if it ran on another machine or in another container.
 *
 * @param onLost called if another process takes the lock; the caller must stop writing to the database
 * @throws {DataDirBusyError} if another process uses the folder
 * @throws {DataDirError} if the folder can't be used
 */
export async function lockDataDir (
  dataDir: string,
  log: Pick<DataDirLog, 'info'>,
  onLost: (error: Error) => void
): Promise<DataDirLock> {
  const paths = { lock: join(dataDir, 'lock'), owner: join(dataDir, 'lock-owner.json') }
  if (held.has(dataDir)) throw createInUseError(dataDir, { hostname: hostname(), pid: process.pid })
  let isLost = false
  const onCompromised = (error: Error) => {
    isLost = true
    onLost(new DataDirError(`DATA_DIR ${dataDir} was taken over by another process: ${error.message}`, {
      cause: error
    }))
  }

  const release = await acquire(dataDir, paths, log, onCompromised)
  held.add(dataDir)
  try {
    await writeDurably(paths.owner, JSON.stringify(thisProcess()), dataDir)
  } catch (error) {
    held.delete(dataDir)
    await release()
    throw createUnusableError(dataDir, error)
  }
  return {
    async release () {
      held.delete(dataDir)
      if (isLost) return // the files belong to the new owner
      await rm(paths.owner, { force: true })
      await release()
    }
  }
}

/** Takes the lock when it is free or its owner is dead. Returns a function that releases the lock. */
async function acquire (
  dataDir: string,
  paths: { readonly lock: string, readonly owner: string },
  log: Pick<DataDirLog, 'info'>,
  onCompromised: (error: Error) => void
): Promise<() => Promise<void>> {
  let lastHeartbeat: number | undefined
  for (;;) {
    const release = await tryLock(dataDir, paths.lock, onCompromised)
    if (release !== undefined) return release

    const owner = await readOwner(paths.owner)
    const state = owner === undefined ? 'unknown' : stateOf(owner)
    if (state === 'alive') throw createInUseError(dataDir, owner)
    if (owner !== undefined && state === 'dead' && await claim(paths.owner, owner)) {
      await rm(paths.lock, { recursive: true, force: true })
      continue
    }
    const heartbeat = await stat(paths.lock).then(({ mtimeMs }) => mtimeMs, () => undefined)
    if (lastHeartbeat === undefined) {
      const seconds = STALE_MS / 1000
      log.info(`DATA_DIR ${dataDir} is locked, waiting up to ${seconds} s for a heartbeat of its owner`)
    } else if (heartbeat !== undefined && heartbeat !== lastHeartbeat) throw createInUseError(dataDir, owner)
    lastHeartbeat = heartbeat ?? lastHeartbeat
    await sleep(CLAIM_MS)
  }
}

function createInUseError (dataDir: string, owner?: Owner): DataDirBusyError {
  const process = owner === undefined ? '' : ` (${owner.pid} on ${owner.hostname})`
  return new DataDirBusyError(`DATA_DIR ${dataDir} is in use by another process${process}: the embedded ` +
    'database supports only one process; to run several, set DATABASE_URL')
}

async function tryLock (
  dataDir: string,
  lockfilePath: string,
  onCompromised: (error: Error) => void
): Promise<(() => Promise<void>) | undefined> {
  try {
    return await lock(dataDir, {
      lockfilePath,
      stale: STALE_MS,
      update: HEARTBEAT_MS,
      onCompromised
    })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined
    throw createUnusableError(dataDir, error)
  }
}

async function readOwner (path: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Owner
  } catch {
    return undefined
  }
}

function thisProcess (): Owner {
  return {
    hostname: hostname(),
    pid: process.pid,
    started: startTimeOf(process.pid),
    pidNamespace: readPidNamespace()
  }
}

function stateOf (owner: Owner): 'alive' | 'dead' | 'unknown' {
  if (owner.hostname !== hostname() || owner.pidNamespace !== readPidNamespace()) return 'unknown'
  const started = startTimeOf(owner.pid)
  if (started !== undefined && owner.started !== undefined) {
    return started === owner.started ? 'alive' : 'dead'
  }
  // A process of an earlier run had the same id: the container was restarted.
  if (owner.pid === process.pid) return 'dead'
  try {
    process.kill(owner.pid, 0)
    return 'unknown'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH' ? 'dead' : 'unknown'
  }
}

/** The PID namespace of this process, and the boot of the machine; undefined where /proc has none. */
function readPidNamespace (): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    return `${readlinkSync('/proc/self/ns/pid')} ${boot}`
  } catch {
    return undefined
  }
}

/** When a process started; undefined where there is no /proc or no such process. */
function startTimeOf (pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The process name, in parentheses, may contain spaces and parentheses.
    return status.slice(status.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

/**
 * Decides which of several processes may remove the lock of a dead owner: only one can rename the owner file.
 *
 * @returns false if another process was faster. If that process has written its own file, it is put back
 */
async function claim (ownerPath: string, owner: Owner): Promise<boolean> {
  // A new owner may have taken the lock, but not replaced the owner file yet.
  await sleep(CLAIM_MS)
  const claimed = `${ownerPath}.${process.pid}`
  try {
    await rename(ownerPath, claimed)
    const won = JSON.stringify(await readOwner(claimed)) === JSON.stringify(owner)
    if (!won) await link(claimed, ownerPath).catch(() => {})
    await unlink(claimed)
    return won
  } catch {
    return false
  }
}
