import { randomBytes } from 'node:crypto'
import { chmod, link, open, readFile, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder, sync } from '../system/fs-utils.ts'

// DATA_DIR contains the embedded database and the generated secret.

export interface DataDirLog {
  info(message: string): void
  warn(message: string): void
}

/** The mode of folders that only their owner can enter. */
export const PRIVATE = 0o700

/** The folder can't be used. `message` is one line that names the folder. */
export class DataDirError extends Error {
  override readonly name = 'DataDirError'
}

/** Creates the folder with access for its owner only, and checks that the folder is writable. */
export async function prepareDataDir (dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir, PRIVATE)
    const probe = join(dataDir, `.write-${process.pid}-${randomBytes(4).toString('hex')}`)
    await (await open(probe, 'wx', 0o600)).close()
    await unlink(probe)
  } catch (error) {
    throw createUnusableError(dataDir, error)
  }
}

/**
 * Closes the folder of the database to other users. DATA_DIR itself keeps its mode: a folder that existed
 * before may have other purposes.
 */
export async function closeToOthers (folder: string, log: DataDirLog): Promise<void> {
  if (((await stat(folder)).mode & 0o077) === 0) return
  await chmod(folder, PRIVATE).catch(({ message }: Error) =>
    log.warn(`Other users of this machine may be able to read ${folder}: ${message}`)
  )
}

/**
 * Returns the key that signs access tokens if JWT_SECRET is not set: 32 random bytes in hex, which are
 * generated once and kept in `<dataDir>/jwt-secret`.
 *
 * @throws {DataDirError} if the file is damaged or the folder can't be used
 */
export async function embeddedSecret (dataDir: string): Promise<string> {
  const path = join(dataDir, 'jwt-secret')
  try {
    return await readSecret(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw createUnusableError(dataDir, error)
  }
  await prepareDataDir(dataDir)
  try {
    await writeDurably(path, `${randomBytes(32).toString('hex')}\n`, dataDir, true)
    return await readSecret(path)
  } catch (error) {
    throw createUnusableError(dataDir, error)
  }
}

async function readSecret (path: string): Promise<string> {
  const secret = (await readFile(path, 'utf8')).trim()
  if (!/^[0-9a-f]{64}$/.test(secret)) {
    throw new Error(`${path} is damaged (64 hexadecimal digits expected); remove it to generate a new ` +
      'secret, which signs out all users')
  }
  return secret
}

/** Writes a file completely or not at all. With `keep`, an existing file is not replaced. */
export async function writeDurably (path: string, text: string, folder: string, keep = false): Promise<void> {
  const temporary = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  if (keep) {
    await link(temporary, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await unlink(temporary)
  } else {
    await rename(temporary, path)
  }
  await sync(folder)
}

export function createUnusableError (dataDir: string, error: unknown): DataDirError {
  if (error instanceof DataDirError) return error
  return new DataDirError(
    `DATA_DIR ${dataDir} can't be used: ${error instanceof Error ? error.message : String(error)}`,
    { cause: error }
  )
}
