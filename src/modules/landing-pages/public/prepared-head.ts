import { ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { isNextOn, keepsConnection, markHeadAsSent, setPreparedHead,
  takesPreparedHead } from '../../../http/hardening/node-internals.ts'

// Sends responses with header lines formatted in advance (docs/adr/0002-prepared-response-heads.md).

/** Bytes reserved for the head in front of each body. A longer head is sent separately. */
const HEAD_BYTES = 1024
/** The longest head and body that are sent in one write. The kernel rarely takes more at once. */
const MAX_FRAMED_BYTES = 128 * 1024

const STATUS_LINES = new Map([200, 304, 404, 412, 429].map((
  status
) => [status, `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`]))

/** Formats header lines. Names and values must be valid, because they aren't checked. */
export const headerLines = (...headers: readonly (readonly [name: string, value: string])[]): string =>
  headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')

/** A body with reserved space in front of it, to which the head of each response is written. */
export class Body {
  /** The body without the head. */
  readonly bytes: Buffer
  readonly #frame: Buffer
  /** The connection that is still sending the current head, which must not be overwritten until then. */
  #sendingTo: Socket | undefined

  /** Copies bytes: they may be part of a larger buffer of the driver, which would stay in memory. */
  constructor (content: Uint8Array | string) {
    const length = typeof content === 'string' ? Buffer.byteLength(content) : content.length
    this.#frame = Buffer.allocUnsafeSlow(HEAD_BYTES + length)
    this.bytes = this.#frame.subarray(HEAD_BYTES)
    if (typeof content === 'string') this.bytes.write(content)
    else this.bytes.set(content)
  }

  /** The memory that it uses, in bytes. */
  get size (): number {
    return this.#frame.length
  }

  /**
   * Sends a head and the body in one write.
   *
   * @returns false if nothing was sent: one of them is too long, or the previous head is still being sent
   */
  writeTo (socket: Socket, head: string): boolean {
    const start = HEAD_BYTES - head.length
    if (start < 0 || this.#frame.length > MAX_FRAMED_BYTES || this.#isSending()) return false
    this.#frame.write(head, start, 'latin1')
    socket.write(this.#frame.subarray(start))
    if (socket.writableLength > 0) this.#sendingTo = socket
    return true
  }

  #isSending (): boolean {
    if (this.#sendingTo === undefined) return false
    if (this.#sendingTo.writableLength > 0 && !this.#sendingTo.destroyed) return true
    this.#sendingTo = undefined
    return false
  }
}

/** Sends responses from prepared header lines. */
export class PreparedHeads {
  readonly #keepAlive: string
  /** The lines that Node would add (Date, Connection, Keep-Alive), renewed every second. */
  #lastLines = ''
  #lastLinesUntil = 0

  /** @param keepAliveTimeoutMs the server's `keepAliveTimeout` */
  constructor (keepAliveTimeoutMs: number) {
    const timeout = keepAliveTimeoutMs > 0
      ? `Keep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1000)}\r\n` : ''
    this.#keepAlive = `Connection: keep-alive\r\n${timeout}\r\n`
  }

  /**
   * Sends a response.
   *
   * @param lines all header lines except those that Node adds (Date, Connection, Keep-Alive)
   * @param body a string must be short and ASCII; undefined for no body
   * @param now the process clock, in milliseconds
   */
  send (
    response: ServerResponse,
    status: 200 | 304 | 404 | 412 | 429,
    lines: string,
    body: Body | string | undefined,
    now: number
  ): void {
    const sent = response.req.method === 'HEAD' ? undefined : body
    if (canSendPrepared(response)) {
      if (now >= this.#lastLinesUntil) this.#renewLastLines(now)
      response.statusCode = status
      sendPrepared(response, STATUS_LINES.get(status) + lines + this.#lastLines, sent)
    } else {
      response.writeHead(status, headersOf(lines).flat()).end(sent instanceof Body ? sent.bytes : sent)
    }
  }

  #renewLastLines (now: number): void {
    const date = new Date()
    this.#lastLines = `Date: ${date.toUTCString()}\r\n${this.#keepAlive}`
    this.#lastLinesUntil = now + 1000 - date.getMilliseconds()
  }
}

/** Parses the result of `headerLines`. */
export const headersOf = (lines: string): [name: string, value: string][] =>
  lines.split('\r\n').slice(0, -1).map((line) => {
    const colon = line.indexOf(': ')
    return [line.slice(0, colon), line.slice(colon + 2)]
  })

function sendPrepared (response: ServerResponse, head: string, body: Body | string | undefined): void {
  if (!(body instanceof Body)) {
    setPreparedHead(response, body === undefined ? head : head + body)
    response.end()
    return
  }
  setPreparedHead(response, head)
  const { socket } = response
  if (socket !== null && isNextOn(socket, response) && body.writeTo(socket, head)) {
    markHeadAsSent(response)
    response.end()
  } else {
    response.end(body.bytes)
  }
}

/** Whether a prepared head fits: HTTP/1.1, the connection is kept, and `writeHead` has not been replaced. */
const canSendPrepared = (response: ServerResponse): boolean =>
  response.writeHead === ServerResponse.prototype.writeHead && keepsConnection(response) &&
  response.req.httpVersionMinor === 1 && takesPreparedHead(response)
