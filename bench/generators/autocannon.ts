import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Guardian } from '../../test/shared/guardian.ts'
import { runChild } from './child.ts'
import { seededRandom } from '../statistics.ts'
import type { AutocannonTurn } from './autocannon-process.ts'
import { addressText, withAddress } from './load.ts'
import type { Counts, Generator, Load, Request } from './types.ts'

/** Every connection keeps its part of the requests in buffers, so this limits memory. */
const MAX_REQUESTS = 50_000

/** Runs autocannon in a separate process, so that it doesn't share an event loop with the benchmark. */
export function autocannonGenerator (guardian: Guardian): Generator {
  const files = new Map<string, { path: string, count: number }>()
  return {
    name: 'autocannon',
    description:
      'autocannon (without wrk): it needs more time per request than a fast server, so it limits the ' +
      'rates and narrows the ratios',
    prepare (name, load) {
      if (files.has(name)) return
      const path = join(guardian.folder, `load-${files.size}.json`)
      const requests = sequence(load)
      files.set(name, { path, count: requests.length })
      writeFileSync(path, JSON.stringify(requests))
    },
    async run (name, { port, start, seconds, connections, cores }) {
      const { path = '', count = 1 } = files.get(name) ?? {}
      const turn: AutocannonTurn = { port, seconds, connections, requestsFile: path, start: start % count }
      const output = await runChild(
        [
          process.execPath,
          '--import=tsx',
          join(import.meta.dirname, 'autocannon-process.ts'),
          JSON.stringify(turn)
        ],
        cores,
        guardian
      )
      return JSON.parse(output) as Counts
    }
  }
}

function sequence ({ requests, order, addresses }: Load): readonly Request[] {
  if (addresses !== undefined) {
    const random = seededRandom(9)
    const address = (): string => addressText(Math.floor(random() * addresses))
    return Array.from({ length: MAX_REQUESTS }, () => withAddress(requests[0] as Request, address()))
  }
  if (order === undefined) return requests.slice(0, MAX_REQUESTS)
  return Array.from(order.slice(0, MAX_REQUESTS), (index) => requests[index] as Request)
}
