import { ServerResponse, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Requests of one connection that may wait for the answer to the one before; no client in use sends as many in advance. */
const MAX_WAITING = 100

const waiting = new WeakMap<object, number>()

/**
 * An answer that keeps its place among those of its connection, where Node's own does not.
 *
 * Behind one that has ended the connection comes none: Node hands over what came in the same packet, and gives it the
 * socket, though the connection is over. Requests would be carried out that nobody is told about (RFC 9112, 9.6 forbids
 * it), and if one was let past others that wait, Node ends the process.
 *
 * A 100 comes before its answer, or not at all: Node puts it behind the head of one that has to wait for its turn.
 */
export class AnswerInTurn<Request extends IncomingMessage> extends ServerResponse<Request> {
  override assignSocket (socket: Socket): void {
    if (socket.writable) super.assignSocket(socket)
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
  scope.addHook('onRequest', ({ raw: { socket } }, { raw: response }, done) => {
    // Node gives an answer its socket when it is its turn to be sent.
    if (response.socket !== null) {
      done()
      return
    }
    const before = waiting.get(socket) ?? 0
    if (before >= MAX_WAITING) {
      socket.destroy()
      return
    }
    waiting.set(socket, before + 1)
    response.once('socket', () => {
      waiting.set(socket, (waiting.get(socket) as number) - 1)
      done()
    })
  })
}
