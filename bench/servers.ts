import { spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Guardian } from '../test/shared/guardian.ts'
import { freePort, listens } from '../test/shared/instances.ts'
import { pinned } from './machine.ts'

// The measured servers: separate processes on a core of their own, which always end with the benchmark.

export interface Server {
  readonly name: string
  readonly port: number
  readonly pid: number
  readonly env: Readonly<Record<string, string>>
  /** Periods under load: begin and end, in microseconds of the monotonic clock. */
  readonly turns: [number, number][]
  /** Returns the end of its output, in one line. */
  lastWords(): string
  hasEnded(): boolean
  /** Shuts it down. */
  stop(): Promise<void>
  /** Shuts it down and starts it again, with the same settings, and does something between. */
  restart(between?: () => Promise<void>): Promise<void>
}

export interface ServerCommand {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly env: Record<string, string>
  readonly port?: number
}

/** Returns a port below those of outgoing connections, as freePort() does, but without trying it. */
export const randomPort = (): number => randomInt(10_000, 32_000)

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 15_000

/** Starts a server with `PORT` in its environment and waits until it accepts connections. */
export async function startServer (
  { name, command, env, port }: ServerCommand,
  cores: readonly number[] | undefined,
  guardian: Guardian
): Promise<Server> {
  port ??= await freePort()
  const log = join(guardian.folder, `${name.replace(/\W+/g, '-')}-${port}.log`)
  const start = (): ChildProcess =>
    launch(pinned(command, cores), { HOST: '127.0.0.1', PORT: String(port), ...env }, log, guardian)
  let child = start()
  const server: Server = {
    name,
    port,
    get pid () {
      return child.pid ?? -1
    },
    env,
    turns: [],
    lastWords: () =>
      readFileSync(log, 'utf8').trim().split('\n').slice(-5).join(' | ') || 'it printed nothing',
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    async stop () {
      if (server.hasEnded()) return
      const exited = once(child, 'exit')
      child.ref()
      child.kill('SIGTERM')
      const patience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await exited
      clearTimeout(patience)
    },
    async restart (between) {
      await server.stop()
      await between?.()
      child = start()
      await untilConnected(server)
    }
  }
  await untilConnected(server)
  return server
}

async function untilConnected (server: Server): Promise<void> {
  const { name, port } = server
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!await listens(port)) {
    if (server.hasEnded() || server.pid < 0) throw new Error(`${name} did not start: ${server.lastWords()}`)
    if (Date.now() > deadline) {
      throw new Error(`${name} took no connection within ${START_TIMEOUT_MS / 1000} s: ${server.lastWords()}`)
    }
    await sleep(25)
  }
}

function launch (
  command: readonly [string, ...string[]],
  env: Record<string, string>,
  log: string,
  guardian: Guardian
): ChildProcess {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir() } = process.env
  const output = openSync(log, 'a')
  const [program, ...args] = command
  const child = spawn(program, args, {
    // The current folder must not have a .env file, whose settings would change the result unnoticed.
    cwd: guardian.folder,
    env: { PATH, HOME, TMPDIR, NODE_ENV: 'production', ...env },
    stdio: ['ignore', output, output],
    // In a process group of its own, so that Ctrl-C doesn't reach it; the guardian ends it.
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
