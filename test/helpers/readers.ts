import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Teardown } from '../shared/guardian.ts'

// A steady load of public reads that records every response.

export interface Read {
  /** Index of the replica in `urls`. */
  readonly replica: number
  readonly publicId: string
  /** Status; 0 without a response. */
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Body of the response, or the error. */
  readonly body: string
  /** Times of the request and of the complete response, in milliseconds of `performance.now()`. */
  readonly sentAt: number
  readonly answeredAt: number
}

export interface ReadersOptions {
  /** URLs of the replicas, which are read equally often. */
  readonly urls: readonly string[]
  readonly publicIds: readonly string[]
  /** Time between two reads of a replica, in milliseconds (default 10). */
  readonly intervalMs?: number
  readonly headers?: Record<string, string>
  /**
   * Whether to repeat a read whose kept-alive connection was closed meanwhile, as clients do (default true).
   */
  readonly resend?: boolean
}

/** Limit of unanswered reads per replica; further reads wait. */
const MAX_PENDING = 100

/** Reads pages steadily until the test ends. The service needs a RATE_LIMIT_PUBLIC that allows it. */
export class Readers {
  readonly #options: ReadersOptions
  readonly #agent = new Agent({ keepAlive: true })
  readonly #reads: Read[] = []
  readonly #pending = new Set<Promise<void>>()
  readonly #loops: Promise<void>[]
  #stopped = false

  constructor (t: Teardown, options: ReadersOptions) {
    this.#options = options
    this.#loops = options.urls.map(async (_, replica) => await this.#run(replica))
    t.teardown(async () => await this.stop())
  }

  /** Returns the reads that were sent while an action ran, after all of them were answered. */
  async during (action: () => Promise<unknown>): Promise<Read[]> {
    const from = performance.now()
    await action()
    const until = performance.now()
    await Promise.all(this.#pending)
    return this.#reads.filter(({ sentAt }) => sentAt >= from && sentAt <= until)
  }

  /** Returns the reads of the next `ms` milliseconds, after all of them were answered. */
  async for (ms: number): Promise<Read[]> {
    return await this.during(async () => await sleep(ms))
  }

  /** Ends the load and waits for the remaining responses. */
  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#loops)
    await Promise.all(this.#pending)
    this.#agent.destroy()
  }

  async #run (replica: number): Promise<void> {
    const { publicIds, intervalMs = 10 } = this.#options
    const pending = new Set<Promise<void>>()
    for (let n = 0; !this.#stopped; n++) {
      if (pending.size < MAX_PENDING) {
        const read = this.#read(replica, publicIds[n % publicIds.length] as string).then((answer) => {
          this.#reads.push(answer)
          pending.delete(read)
          this.#pending.delete(read)
        })
        pending.add(read)
        this.#pending.add(read)
      }
      await sleep(intervalMs)
    }
  }

  async #read (replica: number, publicId: string): Promise<Read> {
    const { urls, headers, resend = true } = this.#options
    const sentAt = performance.now()
    return await new Promise((resolve) => {
      const settle = (status: number, body: string, headers: Read['headers'] = {}) =>
        resolve({ replica, publicId, status, headers, body, sentAt, answeredAt: performance.now() })
      const request = get(`${urls[replica]}/landing_pages/${publicId}`, {
        agent: this.#agent,
        headers: { ...headers }
      }, (response) => {
        let body = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          body += chunk
        })
        response.on('end', () => settle(response.statusCode as number, body, response.headers))
        response.on('error', (error) => settle(0, error.message))
      })
      request.on('error', (error: NodeJS.ErrnoException) => {
        // A server may close an idle connection just when the next read is sent; clients repeat the read.
        if (resend && request.reusedSocket && error.code === 'ECONNRESET' && !this.#stopped) {
          resolve(this.#read(replica, publicId))
        } else settle(0, error.message)
      })
    })
  }
}

/** Returns the number of reads by status. */
export function statuses (responses: readonly { readonly status: number }[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** Returns the statuses of responses; for a request without one, the error. */
export const outcomes = async (
  sent: readonly Promise<{ readonly status: number }>[]
): Promise<Array<number | string>> =>
  await Promise.all(sent.map(async (one) => await one.then(({ status }) => status, String)))
