import { createInterface } from 'node:readline'

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
