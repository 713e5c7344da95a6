import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Guardian } from '../test/helpers/guardian.ts'
import { freePort } from '../test/helpers/instances.ts'
import { pinned } from './machine.ts'

// Servers to measure: processes of their own, on their own core, ended with the bench however that ends.

export interface Server {
  readonly name: string
  readonly port: number
  readonly pid: number
  readonly env: Readonly<Record<string, string>>
  /** When it was under load: from and until, in microseconds of the system's monotonic clock. */
  readonly turns: [number, number][]
  /** The end of what it has printed, in one line. */
  lastWords (): string
  hasEnded (): boolean
  /** Ends it in an orderly way. */
  stop (): Promise<void>
}

export interface ServerCommand {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly env: Record<string, string>
  readonly port?: number
}

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 15_000

/** Starts a server with `PORT` in its environment and waits until it takes connections there. */
export async function startServer ({ name, command, env, port }: ServerCommand, cores: readonly number[] | undefined, guardian: Guardian): Promise<Server> {
  port ??= await freePort()
  const log = join(guardian.folder, `${name.replace(/\W+/g, '-')}-${port}.log`)
  const child = launch(pinned(command, cores), { HOST: '127.0.0.1', PORT: String(port), ...env }, log, guardian)
  const server: Server = {
    name,
    port,
    pid: child.pid ?? -1,
    env,
    turns: [],
    lastWords: () => readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' | ') || 'it printed nothing',
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    async stop () {
      if (server.hasEnded()) return
      const exited = once(child, 'exit')
      child.ref()
      child.kill('SIGTERM')
      const patience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await exited
      clearTimeout(patience)
    }
  }
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!await takesConnections(port)) {
    if (server.hasEnded() || child.pid === undefined) throw new Error(`${name} did not start: ${server.lastWords()}`)
    if (Date.now() > deadline) throw new Error(`${name} took no connection within ${START_TIMEOUT_MS / 1000} s: ${server.lastWords()}`)
    await sleep(25)
  }
  return server
}

function launch (command: readonly [string, ...string[]], env: Record<string, string>, log: string, guardian: Guardian): ChildProcess {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir() } = process.env
  const output = openSync(log, 'a')
  const [program, ...args] = command
  const child = spawn(program, args, {
    // A folder without a .env file, whose settings would be measured without anybody noticing.
    cwd: guardian.folder,
    env: { PATH, HOME, TMPDIR, NODE_ENV: 'production', ...env },
    stdio: ['ignore', output, output],
    // The guardian ends it, also when Ctrl-C reaches everything else.
    detached: true
  })
  closeSync(output)
  child.on('error', () => {})
  child.unref()
  const { pid } = child
  if (pid !== undefined) {
    guardian.add(pid, 'TERM')
    child.once('exit', () => guardian.forget(pid))
  }
  return child
}

async function takesConnections (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
