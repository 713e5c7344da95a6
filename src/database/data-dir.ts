import { randomBytes } from 'node:crypto'
import { link, open, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { lock } from 'proper-lockfile'
import { makeFolder } from '../folders.ts'

// The folder of the embedded database: who may use it now, and the secret that is kept in it.

export interface DataDirLock {
  release (): Promise<void>
}

export interface DataDirLog {
  info (message: string): void
}

/** The folder can't be used; `message` is one line that names it. */
export class DataDirError extends Error {
  constructor (message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'DataDirError'
  }
}

/** Another process uses the folder. */
export class DataDirBusyError extends DataDirError {}

/** A lock without a sign of life for so long counts as left behind. */
const STALE_MS = 10_000
const HEARTBEAT_MS = 2_000
/** How long the owner of a new lock may take to write its name. */
const CLAIM_MS = 100

interface Owner {
  hostname: string
  pid: number
  /** When the process was started, in the system's own count: a number is given to many processes in turn. */
  started?: string | undefined
  /** In which space the number is given, on systems that tell: containers may share a name and a folder, not the numbers. */
  space?: string | undefined
}

const held = new Set<string>()

/** Creates the folder for its owner only. */
export async function prepareDataDir (dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir, 0o700)
    const probe = join(dataDir, `.write-${process.pid}-${randomBytes(4).toString('hex')}`)
    await (await open(probe, 'wx', 0o600)).close()
    await unlink(probe)
  } catch (error) {
    throw unusable(dataDir, error)
  }
}

/**
 * Takes the folder for this process. A lock that a killed process of this machine left is taken over at once; one of
 * another machine or container after 10 s without a sign of life.
 *
 * @param onLost called when somebody else has taken the lock nevertheless: the database must not be written any more
 * @throws {DataDirBusyError} another process uses the folder
 */
export async function lockDataDir (dataDir: string, log: DataDirLog, onLost: (error: Error) => void): Promise<DataDirLock> {
  const inUse = (owner?: Owner) => new DataDirBusyError(`DATA_DIR ${dataDir} is in use by another process${owner === undefined ? '' : ` (${owner.pid} on ${owner.hostname})`}: the embedded database serves one at a time, set DATABASE_URL for more`)
  const lockPath = join(dataDir, 'lock')
  const ownerPath = join(dataDir, 'lock-owner.json')
  if (held.has(dataDir)) throw inUse({ hostname: hostname(), pid: process.pid })

  let lost = false
  const onCompromised = (error: Error) => {
    lost = true
    onLost(new DataDirError(`DATA_DIR ${dataDir} was taken over by another process: ${error.message}`, { cause: error }))
  }

  let lastSign: number | undefined
  for (;;) {
    const release = await tryLock(dataDir, lockPath, onCompromised)
    if (release !== undefined) {
      held.add(dataDir)
      try {
        await writeDurably(ownerPath, JSON.stringify(ourselves()), dataDir)
      } catch (error) {
        held.delete(dataDir)
        await release()
        throw unusable(dataDir, error)
      }
      return {
        async release () {
          held.delete(dataDir)
          // What is there now is the other one's.
          if (lost) return
          await rm(ownerPath, { force: true })
          await release()
        }
      }
    }

    const owner = await readOwner(ownerPath)
    if (owner !== undefined) {
      const life = lifeOf(owner)
      if (life === 'alive') throw inUse(owner)
      if (life === 'dead' && await claim(ownerPath, owner)) {
        await rm(lockPath, { recursive: true, force: true })
        continue
      }
    }
    const sign = await stat(lockPath).then(({ mtimeMs }) => mtimeMs, () => undefined)
    if (lastSign === undefined) log.info(`DATA_DIR ${dataDir} is locked, waiting up to ${STALE_MS / 1000} s for a sign of life of its owner`)
    else if (sign !== undefined && sign !== lastSign) throw inUse(owner)
    lastSign = sign ?? lastSign
    await sleep(CLAIM_MS)
  }
}

async function tryLock (dataDir: string, lockfilePath: string, onCompromised: (error: Error) => void): Promise<(() => Promise<void>) | undefined> {
  try {
    return await lock(dataDir, {
      lockfilePath,
      stale: STALE_MS,
      update: HEARTBEAT_MS,
      onCompromised
    })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined
    throw unusable(dataDir, error)
  }
}

async function readOwner (path: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Owner
  } catch {
    return undefined
  }
}

function ourselves (): Owner {
  return { hostname: hostname(), pid: process.pid, started: startOf(process.pid), space: spaceOfPids() }
}

function lifeOf (owner: Owner): 'alive' | 'dead' | 'unknown' {
  if (owner.hostname !== hostname() || owner.space !== spaceOfPids()) return 'unknown'
  const started = startOf(owner.pid)
  if (started !== undefined && owner.started !== undefined) return started === owner.started ? 'alive' : 'dead'
  // Our own number, and not held by us: a container that was started again.
  if (owner.pid === process.pid) return 'dead'
  try {
    process.kill(owner.pid, 0)
    return 'unknown'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH' ? 'dead' : 'unknown'
  }
}

/** The namespace of the processes' numbers, and the boot of the machine. */
function spaceOfPids (): string | undefined {
  try {
    return `${readlinkSync('/proc/self/ns/pid')} ${readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()}`
  } catch {
    return undefined
  }
}

/** The start of a process, on systems that tell it in /proc. */
function startOf (pid: number): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name, in parentheses, may hold anything.
    return status.slice(status.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}

/**
 * Wins the right to remove the lock of a dead owner. Of several processes one wins: the name of the owner is moved
 * away, and put back when it is by then somebody else's.
 */
async function claim (ownerPath: string, owner: Owner): Promise<boolean> {
  // Whoever has just taken the lock has not yet written its name over that of the dead.
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

/**
 * The key of the access tokens that belongs to an embedded database: made once, kept in `<dataDir>/jwt-secret`.
 *
 * @returns 32 random bytes in hex
 */
export async function embeddedSecret (dataDir: string): Promise<string> {
  const path = join(dataDir, 'jwt-secret')
  try {
    return await readSecret(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(dataDir, error)
  }
  await prepareDataDir(dataDir)
  try {
    await writeDurably(path, `${randomBytes(32).toString('hex')}\n`, dataDir, true)
    return await readSecret(path)
  } catch (error) {
    throw unusable(dataDir, error)
  }
}

async function readSecret (path: string): Promise<string> {
  const secret = (await readFile(path, 'utf8')).trim()
  if (!/^[0-9a-f]{64}$/.test(secret)) throw new Error(`${path} is damaged (64 hexadecimal digits expected); without it a new one is made and everybody is signed out`)
  return secret
}

/** Writes a whole file or none; with `keep`, whoever wrote it first wins. */
async function writeDurably (path: string, text: string, folder: string, keep = false): Promise<void> {
  const temporary = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  if (keep) {
    await link(temporary, path).catch((error: NodeJS.ErrnoException) => { if (error.code !== 'EEXIST') throw error })
    await unlink(temporary)
  } else {
    await rename(temporary, path)
  }
  const parent = await open(folder)
  await parent.sync().finally(async () => await parent.close())
}

function unusable (dataDir: string, error: unknown): DataDirError {
  if (error instanceof DataDirError) return error
  return new DataDirError(`DATA_DIR ${dataDir} can't be used: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
}
