import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Writable } from 'node:stream'
import { createInterface } from 'node:readline'
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

/** Returns a document that the client sends as it is, without a byte order mark. @throws {NotJsonError} */
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

// Questions on the terminal.

/**
 * Asks a question on the terminal, to standard error. Anything but "y" and "yes" is a no.
 *
 * @throws {Error} Ctrl-C was typed
 */
export async function confirm (question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr, historySize: 0 })
  try {
    return await new Promise((resolve, reject) => {
      terminal.once('SIGINT', () => reject(new Error('\nInterrupted: nothing was changed')))
      terminal.once('close', () => resolve(false)) // the end of the input
      terminal.question(question, (answer) => resolve(/^y(es)?$/i.test(answer.trim())))
    })
  } finally {
    terminal.close()
  }
}

/**
 * Reads a new password, which is never an argument, because process lists and the shell's history show
 * those. From a terminal, it is read twice and without echo. Otherwise it is the only line of standard input.
 *
 * @throws {Error} the two passwords differ, the input was interrupted, or it is not one line of UTF-8
 */
export async function readNewPassword (): Promise<string> {
  if (!process.stdin.isTTY) return await readPipedPassword()
  const [password, again] = await askWithoutEcho(['New password: ', 'Repeat password: '])
  if (password !== again) throw new Error('The two passwords differ: nothing was changed')
  return password as string
}

async function askWithoutEcho (prompts: readonly string[]): Promise<string[]> {
  const noEcho = new Writable({
    write (_chunk, _encoding, done) {
      done()
    }
  })
  const terminal = createInterface({ input: process.stdin, output: noEcho, terminal: true, historySize: 0 })
  const answers: string[] = []
  process.stderr.write(prompts[0] as string)
  try {
    // One listener for all lines, because pasted text can contain the answer to the next prompt, too.
    await new Promise<void>((resolve, reject) => {
      terminal.on('line', (line) => {
        answers.push(line)
        if (answers.length < prompts.length) process.stderr.write(`\n${prompts[answers.length]}`)
        else resolve()
      })
      const stop = () => reject(new Error('Interrupted: nothing was changed'))
      terminal.once('SIGINT', stop).once('close', stop)
    })
    return answers
  } finally {
    terminal.close()
    process.stderr.write('\n')
  }
}

async function readPipedPassword (): Promise<string> {
  let line: string
  try {
    const input = await buffer(process.stdin)
    line = new TextDecoder('utf-8', { fatal: true }).decode(input).replace(/\r?\n$/, '')
  } catch {
    throw new Error('The password on standard input is not UTF-8: nothing was changed')
  }
  if (/[\r\n]/.test(line)) {
    throw new Error('Standard input must be one line, the password: nothing was changed')
  }
  return line
}
