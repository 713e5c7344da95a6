import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Guardian } from '../../test/helpers/guardian.ts'
import { runChild } from './child.ts'
import type { AutocannonTurn } from './autocannon-process.ts'
import type { Counts, Generator, Load } from './generator.ts'

/** Every connection keeps its share of the requests as buffers: more of them would cost more memory than they tell. */
const MAX_REQUESTS = 50_000

/** autocannon, in a process of its own: in the bench's it would share its event loop. */
export function autocannonGenerator (guardian: Guardian): Generator {
  const files = new Map<string, { path: string, count: number }>()
  return {
    name: 'autocannon',
    description: 'autocannon (wrk is not installed, or not wanted): it takes more time for a request than a fast server does, which limits the rates and draws the ratios together',
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
      const output = await runChild([process.execPath, '--import=tsx', join(import.meta.dirname, 'autocannon-process.ts'), JSON.stringify(turn)], cores, guardian)
      return JSON.parse(output) as Counts
    }
  }
}

function sequence ({ requests, order }: Load): readonly Load['requests'][number][] {
  if (order === undefined) return requests.slice(0, MAX_REQUESTS)
  return Array.from(order.slice(0, MAX_REQUESTS), (index) => requests[index] as Load['requests'][number])
}
