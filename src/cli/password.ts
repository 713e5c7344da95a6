import { Writable } from 'node:stream'
import { createInterface } from 'node:readline'

// Passwords are never arguments: those stand in the list of processes and in the shell's history.

/** Far more than any that is valid. */
const MAX_BYTES = 64 * 1024

/**
 * Reads a new password: twice and without showing it from a terminal, else the one line of standard input.
 *
 * @throws {Error} the two differ, it was broken off, or what came is not one line of UTF-8
 */
export async function readNewPassword (): Promise<string> {
  if (!process.stdin.isTTY) return await readLine()
  const [password, again] = await ask(['New password: ', 'The same again: '])
  if (password !== again) throw new Error('The two passwords differ: nothing was changed')
  return password as string
}

/** Asks one thing after the other; what is typed in advance counts for the next. */
async function ask (prompts: readonly string[]): Promise<string[]> {
  const silence = new Writable({ write (_chunk, _encoding, done) { done() } })
  const terminal = createInterface({ input: process.stdin, output: silence, terminal: true, historySize: 0 })
  const answers: string[] = []
  process.stderr.write(prompts[0] as string)
  try {
    await new Promise<void>((resolve, reject) => {
      terminal.on('line', (line) => {
        answers.push(line)
        if (answers.length < prompts.length) process.stderr.write(`\n${prompts[answers.length]}`)
        else resolve()
      })
      const stop = () => reject(new Error('It was broken off: nothing was changed'))
      terminal.once('SIGINT', stop).once('close', stop)
    })
    return answers
  } finally {
    terminal.close()
    process.stderr.write('\n')
  }
}

async function readLine (): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > MAX_BYTES) break
  }
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)).replace(/\r?\n$/, '')
  } catch {
    throw new Error('The password on standard input is not UTF-8: nothing was changed')
  }
  if (/[\r\n]/.test(text)) throw new Error('Standard input must be one line, the password: nothing was changed')
  return text
}
