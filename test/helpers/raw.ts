import { connect, type Socket } from 'node:net'
import type { Teardown } from './servers.ts'

// Connections for requests that an HTTP client can't send.

/** Limit for the arrival of data, in milliseconds. */
const PATIENCE_MS = 20_000

export interface RawResponse {
  readonly status: number
  /** Status line and headers, including the empty line. */
  readonly head: string
  readonly body: Buffer
}

/** A kept-alive connection that reads one response after the other and detects bytes between responses. */
export class Connection {
  readonly socket: Socket
  #bytes = Buffer.alloc(0)
  #closed = false
  #news = () => {}

  constructor (url: string) {
    this.socket = connect(Number(new URL(url).port), '127.0.0.1')
    this.socket.on('error', () => {})
    this.socket.on('data', (data) => {
      this.#bytes = Buffer.concat([this.#bytes, data])
      this.#news()
    })
    this.socket.on('close', () => {
      this.#closed = true
      this.#news()
    })
  }

  /** Whether either side has closed the connection. */
  get closed (): boolean {
    return this.#closed
  }

  /** Returns false if the socket should drain before more is sent. */
  send (bytes: string | Buffer): boolean {
    return this.socket.write(bytes)
  }

  /** Resolves when the socket can take more data, or is closed. */
  async drained (): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        this.socket.off('drain', done).off('close', done)
        resolve()
      }
      this.socket.on('drain', done).on('close', done)
    })
  }

  /**
   * Reads the next response. The body of a response that must not have one counts as part of the next
   * response. Chunked responses are not supported.
   *
   * @throws {Error} if the connection closes before the response is complete, or no data arrives
   */
  async response (method = 'GET'): Promise<RawResponse> {
    let end
    while ((end = this.#bytes.indexOf('\r\n\r\n')) < 0) await this.#more()
    const head = this.#bytes.subarray(0, end + 4).toString('latin1')
    const status = Number(head.slice(9, 12))
    const length = method === 'HEAD' || [100, 204, 304].includes(status) ? 0
      : Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0)
    while (this.#bytes.length < head.length + length) await this.#more()
    const body = this.#bytes.subarray(head.length, head.length + length)
    this.#bytes = this.#bytes.subarray(head.length + length)
    return { status, head, body }
  }

  async ask (
    path: string,
    headers: Record<string, string> = {},
    method = 'GET',
    version = '1.1'
  ): Promise<RawResponse> {
    this.send(requestOf(path, headers, method, version))
    return await this.response(method)
  }

  /** Waits until the connection is closed; returns the bytes after the last response. */
  async rest (): Promise<string> {
    while (!this.#closed) await this.#next()
    return this.#bytes.toString('latin1')
  }

  async #more (): Promise<void> {
    if (this.#closed) {
      throw new Error(`closed after ${JSON.stringify(this.#bytes.toString('latin1').slice(0, 500))}`)
    }
    await this.#next()
  }

  async #next (): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const hung = setTimeout(
        () =>
          reject(new Error(`no data for ${PATIENCE_MS / 1000} s after ${
            JSON.stringify(this.#bytes.toString('latin1').slice(0, 500))
          }`)),
        PATIENCE_MS
      )
      this.#news = () => {
        clearTimeout(hung)
        resolve()
      }
    })
  }
}

/** Opens a connection, which the end of the test closes. */
export function connection (t: Teardown, url: string): Connection {
  const opened = new Connection(url)
  t.teardown(() => {
    opened.socket.destroy()
  })
  return opened
}

/** Returns a request without a body. */
export const requestOf = (
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  version = '1.1'
): string =>
  [
    `${method} ${path} HTTP/${version}`,
    'Host: x',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '',
    ''
  ].join('\r\n')

/** Returns a request with a body and its Content-Length. */
export const requestWith = (
  body: string | Buffer,
  method: string,
  path: string,
  headers: Record<string, string> = {}
): Buffer =>
  Buffer.concat([
    Buffer.from(
      requestOf(path, { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }, method),
      'latin1'
    ),
    Buffer.from(body)
  ])

/** Returns how a response differs from the error format of the API; undefined if it doesn't. */
export function whyNoError ({ head, body }: RawResponse): string | undefined {
  let errors: unknown
  try {
    const parsed = JSON.parse(body.toString()) as { errors: unknown }
    if (Object.keys(parsed).join() !== 'errors') return `has ${Object.keys(parsed).join()}`
    errors = parsed.errors
  } catch {
    return `is not JSON: ${body.toString('latin1').slice(0, 200)}`
  }
  if (
    !Array.isArray(errors) || errors.length === 0 ||
    !errors.every((error) => typeof error === 'string' && /^[A-Z].* .*/.test(error))
  ) return `has no sentences: ${body.toString().slice(0, 200)}`
  if (/FST_|HPE_|ERR_| at .*:\d+|node_modules|prisma|postgres|select |\.ts\b/i.test(body.toString())) {
    return `reveals internals: ${body.toString().slice(0, 200)}`
  }
  if (!/\r\nx-request-id: \S+\r\n/i.test(head)) return 'has no X-Request-Id'
  if (!/\r\ncontent-type: application\/json; charset=utf-8\r\n/i.test(head)) return 'is not sent as JSON'
  return undefined
}
