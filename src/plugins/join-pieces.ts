import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

/** Pieces of a body are gathered up to so many bytes; larger ones are handed on as they are. */
const GATHERED_BYTES = 4096

/**
 * Joins the pieces of a chunked body that arrive together. A client may send each byte as a chunk of its own; Node makes
 * a Buffer for each, which takes a hundred times as much memory, and whoever reads the body keeps them until its end.
 *
 * To be called before any other hook of the scope is added: bytes may come at any time after.
 */
export function joinPieces (scope: FastifyInstance): void {
  scope.addHook('onRequest', ({ raw }, _reply, done) => {
    if (raw.headers['transfer-encoding'] !== undefined) join(raw)
    done()
  })
}

function join (body: IncomingMessage): void {
  const push = body.push.bind(body)
  let gathered: Buffer | undefined
  let length = 0
  let scheduled = false
  const flush = (): boolean => {
    if (gathered === undefined || length === 0) return true
    // In full, or as a copy of its own: what is kept of it must not keep the rest.
    const bytes = length === GATHERED_BYTES ? gathered : Buffer.from(gathered.subarray(0, length))
    if (bytes === gathered) gathered = undefined
    length = 0
    return push(bytes)
  }

  body.push = (piece: Buffer | null): boolean => {
    if (piece === null || piece.length >= GATHERED_BYTES) {
      const wantsMore = flush()
      return push(piece) && wantsMore
    }
    let wantsMore = true
    if (length + piece.length > GATHERED_BYTES) wantsMore = flush()
    gathered ??= Buffer.allocUnsafeSlow(GATHERED_BYTES)
    piece.copy(gathered, length)
    length += piece.length
    if (!scheduled) {
      scheduled = true
      // When all that has arrived is read; a tick comes between any two pieces.
      setImmediate(() => {
        scheduled = false
        if (!flush()) body.socket.pause()
      })
    }
    return wantsMore
  }
}
