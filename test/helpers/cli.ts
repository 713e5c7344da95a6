import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { PROJECT, QUICK, temporaryFolder } from './service.ts'

// Runs the command line as a process.

export const LANDFALL = join(PROJECT, 'dist/cli/landfall.js')

export interface RunOptions {
  /** Standard input. */
  readonly input?: string | Uint8Array
  readonly cwd?: string
  readonly command?: readonly [string, ...string[]]
  /** Receives the lines of the audit trail, which are left out of `stderr`. */
  readonly audit?: object[]
}

/** Runs the built command line as a process. Its environment is `env`, PATH, HOME and TMPDIR. */
export async function landfall (
  env: Record<string, string>,
  args: readonly string[],
  { input = '', cwd = PROJECT, command = [process.execPath, LANDFALL], audit = [] }: RunOptions = {}
) {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir() } = process.env
  const [program, ...first] = command
  const child = spawn(program, [...first, ...args], {
    cwd,
    env: { PATH, HOME, TMPDIR, NODE_OPTIONS: QUICK, ...env },
    stdio: ['pipe', 'pipe', 'pipe']
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.stdin.on('error', () => {}) // the command may exit without reading its input
  child.stdin.end(input)
  await once(child, 'close')
  stderr = stderr.replace(/^\{"level":30,.*"audit":.*\n/gm, (line) => {
    audit.push(JSON.parse(line))
    return ''
  })
  return { code: child.exitCode, stdout, stderr }
}

/**
 * Runs the built command line on a pseudo-terminal, in an empty folder.
 *
 * @param answers what is typed at each question; a function runs first. Default: no
 * @returns the exit code, and what the terminal shows, with plain line ends
 */
export async function onTerminal (
  t: Test,
  env: Record<string, string | undefined>,
  args: readonly string[],
  answers: readonly (string | (() => Promise<string>))[] = []
) {
  const { PATH = '', HOME = '/' } = process.env
  const command = [process.execPath, LANDFALL, ...args].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: temporaryFolder(t),
    env: { PATH, HOME, TERM: 'xterm', NO_COLOR: '1', ...env },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  let shown = ''
  let asked = 0
  child.stdout.setEncoding('utf8').on('data', async (text: string) => {
    shown += text
    if ((shown.match(/(?:\[y\/N\]|password:) /g)?.length ?? 0) <= asked) return
    const answer = answers[asked++] ?? 'n\r'
    child.stdin.write(typeof answer === 'string' ? answer : await answer())
  })
  await once(child, 'close')
  // Readline moves the cursor while it shows the question.
  // eslint-disable-next-line no-control-regex
  return { code: child.exitCode, shown: shown.replace(/\r+\n/g, '\n').replace(/\u001b\[\d*[GJ]/g, '') }
}
