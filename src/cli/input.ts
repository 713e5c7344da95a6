import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { InvalidArgumentError } from 'commander'
import { exactJson } from '#client'
import { JsonReader, JsonSyntaxError } from '#json-text'

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

/** The bytes of a file aren't JSON. */
export class NotJsonError extends Error {
  constructor (place: string) {
    super(`The document is not valid JSON (${place}): nothing was written`)
  }
}

/** Returns a document that the client sends byte for byte. @throws {NotJsonError} */
export function toDocument (bytes: Uint8Array): object {
  if (!isUtf8(bytes)) throw new NotJsonError('not UTF-8')
  const text = new TextDecoder().decode(bytes)
  const reader = new JsonReader(text)
  try {
    while (reader.next() !== 'end');
  } catch (error) {
    throw error instanceof JsonSyntaxError ? new NotJsonError(error.message) : error
  }
  return exactJson(text)
}
