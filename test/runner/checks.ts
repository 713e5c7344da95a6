import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { ROOT } from './arguments.ts'

// Runs the type check and lint in parallel with the tests, which don't use all cores all the time.

const CHECKS = ['typecheck', 'lint']

export interface Checks {
  /** Resolves to the names of the failed checks. */
  readonly failed: Promise<string[]>
  abort(): void
}

/** Runs the checks one after the other. */
export function startChecks (print: (line: string) => void): Checks {
  let child: ChildProcess | undefined
  let isAborted = false
  const run = async (name: string): Promise<boolean> => {
    const started = performance.now()
    child = spawn('npm', ['run', '--silent', name], {
      cwd: ROOT,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    const [code] = await once(child, 'close') as [number | null]
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    if (!isAborted) print(code === 0 ? `ok   ${name} (${seconds} s)` : `FAIL ${name}\n${output.trimEnd()}`)
    return code === 0
  }
  const failed = (async () => {
    const names: string[] = []
    for (const name of CHECKS) if (!isAborted && !await run(name)) names.push(name)
    return names
  })()
  return {
    failed,
    abort () {
      isAborted = true
      try {
        if (child?.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
      } catch {
        // The check has ended.
      }
    }
  }
}
