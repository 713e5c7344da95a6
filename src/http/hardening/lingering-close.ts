// Attack: none. A client that is refused while it sends a large body could lose the response (RFC 9112, 9.6).
// Test: test/integration/assets/network.test.ts
// nginx: does the same (`lingering_close`)

import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { onSendAsyncHookHandler } from 'fastify'

/** Limits for reading the rest of a body after the response. */
interface DiscardLimits {
  readonly bytes: number
  readonly durationMs: number
  /** Longest pause between two chunks. */
  readonly idleMs: number
}

const LIMITS: DiscardLimits = { bytes: 128 * 1024 * 1024, durationMs: 30_000, idleMs: 5_000 }

/**
 * Creates an `onSend` hook for routes that may respond before they have read the body. The connection closes
 * when the client has stopped sending or a limit is reached. Closing it earlier could discard the response.
 */
export function lingeringClose (limits: DiscardLimits = LIMITS): onSendAsyncHookHandler {
  return async (request, reply, payload) => {
    const { raw } = request
    if (!awaitsBody(raw) || (typeof payload !== 'string' && !Buffer.isBuffer(payload))) return payload
    reply.header('connection', 'close')
    // The length of a response to HEAD is that of the GET. It has no body that could be lost.
    if (request.method === 'HEAD') return payload
    reply.header('content-length', Buffer.byteLength(payload))
    let sent = false
    const response = new Readable({
      read () {
        if (sent) return
        sent = true
        this.push(payload)
        discardBody(raw, limits).then(() => this.push(null))
      }
    })
    return response
  }
}

function awaitsBody (raw: IncomingMessage): boolean {
  if (raw.complete || raw.readableEnded || raw.destroyed) return false
  return raw.headers['transfer-encoding'] !== undefined || Number(raw.headers['content-length'] ?? 0) > 0
}

/** Resolves at the end of the body, when the client disconnects, or when a limit is reached. */
async function discardBody (
  raw: IncomingMessage,
  { bytes, durationMs, idleMs }: DiscardLimits
): Promise<void> {
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
