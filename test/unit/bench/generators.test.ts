import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { ADDRESS } from '../../../bench/generators/load.ts'
import { runOpenLoop } from '../../../bench/generators/open-loop.ts'
import { findGenerator } from '../../../bench/generators/generator.ts'
import { findProgram } from '../../../bench/machine.ts'
import { startGuardian } from '../../helpers/guardian.ts'

const FORWARDED = { path: '/page', headers: { 'X-Forwarded-For': ADDRESS } }
const TURN = { seconds: 1, connections: 4, cores: undefined }

async function listen (t: Test, answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

function guardian (t: Test) {
  const guardian = startGuardian()
  t.teardown(async () => await guardian.end())
  return guardian
}

/** The number of an address that a request claims, from 0; NaN if it isn't one of the load's. */
function numberOf ({ headers }: IncomingMessage): number {
  const octets = /^10\.(\d+)\.(\d+)\.(\d+)$/.exec(String(headers['x-forwarded-for']))?.slice(1).map(Number)
  return octets === undefined || octets.some((octet) => octet > 255) ? NaN
    : octets.reduce((number, octet) => number * 256 + octet, 0)
}

const isUniform = (numbers: readonly number[], count: number): boolean => {
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length
  // The standard deviation of a uniform distribution is 0.29 of its width.
  return Math.abs(mean - count / 2) < 5 * 0.29 * count / Math.sqrt(numbers.length) &&
    numbers.every((number) => number >= 0 && number < count)
}

for (const name of ['wrk', 'autocannon'] as const) {
  t.test(`${name} draws client addresses at random, others in each turn`, {
    skip: name === 'wrk' && findProgram('wrk') === undefined ? 'wrk is not installed' : false
  }, async (t) => {
    let numbers: number[] = []
    const port = await listen(t, (request, response) => {
      numbers.push(numberOf(request))
      response.end('x')
    })
    const generator = findGenerator(name, guardian(t))
    const load = { requests: [FORWARDED], addresses: 1_000_000 }
    generator.prepare('crowd', load)
    const turns: number[][] = []
    for (const start of [0, 500_000 / 3 | 0]) {
      numbers = []
      const counts = await generator.run('crowd', { ...TURN, port, load, start })
      t.ok(counts.requests > 0 && counts.maxMs >= counts.p99Ms, JSON.stringify(counts))
      t.ok(isUniform(numbers, load.addresses), `${numbers.length} addresses`)
      t.ok(new Set(numbers).size > 0.9 * numbers.length, 'few addresses come twice')
      turns.push(numbers)
    }
    t.notSame(turns[0]?.slice(0, 4), turns[1]?.slice(0, 4))
  })
}

t.test('an open loop sends what is due, and 1 % of it are writes', async (t) => {
  const numbers: number[] = []
  const bodies: string[] = []
  const port = await listen(t, (request, response) => {
    if (request.method === 'GET') {
      numbers.push(numberOf(request))
      return response.end('x')
    }
    let body = ''
    request.on('data', (text) => {
      body += text
    }).on('end', () => {
      bodies.push(`${request.method} ${request.url} ${request.headers.authorization} ${body}`)
      response.end('written')
    })
  })
  const writes = ['{"a":"é"}', '{"b":1}'].map((body) => ({
    path: '/page/1',
    headers: { Authorization: 'Bearer x' },
    body
  }))
  const load = { requests: [FORWARDED], addresses: 1000, writes }
  const counts = await runOpenLoop({ ...TURN, port, load, start: 0 }, 300, guardian(t))
  t.match(counts, { requests: 297, refused: 0, socketErrors: 0 })
  t.equal(numbers.length, 297)
  t.ok(isUniform(numbers, load.addresses))
  t.same(bodies, [0, 1, 0].map((index) => `PATCH /page/1 Bearer x ${writes[index]?.body}`))
})

t.test('in an open loop waiting for a connection counts, and errors are counted', async (t) => {
  let requests = 0
  const port = await listen(t, (_request, response) => {
    response.statusCode = ++requests % 10 === 0 ? 500 : 200
    // The second answer of a hundred is late. Those that were due meanwhile must be late, too.
    setTimeout(() => response.end('x'), requests === 2 ? 500 : 0)
  })
  const load = { requests: [{ path: '/', headers: {} }] }
  const counts = await runOpenLoop({ ...TURN, connections: 1, port, load, start: 0 }, 100, guardian(t))
  t.match(counts, { requests: 100, refused: 10, socketErrors: 0 })
  t.ok(counts.p99Ms > 450 && counts.maxMs >= counts.p99Ms, JSON.stringify(counts))
})

t.test('a connection that is closed in an open loop is an error', async (t) => {
  const port = await listen(t, (request) => request.socket.destroy())
  const load = { requests: [{ path: '/', headers: {} }] }
  await t.rejects(
    runOpenLoop({ ...TURN, port, load, start: 0 }, 100, guardian(t)),
    /a connection was closed/
  )
})
