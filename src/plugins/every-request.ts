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

/** What a Host is made of (RFC 3986, 3.2.2). The server joins several with a comma and a space, which is none. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/
/** The last one that was right: nearly every request has the same, and comparing is cheaper than matching. */
let knownHost: string | undefined

/**
 * Refuses a request without a Host, which Node would answer by itself with an empty body, and one with two or with what
 * can't be one (RFC 9112, 3.2): two servers on the way might each believe another.
 *
 * @throws a 400
 */
export function requireHost ({ raw }: FastifyRequest): void {
  const { host } = raw.headers
  if (host !== undefined && host === knownHost) return
  if (host === undefined ? raw.httpVersionMinor === 1 : !HOST.test(host)) throw Object.assign(new Error('no Host header, or more than one'), { statusCode: 400 })
  knownHost = host
}

export default fp(async (app) => {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    requireHost(request)
    done()
  })
}, { name: 'every-request' })
