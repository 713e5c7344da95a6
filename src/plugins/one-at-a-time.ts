import { ServerResponse, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { makeLast } from '../reply.ts'

/** Requests of one connection that may wait for the answer to the one before; no client in use sends as many in advance. */
const MAX_WAITING = 100
/** And what their heads may take, in bytes: a hundred of browsers take less, while Node allows 16 KB of two thousand headers each. */
const MAX_WAITING_BYTES = 512 * 1024
/** What a header takes beside its letters, in bytes: as seen with 80 heads of 2,000 headers of five letters each. */
const HEADER_BYTES = 100

interface Waiting { requests: number, bytes: number }

const waiting = new WeakMap<object, Waiting>()

const bytesOf = ({ rawHeaders }: IncomingMessage): number => rawHeaders.reduce((sum, text) => sum + text.length + HEADER_BYTES / 2, 0)

/**
 * An answer that keeps its place among those of its connection, where Node's own does not.
 *
 * Behind one that has ended the connection comes none: Node hands over what came in the same packet, and gives it the
 * socket, though the connection is over. Requests would be carried out that nobody is told about (RFC 9112, 9.6 forbids
 * it), and if one was let past others that wait, Node ends the process.
 *
 * One to a request with `Upgrade` is the last. Nothing here is upgraded, and Node goes on as if it hadn't been asked, but
 * its parser has stopped: it forgets what else came in the packet, and takes the middle of a body for a request.
 *
 * A 100 comes before its answer, or not at all: Node puts it behind the head of one that has to wait for its turn.
 */
export class AnswerInTurn<Request extends IncomingMessage> extends ServerResponse<Request> {
  override assignSocket (socket: Socket): void {
    if (!socket.writable) return
    if (this.req.headers.upgrade !== undefined) makeLast(this)
    super.assignSocket(socket)
  }

  override writeContinue (callback?: () => void): void {
    if (this.socket === null) this.once('socket', () => { if (!this.headersSent) super.writeContinue(callback) })
    else super.writeContinue(callback)
  }
}

/**
 * Begins a request only when those before it on its connection are answered. Node hands over all requests of a packet at
 * once, a thousand of them in 64 KB, while their answers go out one after the other: each would hold its file descriptor,
 * its place in the pool and its megabytes of answer until a client that may never read is done with the one before.
 *
 * To be called before other hooks of the scope are added. The public read goes without: its answers are in memory anyway.
 */
export function oneAtATime (scope: FastifyInstance): void {
  scope.addHook('onRequest', ({ raw: request }, { raw: response }, done) => {
    // Node gives an answer its socket when it is its turn to be sent.
    if (response.socket !== null) {
      done()
      return
    }
    const { socket } = request
    const before = waiting.get(socket) ?? { requests: 0, bytes: 0 }
    const bytes = bytesOf(request)
    if (before.requests >= MAX_WAITING || before.bytes + bytes > MAX_WAITING_BYTES) {
      socket.destroy()
      return
    }
    before.requests++
    before.bytes += bytes
    waiting.set(socket, before)
    response.once('socket', () => {
      before.requests--
      before.bytes -= bytes
      done()
    })
  })
}
