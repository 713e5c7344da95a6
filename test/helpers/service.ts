import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { ownGuardian } from '../shared/guardian.ts'
import { secretsIn } from './secrets.ts'
import { freePort, type Teardown } from './servers.ts'

export { temporaryFolder } from '../shared/guardian.ts'

// Runs the built service as a process, as operators do.

export const PROJECT = resolve(import.meta.dirname, '../..')

/** The command of `npm start`, without its build. */
export const SERVE = [process.execPath, 'dist/cli/landfall.js', 'serve'] as const

export interface Service {
  readonly url: string
  readonly child: ChildProcess
  /** Returns the output so far. */
  output: () => string
  /** Sends a signal to its process group; returns the exit code, or the signal that ended it. */
  end: (signal: NodeJS.Signals) => Promise<number | string | null>
}

const importing = (helper: string) => `--import=${pathToFileURL(join(PROJECT, 'test/helpers', helper)).href}`

/** The option of Node for short processes. */
export const QUICK = importing('quick-start.js')

/** Compares the responses of the process with the OpenAPI document and prints differences. */
const OBSERVE = importing('conformance.js')

/**
 * Starts the service and waits until it is ready. At the end of the test, its output is searched for secrets
 * and for responses that differ from the OpenAPI document.
 *
 * @param env the environment besides PATH, HOME and TMPDIR
 * @param isMeasured whether time or memory is measured; answers are then not compared
 */
export async function startService (
  t: Teardown,
  env: Record<string, string>,
  command: readonly [string, ...string[]] = SERVE,
  isMeasured = false
): Promise<Service> {
  const port = env.PORT ?? String(await freePort())
  // No load shedding, because a busy machine delays the event loop.
  const service = launch(t, { PORT: port, MAX_EVENT_LOOP_DELAY_MS: '0', ...env }, command, isMeasured)
  const url = `http://localhost:${port}`
  while (true) {
    if (service.child.exitCode !== null) {
      throw new Error(`the service ended with ${service.child.exitCode}:\n${service.output()}`)
    }
    const responses = await fetch(`${url}/health/ready`).then(({ ok }) => ok, () => false)
    if (responses) return { url, ...service }
    await sleep(50)
  }
}

/** Starts the service and waits until it exits. */
export async function runService (
  t: Teardown,
  env: Record<string, string>,
  command: readonly [string, ...string[]] = SERVE
): Promise<{ code: number | string | null, output: string }> {
  const { child, output } = launch(t, env, command)
  const [code, signal] = await once(child, 'close') // the exit may come before the last output
  return { code: code ?? signal, output: output() }
}

/**
 * Starts a process, which the end of the test ends. Its output is then searched for secrets.
 *
 * @param isMeasured whether its responses are not compared with the OpenAPI document
 */
export function launch (
  t: Teardown,
  env: Record<string, string>,
  [program, ...args]: readonly [string, ...string[]],
  isMeasured = false,
  cwd = PROJECT
) {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir() } = process.env
  const options = { NODE_OPTIONS: `${env.NODE_OPTIONS ?? ''} ${QUICK} ${isMeasured ? '' : OBSERVE}` }
  const child = spawn(program, args, {
    cwd,
    env: { PATH, HOME, TMPDIR, ...env, ...options },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true
  })
  // A group of its own, so that `end` reaches the children of commands such as npm. The guardian ends it if
  // the test dies.
  const group = child.pid === undefined ? undefined : -child.pid
  if (group !== undefined) {
    ownGuardian().add(group, 'KILL')
    child.once('exit', () => ownGuardian().forget(group))
  }
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString()
    })
  }
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      process.kill(-child.pid, signal)
    }
    return await ended(child)
  }
  t.teardown(async () => {
    await end('SIGKILL')
    const faults = [...secretsIn(output, env), ...output.match(/^NOT AS DESCRIBED: .*$/gm) ?? []]
    if (faults.length === 0) return
    // An error would keep the test's other teardowns from running.
    console.error(`a service of the tests printed ${faults.join(', ')}`)
    process.exitCode = 1
  })
  return { child, output: () => output, end }
}

async function ended (child: ChildProcess): Promise<number | string | null> {
  if (child.exitCode === null && child.signalCode === null) {
    await new Promise((resolve) => child.once('exit', resolve))
  }
  return child.exitCode ?? child.signalCode
}
