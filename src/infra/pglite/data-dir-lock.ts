import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { lock } from 'proper-lockfile'
import { createUnusableError, DataDirError, type DataDirLog } from './data-dir.ts'

// Locks DATA_DIR. Only the heartbeat tells whether the owner still runs, because that may be on another
// machine or in another container.

/** Another process uses the folder. */
export class DataDirBusyError extends DataDirError {}

/** A lock without a heartbeat for this long is stale: its owner is taken for killed. */
const STALE_MS = 5_000
const HEARTBEAT_MS = 1_000
const RETRY_MS = 100

/**
 * Locks the folder for this process. The lock of a process that was killed is taken over after some seconds.
 *
 * @param onLost called if another process takes the lock; the caller must stop writing to the database
 * @returns a function that releases the lock
 * @throws {DataDirBusyError} if another process uses the folder
 * @throws {DataDirError} if the folder can't be used
 */
export async function lockDataDir (
  dataDir: string,
  log: Pick<DataDirLog, 'info'>,
  onLost: (error: Error) => void
): Promise<() => Promise<void>> {
  const path = join(dataDir, 'lock')
  let isHeld = false
  let isLost = false
  const onCompromised = (error: Error) => {
    isLost = true
    const message = `DATA_DIR ${dataDir} was taken over by another process: ${error.message}`
    if (isHeld) onLost(new DataDirError(message, { cause: error }))
  }

  let heartbeat: number | undefined
  let release = await tryLock(dataDir, path, onCompromised)
  while (release === undefined) {
    const latest = await stat(path).then(({ mtimeMs }) => mtimeMs, () => undefined)
    if (heartbeat === undefined) {
      log.info(`DATA_DIR ${dataDir} is locked, waiting for a heartbeat of its owner`)
    } else if (latest !== undefined && latest !== heartbeat) throw createInUseError(dataDir)
    heartbeat = latest ?? heartbeat
    await sleep(RETRY_MS)
    release = await tryLock(dataDir, path, onCompromised)
  }
  if (heartbeat !== undefined) {
    // Two processes can replace a stale lock at the same moment. One of them notices it at a heartbeat.
    await sleep(2.5 * HEARTBEAT_MS)
    if (isLost) throw createInUseError(dataDir)
  }
  isHeld = true
  // The file names a killed process. Release 0.2.0 would believe it, and remove our lock.
  await rm(join(dataDir, 'lock-owner.json'), { force: true })
  return async () => {
    if (!isLost) await release()
  }
}

const createInUseError = (dataDir: string): DataDirBusyError =>
  new DataDirBusyError(`DATA_DIR ${dataDir} is in use by another process: the embedded database supports ` +
    'only one process; to run several, set DATABASE_URL')

async function tryLock (
  dataDir: string,
  lockfilePath: string,
  onCompromised: (error: Error) => void
): Promise<(() => Promise<void>) | undefined> {
  try {
    return await lock(dataDir, { lockfilePath, stale: STALE_MS, update: HEARTBEAT_MS, onCompromised })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') return undefined
    throw createUnusableError(dataDir, error)
  }
}
