import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Guardian } from '../../test/shared/guardian.ts'
import { pinned } from '../machine.ts'

/**
 * Runs a generator until it ends.
 *
 * @returns its output
 */
export async function runChild (
  command: readonly [string, ...string[]],
  cores: readonly number[] | undefined,
  guardian: Guardian
): Promise<string> {
  const [program, ...args] = pinned(command, cores)
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const { pid } = child
  if (pid !== undefined) guardian.add(pid, 'KILL')
  let output = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  const [code] = await once(child, 'close') as [number | null]
  if (pid !== undefined) guardian.forget(pid)
  if (code !== 0) throw new Error(`${program} failed: ${(errors || output).trim()}`)
  return output
}
