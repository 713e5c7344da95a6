// Attack: a JSON body that is sent byte by byte to keep memory and a connection in use.
// Test: test/integration/hostile/slow-clients.test.ts
// nginx: stops long pauses, but not a steady trickle

import type { FastifyInstance } from 'fastify'
import { RequestTimeoutError } from '../../errors.ts'
import { isJson } from '../json-body.ts'

/** Methods whose bodies Fastify doesn't read. */
const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD', 'TRACE'])

/**
 * Adds a hook that answers 408 if a JSON body takes too long to arrive.
 *
 * @param timeoutMs time limit for the whole body, in milliseconds
 */
export function limitBodyTime (scope: FastifyInstance, timeoutMs: number): void {
  scope.addHook('preParsing', (request, reply, payload, done) => {
    // If the client disconnected during authentication, no event would clear the timer.
    if (isJson(request) && !METHODS_WITHOUT_BODY.has(request.method) && !payload.destroyed) {
      // destroy() would close the connection before the response is sent. An 'error' event without a listener
      // would end the process.
      const timer = setTimeout(() => {
        if (payload.listenerCount('error') > 0) payload.emit('error', new RequestTimeoutError())
      }, timeoutMs)
      const clear = () => clearTimeout(timer)
      payload.once('end', clear).once('close', clear)
      reply.raw.once('close', clear) // for bodies that aren't read to the end
    }
    done(null, payload)
  })
}
