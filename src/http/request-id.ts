import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import fp from 'fastify-plugin'

// Every request has an id. Users can report it, because it is in the response as well as in the log.

/** Ids consist of a random prefix and a counter. UUIDs would make public reads 2 % slower. */
const prefix = randomBytes(9).toString('base64url')
let last = 0

/** Fastify's `genReqId`: returns the client's id if it is short and safe to log, otherwise a new one. */
export function requestId (request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\w.:/+=@-]{1,128}$/.test(given) ? given
    : `${prefix}-${(last++).toString(36)}`
}

export default fp(async (app) => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
}, { name: 'request-id' })
