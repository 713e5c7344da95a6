import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { Worker } from 'node:worker_threads'
import { seededRandom } from '../statistics.ts'
import { Histogram } from './histogram.ts'
import { ADDRESS, addressText } from './load.ts'
import type { Counts } from './types.ts'

// Runs one turn of requests at fixed times and prints the counts.

export interface OpenLoopTurn {
  readonly port: number
  readonly rate: number
  readonly start: number
  readonly seconds: number
  readonly connections: number
  readonly addresses: number | undefined
  /** A file with the texts of the reads and writes. */
  readonly textsFile: string
}

/** One request of this many is a write. */
const WRITE_EVERY = 100
const BUFFER_BYTES = 64 * 1024
/** Requests that are not answered this long after the last one was due have failed. */
const PATIENCE_MS = 10_000
const SHORTEST_SLEEP_MS = 0.1
const START_DELAY_MS = 50
/** The thread that startClock() starts. */
const CLOCK = `
const { parentPort, workerData: { isAwake, periodMs } } = require('node:worker_threads')
const never = new Int32Array(new SharedArrayBuffer(4))
for (let next = performance.now();;) {
  next = Math.max(next + periodMs, performance.now())
  Atomics.wait(never, 0, 0, next - performance.now())
  if (Atomics.exchange(isAwake, 0, 1) === 0) parentPort.postMessage(0)
}
`

const turn = JSON.parse(process.argv[2] as string) as OpenLoopTurn
const texts = JSON.parse(readFileSync(turn.textsFile, 'utf8')) as { reads: string[], writes: string[] }
const [before, after] = (texts.reads[0] as string).split(ADDRESS)
const random = seededRandom(turn.start + 1)

const latencies = new Histogram()
const lateness = new Histogram()
let [reads, bytes, refused, socketErrors, lastResponseAt] = [0, 0, 0, 0, 0]

/** A connection with at most one request under way. */
class Connection {
  readonly socket: Socket
  #dueAt = 0
  #isWrite = false
  #head = ''
  /** Bytes of the body that are still to come; undefined while the head isn't complete. */
  #missing: number | undefined

  constructor () {
    this.socket = connect({
      host: '127.0.0.1',
      port: turn.port,
      noDelay: true,
      onread: {
        // One buffer for all responses: allocating one for each would be most of the generator's work.
        buffer: Buffer.allocUnsafe(BUFFER_BYTES),
        callback: (length, buffer) => {
          this.#receive(buffer as Buffer, length)
          return true
        }
      }
    })
    this.socket.on('error', () => {}).on('close', () => {
      if (!hasEnded) fail('a connection was closed')
    })
  }

  send (index: number, dueAt: number): void {
    this.#dueAt = dueAt
    this.#isWrite = texts.writes.length > 0 && index % WRITE_EVERY === WRITE_EVERY - 1
    this.socket.write(this.#isWrite ? writeText(index) : readText(index), 'utf8')
  }

  #receive (buffer: Buffer, length: number): void {
    let from = 0
    if (!this.#isWrite) bytes += length
    if (this.#missing === undefined) {
      const end = buffer.subarray(0, length).indexOf('\r\n\r\n')
      const partial = this.#head.length
      this.#head += buffer.toString('latin1', 0, end < 0 ? length : end + 4)
      // The blank line may be in two parts.
      const headEnd = end < 0 || partial > 0 ? this.#head.indexOf('\r\n\r\n') : end
      if (headEnd < 0) return
      from = headEnd + 4 - partial
      this.#missing = Number(/\r\ncontent-length: *(\d+)/i.exec(this.#head)?.[1] ?? 0)
    }
    this.#missing -= length - from
    if (this.#missing <= 0) this.#finish()
  }

  #finish (): void {
    const now = performance.now()
    if (Number(this.#head.slice(9, 12)) >= 400) refused++
    this.#head = ''
    this.#missing = undefined
    if (!this.#isWrite) {
      reads++
      latencies.add(now - this.#dueAt)
    }
    lastResponseAt = now
    const hadIdle = idle.length > 0
    idle.push(this)
    sendDue(now, hadIdle)
  }
}

function readText (index: number): string {
  if (turn.addresses === undefined) return texts.reads[(turn.start + index) % texts.reads.length] as string
  return `${before}${addressText(Math.floor(random() * turn.addresses))}${after}`
}

const writeText = (index: number): string =>
  texts.writes[Math.floor(index / WRITE_EVERY) % texts.writes.length] as string

function fail (message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

const idle: Connection[] = []
const count = Math.round(turn.rate * turn.seconds)
let started = Infinity
let sent = 0
let hasEnded = false

/**
 * Sends requests that are due, as long as there are idle connections.
 *
 * @param hadIdle whether a connection was idle before; then a delay is this process' own
 */
function sendDue (now: number, hadIdle: boolean): void {
  for (; sent < count && idle.length > 0; sent++) {
    const dueAt = started + 1000 * sent / turn.rate
    if (dueAt > now) return
    if (hadIdle) lateness.add(now - dueAt)
    idle.shift()?.send(sent, dueAt)
  }
}

/**
 * Timers are only as exact as a millisecond, and a generator that never sleeps would keep Redis from running
 * on the same core. So a thread sleeps until the next request is due, and wakes the event loop.
 */
function startClock (): void {
  const isAwake = new Int32Array(new SharedArrayBuffer(4))
  const clock = new Worker(CLOCK, {
    eval: true,
    execArgv: [],
    workerData: { isAwake, periodMs: Math.max(SHORTEST_SLEEP_MS, 1000 / turn.rate) }
  })
  clock.once('online', () => {
    started = performance.now() + START_DELAY_MS
  }).on('message', () => {
    Atomics.store(isAwake, 0, 0)
    const now = performance.now()
    sendDue(now, true)
    if (sent === count && idle.length === turn.connections) return finish()
    if (now > started + 1000 * turn.seconds + PATIENCE_MS) {
      socketErrors = turn.connections - idle.length + count - sent
      finish()
    }
  })
}

function finish (): void {
  hasEnded = true
  const counts: Counts = {
    requests: reads,
    seconds: (lastResponseAt - started) / 1000,
    bytes,
    refused,
    socketErrors,
    p50Ms: latencies.percentile(0.5),
    p99Ms: latencies.percentile(0.99),
    p999Ms: latencies.percentile(0.999),
    maxMs: latencies.max,
    lateMs: lateness.percentile(0.99)
  }
  process.stdout.write(JSON.stringify(counts), () => process.exit())
}

for (let index = 0; index < turn.connections; index++) {
  const connection = new Connection()
  connection.socket.once('connect', () => {
    idle.push(connection)
    if (idle.length < turn.connections) return
    startClock()
  })
}
