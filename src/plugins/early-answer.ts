import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { onSendAsyncHookHandler } from 'fastify'

/** What is still read from a client that was refused in the middle of its body. */
export interface DrainLimits {
  readonly bytes: number
  /** In all. */
  readonly durationMs: number
  /** Without a byte. */
  readonly idleMs: number
}

const LIMITS: DrainLimits = { bytes: 128 * 1024 * 1024, durationMs: 30_000, idleMs: 5_000 }

/**
 * An `onSend` hook for scopes whose routes may answer before they have read the body. Closing at once would reset the connection
 * and often take the answer with it (RFC 9112, 9.6); so the whole answer goes out with `Connection: close`, and the
 * connection closes when the client has stopped sending, or has sent more than anybody needs to.
 */
export function answerEarly (limits: DrainLimits = LIMITS): onSendAsyncHookHandler {
  return async (request, reply, payload) => {
    const { raw } = request
    if (!awaitsBody(raw) || (typeof payload !== 'string' && !Buffer.isBuffer(payload))) return payload
    reply.header('connection', 'close')
    reply.header('content-length', Buffer.byteLength(payload))
    let sent = false
    const answer = new Readable({
      read () {
        if (sent) return
        sent = true
        this.push(payload)
        drain(raw, limits).then(() => this.push(null))
      }
    })
    return answer
  }
}

function awaitsBody (raw: IncomingMessage): boolean {
  if (raw.complete || raw.readableEnded || raw.destroyed) return false
  return raw.headers['transfer-encoding'] !== undefined || Number(raw.headers['content-length'] ?? 0) > 0
}

/** Reads and forgets. Resolves at the end of the body, when its client has gone, or when a limit is reached. */
async function drain (raw: IncomingMessage, { bytes, durationMs, idleMs }: DrainLimits): Promise<void> {
  let left = bytes
  await new Promise<void>((resolve) => {
    const idle = setTimeout(done, idleMs)
    const duration = setTimeout(done, durationMs)
    function onData (chunk: Uint8Array): void {
      left -= chunk.byteLength
      idle.refresh()
      if (left < 0) done()
    }
    function done (): void {
      clearTimeout(idle)
      clearTimeout(duration)
      raw.off('data', onData).off('end', done).off('close', done)
      raw.pause()
      resolve()
    }
    raw.unpipe()
    raw.on('data', onData).once('end', done).once('close', done).once('error', done)
    raw.resume()
  })
}
