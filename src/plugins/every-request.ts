import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import fp from 'fastify-plugin'
import type { FastifyRequest } from 'fastify'

// What every request has: an id, which its answer names, so that a user's report finds its line in the log; and a Host.

/** Ids of this process: a random beginning and a number. A UUID for each request costs a fiftieth of the rate of public reads. */
const prefix = randomBytes(9).toString('base64url')
let last = 0

/** For Fastify's `genReqId`: the client's own id when it is sane (it ends up in logs), else a new one. */
export function requestId (request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\w.:/+=@-]{1,128}$/.test(given) ? given : `${prefix}-${(last++).toString(36)}`
}

/**
 * Refuses a request without a Host, which Node would answer by itself with an empty body.
 *
 * @throws a 400
 */
export function requireHost ({ raw }: FastifyRequest): void {
  if (raw.headers.host === undefined && raw.httpVersionMinor === 1) throw Object.assign(new Error('no Host header'), { statusCode: 400 })
}

export default fp(async (app) => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    requireHost(request)
    done()
  })
}, { name: 'every-request' })
