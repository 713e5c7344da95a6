import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { InvalidArgumentError } from 'commander'
import { exactJson } from '#client'

// Documents that the commands of owners read from files or standard input.

/** The largest document that a service can be set to take. */
const MAX_BYTES = 256 * 1024 * 1024

/** The folder in which the command was called. `npm run landfall` changes to the project's. */
const workingFolder = (): string =>
  process.env.npm_lifecycle_event === 'landfall' ? process.env.INIT_CWD ?? '' : ''

export const pathOf = (file: string): string => resolve(workingFolder(), file)

/** Returns the error for a file that can't be used. */
export const createFileError = (file: string, { code, message }: NodeJS.ErrnoException): Error =>
  new Error(`${file} can't be read: ${code ?? message}`)

/** Reads a file, or standard input for `-`. @throws {Error} it can't be read, or is too large */
export async function readInput (file: string): Promise<Buffer> {
  if (file !== '-') return await readBounded(file, 0)
  if (process.stdin.isTTY) {
    throw new InvalidArgumentError('Name a file, or send the document to standard input')
  }
  return await buffer(process.stdin)
}

/** Reads a file of a folder. Links are refused, because they may lead out of the folder. */
export const readFileOfFolder = async (path: string): Promise<Buffer> =>
  await readBounded(path, constants.O_NOFOLLOW | constants.O_NONBLOCK)

async function readBounded (file: string, flags: number): Promise<Buffer> {
  let handle
  try {
    handle = await open(pathOf(file), constants.O_RDONLY | flags)
    const { size } = await handle.stat()
    if (size > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`)
    return await handle.readFile()
  } catch (error) {
    throw createFileError(file, error as NodeJS.ErrnoException)
  } finally {
    await handle?.close()
  }
}

/** Returns undefined for bytes that aren't JSON in UTF-8. */
export function decodeJson (bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    JSON.parse(text)
    return text
  } catch {
    return undefined
  }
}

/** Returns a document that the client sends byte for byte. @throws {Error} if the bytes aren't JSON */
export function toDocument (bytes: Uint8Array): object {
  const text = decodeJson(bytes)
  if (text === undefined) throw new Error('The document is not valid JSON in UTF-8: nothing was written')
  return exactJson(text)
}
