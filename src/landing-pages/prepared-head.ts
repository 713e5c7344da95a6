import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { Writable } from 'node:stream'
import type { ServingSocket } from '../reply.ts'

// Answers whose header lines were made beforehand.
//
// Node checks and assembles each header of each answer anew: with the dozen that a public read has that is an eighth of
// the whole rate (bench/README.md). It has no public way to send lines that are known to be right, but does so itself
// when `_header` is set, the field in which it keeps the assembled head. A body has room for a head before it, so that
// both go out as one piece, which saves another tenth. This is done where it was seen to give the very bytes that
// `writeHead` and `end` give (`isSupported`), for plain keep-alive answers; everything else goes the usual way.

type Internal = ServerResponse & { _header: string | null, _headerSent: boolean }

/** Before each body; a head that is longer is sent apart. */
const ROOM_BYTES = 1024
/** Longer bodies seldom leave in one piece. */
const MAX_FRAMED_BYTES = 128 * 1024

const STATUS_LINES = new Map([200, 304, 404, 429].map((status) => [status, `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`]))

/** Header lines, each ended by CRLF. The names and values must be valid: nobody checks them again. */
export const headerLines = (...headers: readonly (readonly [name: string, value: string])[]): string =>
  headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')

/** A body with room for the head of its answers, which are sent one after the other. */
export class Body {
  /** What is sent after the head. */
  readonly bytes: Buffer
  readonly #frame: Buffer
  /** The connection that still needs the head as it is, until all of it is sent. */
  #lentTo: Socket | undefined

  /** @param bytes are copied: what a driver gives is a part of a larger buffer, which would be kept with it */
  constructor (bytes: Uint8Array) {
    this.#frame = Buffer.allocUnsafeSlow(ROOM_BYTES + bytes.length)
    this.#frame.set(bytes, ROOM_BYTES)
    this.bytes = this.#frame.subarray(ROOM_BYTES)
  }

  /** Memory that it takes, in bytes. */
  get size (): number {
    return this.#frame.length
  }

  /**
   * Writes a head and the body in one piece.
   *
   * @returns false where that can't be done now: the head is too long, the body too, or a client that reads slowly has
   *   not got all of its answer yet
   */
  writeTo (socket: Socket, head: string): boolean {
    const start = ROOM_BYTES - head.length
    if (start < 0 || this.#frame.length > MAX_FRAMED_BYTES || this.#isLent()) return false
    this.#frame.write(head, start, 'latin1')
    socket.write(this.#frame.subarray(start))
    if (socket.writableLength > 0) this.#lentTo = socket
    return true
  }

  #isLent (): boolean {
    if (this.#lentTo === undefined) return false
    if (this.#lentTo.writableLength > 0 && !this.#lentTo.destroyed) return true
    this.#lentTo = undefined
    return false
  }
}

/** Writes whole answers from prepared header lines. */
export class PreparedHeads {
  readonly #isSupported: boolean
  readonly #keepAlive: string
  /** The lines that Node would add, and until when the time in them is right. */
  #closing = ''
  #closingUntil = 0

  private constructor (isSupported: boolean, keepAliveTimeoutMs: number) {
    this.#isSupported = isSupported
    this.#keepAlive = `Connection: keep-alive\r\n${keepAliveTimeoutMs > 0 ? `Keep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1000)}\r\n` : ''}\r\n`
  }

  /**
   * Looks first whether this Node sends prepared heads as it sends others.
   *
   * @param keepAliveTimeoutMs the server's `keepAliveTimeout`
   */
  static async create (keepAliveTimeoutMs: number): Promise<PreparedHeads> {
    return new PreparedHeads(await isSupported(), keepAliveTimeoutMs)
  }

  /** Whether heads are sent as they are prepared. */
  get isSupported (): boolean {
    return this.#isSupported
  }

  /**
   * Sends an answer with a known length.
   *
   * @param lines all its headers but those that Node adds (Date, Connection, Keep-Alive)
   * @param body undefined where there is none to be sent; a string is short and all ASCII
   * @param now the process clock, in milliseconds
   */
  send (response: ServerResponse, status: 200 | 304 | 404 | 429, lines: string, body: Body | string | undefined, now: number): void {
    const sent = response.req.method === 'HEAD' ? undefined : body
    if (this.#isSupported && isPlain(response)) {
      if (now >= this.#closingUntil) this.#renewClosing(now)
      response.statusCode = status
      sendPrepared(response, STATUS_LINES.get(status) + lines + this.#closing, sent)
    } else {
      response.writeHead(status, headersOf(lines).flat()).end(sent instanceof Body ? sent.bytes : sent)
    }
  }

  #renewClosing (now: number): void {
    const date = new Date()
    this.#closing = `Date: ${date.toUTCString()}\r\n${this.#keepAlive}`
    this.#closingUntil = now + 1000 - date.getMilliseconds()
  }
}

/** The headers of lines that `headerLines` made. */
export const headersOf = (lines: string): [name: string, value: string][] => lines.split('\r\n').slice(0, -1).map((line) => {
  const colon = line.indexOf(': ')
  return [line.slice(0, colon), line.slice(colon + 2)]
})

function sendPrepared (response: ServerResponse, head: string, body: Body | string | undefined): void {
  const internal = response as Internal
  if (!(body instanceof Body)) {
    internal._header = body === undefined ? head : head + body
    response.end()
    return
  }
  internal._header = head
  const { socket } = response
  if (socket !== null && isTurnOf(response, socket) && body.writeTo(socket, head)) {
    internal._headerSent = true
    response.end()
  } else {
    response.end(body.bytes)
  }
}

/** Whether what is written to the socket now is this answer and goes out at once: none before it waits. */
const isTurnOf = (response: ServerResponse, socket: ServingSocket): boolean =>
  socket._httpMessage === response && socket.writableLength === 0 && socket.writable

/** Whether nobody has a say in the head: no header set before, no replaced method, a connection that goes on. */
function isPlain (response: ServerResponse): boolean {
  return response.writeHead === ServerResponse.prototype.writeHead && response.shouldKeepAlive && response.req.httpVersionMinor === 1 &&
    !response.hasHeader('connection')
}

/** Whether an answer whose head is set beforehand is, byte for byte, the one that `writeHead` makes. */
async function isSupported (): Promise<boolean> {
  const headers = [['content-type', 'text/plain'], ['content-length', '2']] as const
  try {
    const usual = await written((response) => response.writeHead(200, headers.flat()).end('ok'))
    const closing = usual.slice(usual.indexOf('Date:'), usual.indexOf('\r\n\r\n') + 4)
    const head = STATUS_LINES.get(200) + headerLines(...headers) + closing
    const prepared = await Promise.all(['ok', new Body(Buffer.from('ok'))].map(async (body) => await written((response) => sendPrepared(response, head, body))))
    return prepared.every((bytes) => bytes === usual) && usual.startsWith('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n')
  } catch {
    return false
  }
}

async function written (answer: (response: ServerResponse) => void): Promise<string> {
  const request = new IncomingMessage(new Socket())
  Object.assign(request, { method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 })
  const response = new ServerResponse(request)
  let bytes = ''
  response.assignSocket(new Writable({ decodeStrings: false, write (chunk, _encoding, done) { bytes += chunk.toString('latin1'); done() } }) as Socket)
  await new Promise<void>((resolve) => {
    response.once('finish', resolve)
    answer(response)
  })
  return bytes
}
