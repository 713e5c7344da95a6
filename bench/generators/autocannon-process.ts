import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import autocannon from 'autocannon'
import { Histogram } from './histogram.ts'
import type { Counts, Request } from './types.ts'

// Runs one turn of autocannon and prints the counts.

export interface AutocannonTurn {
  readonly port: number
  readonly seconds: number
  readonly connections: number
  readonly requestsFile: string
  readonly start: number
}

// A histogram of our own, because autocannon rounds latencies to milliseconds.
const latencies = new Histogram()

const turn = JSON.parse(process.argv[2] as string) as AutocannonTurn
const all = (JSON.parse(readFileSync(turn.requestsFile, 'utf8')) as Request[]).map(({ path, headers }) => ({
  method: 'GET' as const,
  path,
  headers: { ...headers }
}))
let connection = 0

const options: autocannon.Options & { sampleInt: number } = {
  url: `http://127.0.0.1:${turn.port}`,
  connections: turn.connections,
  duration: turn.seconds,
  // Interval at which autocannon checks whether the duration has passed, in milliseconds.
  sampleInt: 100,
  setupClient (client) {
    const own: typeof all = []
    for (
      let index = connection++;
      index < Math.max(all.length, turn.connections);
      index += turn.connections
    ) {
      own.push(all[(turn.start + index) % all.length] as typeof all[number])
    }
    client.setRequests(own)
  }
}
let started = 0
const result = await new Promise<autocannon.Result>((resolve, reject) => {
  const instance = autocannon(
    options,
    (error: Error | null, result) => error === null ? resolve(result) : reject(error)
  )
  // autocannon's own duration includes the preparation of the requests.
  instance.on('start', () => {
    started = performance.now()
  })
  instance.on('response', (_client, _status, _bytes, latencyMs) => latencies.add(latencyMs))
})

const counts: Counts = {
  requests: result['1xx'] + result['2xx'] + result['3xx'] + result['4xx'] + result['5xx'],
  seconds: (performance.now() - started) / 1000,
  bytes: result.throughput.total,
  refused: result['4xx'] + result['5xx'],
  socketErrors: result.errors + result.timeouts,
  p50Ms: latencies.percentile(0.5),
  p99Ms: latencies.percentile(0.99),
  maxMs: latencies.max
}
process.stdout.write(JSON.stringify(counts))
