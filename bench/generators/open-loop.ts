import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Guardian } from '../../test/shared/guardian.ts'
import { runChild } from './child.ts'
import { requestText } from './load.ts'
import type { OpenLoopTurn } from './open-loop-process.ts'
import type { Counts, Turn } from './types.ts'

/**
 * Sends requests at fixed times, whether or not earlier ones were answered. A request that has to wait for an
 * idle connection waits at the server's expense: its latency counts from the time at which it was due. (wrk
 * has no fixed rate, and autocannon sends the requests of a second in a burst at its beginning.)
 *
 * @param rate requests per second, writes included
 */
export async function runOpenLoop (
  { port, load, start, seconds, connections, cores }: Turn,
  rate: number,
  guardian: Guardian
): Promise<Counts> {
  const textsFile = join(guardian.folder, 'open-loop.json')
  const writes = load.writes ?? []
  writeFileSync(
    textsFile,
    JSON.stringify({
      reads: load.requests.map((request) => requestText(request)),
      writes: writes.map((write) => requestText(write, 'PATCH', write.body))
    })
  )
  const turn: OpenLoopTurn = { port, rate, start, seconds, connections, addresses: load.addresses, textsFile }
  const output = await runChild(
    [
      process.execPath,
      '--import=tsx',
      join(import.meta.dirname, 'open-loop-process.ts'),
      JSON.stringify(turn)
    ],
    cores,
    guardian
  )
  return JSON.parse(output) as Counts
}
