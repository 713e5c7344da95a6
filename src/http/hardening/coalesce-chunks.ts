// Attack: a chunked body with one byte per chunk. Each chunk becomes a Buffer of about 100 bytes.
// Test: test/integration/hostile/pieces.test.ts
// nginx: stops it (sends larger chunks)

import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

/** Smaller chunks are joined up to this size, larger ones pass unchanged. */
const GATHERED_BYTES = 4096

/** Joins small chunks that arrive together. Must be called before asynchronous hooks are added. */
export function coalesceChunks (scope: FastifyInstance): void {
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
    // Copied unless full, so that a reader that keeps a few bytes doesn't keep the whole buffer.
    const bytes = length === GATHERED_BYTES ? gathered : Buffer.from(gathered.subarray(0, length))
    if (bytes === gathered) gathered = undefined
    length = 0
    return push(bytes)
  }

  body.push = (chunk: Buffer | null): boolean => {
    if (chunk === null || chunk.length >= GATHERED_BYTES) {
      const wantsMore = flush()
      return push(chunk) && wantsMore
    }
    let wantsMore = true
    if (length + chunk.length > GATHERED_BYTES) wantsMore = flush()
    gathered ??= Buffer.allocUnsafeSlow(GATHERED_BYTES)
    chunk.copy(gathered, length)
    length += chunk.length
    if (!scheduled) {
      scheduled = true
      // process.nextTick would run between two chunks of the same packet.
      setImmediate(() => {
        scheduled = false
        if (!flush()) body.socket.pause()
      })
    }
    return wantsMore
  }
}
