import { Writable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createInterface } from 'node:readline'

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
  if (!process.stdin.isTTY) return await readLine()
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

async function readLine (): Promise<string> {
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
