import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { waitForShare } from '../../../bench/crowd.ts'

/** Waits for a server whose metrics are these, one after the other; returns how many were read. */
async function wait (t: Test, metrics: string[]): Promise<number> {
  let read = 0
  const server = createServer((_request, response) => response.end(metrics[read++])).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  await waitForShare(undefined, { name: 'ours', env: { OPS_PORT: String(port) } })
  return read
}

const share = (reads: number): string =>
  `# TYPE landfall_limit_share gauge\nlandfall_limit_share{tier="allowed-host"} 9\nlandfall_limit_share{tier="public"} ${reads}\n`

t.test('the crowd waits until the process has a share of the limit', async (t) => {
  t.equal(await wait(t, [share(0), share(0), share(15)]), 3)
})

t.test('the crowd goes on if there is no such metric', async (t) => {
  t.equal(await wait(t, ['landfall_public_reads_total 1\n']), 1)
})
